"""Skills: what the heads of a language model can do that reading any text does not show."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
