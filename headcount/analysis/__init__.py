"""Analysis: one pass over a corpus, and what every head does by its numbers."""

import lazy_loader

from headcount.core import moved

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(__name__, {"measures": "model_inputs translate"}, _own)
