"""Gates in a training: drawn, relaxed or fixed, in two lines of any transformers Trainer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
