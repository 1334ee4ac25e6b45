"""Pruning: which heads are pruned under an exact budget, and what makes up for them."""

import lazy_loader

from headcount.core import retired

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = retired(
    __name__,
    {"check_budget": ("BudgetSpec", "Make a BudgetSpec: it checks itself.")},
    _own,
)
