"""One row for each role, trait, column, relation and kind of input: how we name and explain it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
