"""Numbers as text for readers: percentages, counts, effects and p-values."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
