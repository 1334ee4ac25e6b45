"""The loop of a command: arguments, claiming, loading, progress, storing, printing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
