"""What every other package stands on: errors, heads, plans, files, run folders, options."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
