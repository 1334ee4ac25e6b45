"""Typed records of a run: the only package that reads or writes the files of run folders."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
