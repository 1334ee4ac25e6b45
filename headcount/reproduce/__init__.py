"""Reproductions: a paper's tables and figures, our numbers beside the published ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
