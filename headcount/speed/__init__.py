"""Speed: how much faster a pruned model is, and how much faster it could be."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
