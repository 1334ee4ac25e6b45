"""Importance: what a head is worth by gradient, relevance, measured ablation, norm and sink."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
