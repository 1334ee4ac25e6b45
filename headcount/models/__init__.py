"""Models: loading them, finding their attention layers, checking the tap on them."""

from headcount.models.anatomy import Anatomy, AttentionLayer
from headcount.models.load import Loaded, as_loaded, load
from headcount.models.random_copy import random_copy
from headcount.models.selfcheck import examine, gated, tapped

__all__ = [
    "Anatomy",
    "AttentionLayer",
    "Loaded",
    "as_loaded",
    "examine",
    "gated",
    "load",
    "random_copy",
    "tapped",
]
