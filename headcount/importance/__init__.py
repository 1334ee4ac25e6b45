"""Importance: what a head is worth by each of the scores, and by measured ablation."""

import lazy_loader

from headcount.core import retired

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = retired(
    __name__,
    {"MethodName": ("SCORES", "Write str: plug-ins add scores, and SCORES has all names.")},
    _own,
)
