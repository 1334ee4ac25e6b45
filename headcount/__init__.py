"""Which attention heads do the work, and how many can you let go.

>>> import headcount
>>> loaded = headcount.load("sentence-transformers/all-MiniLM-L6-v2")  # doctest: +SKIP
>>> analysis = headcount.analyze(loaded, headcount.Corpus("treebank.conllu"))  # doctest: +SKIP
>>> analysis.roles["enc.2.8"]  # doctest: +SKIP
"""

import lazy_loader

__version__ = "0.1.0"
"""The version of the package, which `pyproject.toml` reads."""

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
