"""Importance: what a head is worth by each of the scores, and by measured ablation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
