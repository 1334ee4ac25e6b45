"""How representations evolve from layer to layer, under different training objectives."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
