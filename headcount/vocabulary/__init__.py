"""One row for each role, trait, skill, column, relation and kind of input: its name and words."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
