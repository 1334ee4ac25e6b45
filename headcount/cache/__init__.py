"""Cache: the keys that each group of a language model keeps, as a plan and in memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
