"""Scores: one number per head, by site and layer; higher always means more important."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor, nn

from headcount.core import Heads, LayerId

Scores = Mapping[LayerId, Float64[Tensor, " _"]]
"""One score per head of each layer."""


def column(scores: Scores, heads: Heads) -> Float[np.ndarray, " row"]:
    """The scores in the order of `heads`, as a column of the head table."""
    return np.array([float(scores[head.layer_id][head.index]) for head in heads])


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Inside, no parameter requires a gradient; each gets its flag back afterwards."""
    wanting = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in wanting:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in wanting:
            parameter.requires_grad_(True)
