"""Scores: one number per head, by site and layer; higher always means more important."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jaxtyping import Float64
from torch import Tensor, nn

from headcount.core import LayerId

Scores = Mapping[LayerId, Float64[Tensor, " _"]]
"""One score per head of each layer."""


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
