"""The tiny models and their `examine` results, made once for all tests: do not change them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from torch import nn
from transformers import PreTrainedModel

from headcount.tap import Anatomy, examine
from tests import tiny


@cache
def examined(name: str) -> tuple[PreTrainedModel, Anatomy]:
    """A tiny model in float32."""
    model = tiny.TAPPED[name]()
    return model, examine(model)


@cache
def examined_double(name: str) -> tuple[PreTrainedModel, Anatomy]:
    """The same model in float64."""
    return tiny.TAPPED[name]().double(), examined(name)[1]


@contextmanager
def softmax_in_double() -> Iterator[None]:
    """Keep stock float64 models from computing their softmax in float32."""
    stock = nn.functional.softmax
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "softmax", lambda scores, dim, dtype=None: stock(scores, dim))
        yield
