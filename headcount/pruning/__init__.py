"""Pruning: which heads are pruned under an exact budget, and what makes up for them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
