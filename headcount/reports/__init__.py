"""Reports: pure functions from the records of a run to pages, figures and documents."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
