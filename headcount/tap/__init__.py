"""The tap: one function that sees every attention call of a model and can gate each head."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
