"""Typed records of a run: the only package that reads or writes the files of run folders."""

import lazy_loader

from headcount.core import moved

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(__name__, {"analysis": "Claim Confirmation Outcome confirm"}, _own)
