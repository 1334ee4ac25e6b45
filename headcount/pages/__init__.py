"""What is shown: renderers of documents, the page of an analysis, maps, cards and figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
