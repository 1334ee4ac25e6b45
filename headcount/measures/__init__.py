"""Measures: what a head looks at. One file a measure, and each is sums that add."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
