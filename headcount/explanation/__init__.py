"""Explanation of predictions: what each head adds to a logit, and what is predicted without it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
