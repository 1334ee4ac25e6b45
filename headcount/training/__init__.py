"""Training: models from scratch and fine-tuning, with transformers' Trainer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
