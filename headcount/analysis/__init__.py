"""Analysis: one pass over a corpus, and what every head does by its numbers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
