"""What tests of heads need: tiny models of which every head is known.

Models: `planted_model`, which runs a `Program`, the heads `Planted` in it
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
