"""Options of an assessment: the methods, and how each of them scores heads. Needs no torch."""

from dataclasses import dataclass
from typing import Literal, final

from headcount.core import check_choice

MethodName = Literal["gradient", "relevance", "ablation", "norm", "sink"]

Level = Literal["token", "sample", "batch"]
"""Unit over which gradients are summed before the absolute value is taken."""

Rules = Literal["voita2019", "attnlrp", "alpha_beta"]
"""Rule set of layer-wise relevance propagation."""

Instead = Literal["zero", "mean", "uniform"]
"""Replacement for an ablated head's output."""

DeltaOf = Literal["loss", "score"]
"""Quantity whose change an ablation measures."""

METHODS: tuple[MethodName, ...] = ("gradient", "relevance", "ablation", "norm", "sink")
"""Every method, cheap ones first."""


@final
@dataclass(frozen=True)
class Methods:
    """The methods to run, and their options.

    Raises:
        InputError: If a level, replacement or quantity is unknown.
    """

    names: tuple[str, ...] = METHODS
    level: Level = "sample"
    """Quantity whose absolute value gradient importance takes."""
    normalise: bool = True
    """Whether gradient importance is divided by its norm over the layer's heads."""
    rules: Rules = "voita2019"
    """Rule set of relevance."""
    instead: Instead = "zero"
    """Replacement for an ablated head's output."""
    quantity: DeltaOf = "loss"
    """Quantity whose change an ablation measures."""
    layers: bool = True
    """Whether to also ablate whole layers and whole sites."""
    one_left: bool = True
    """Whether to also ablate all heads of a layer but one."""
    num_samples: int | None = None
    """Number of bootstrap resamples; None for as many as the number of heads needs."""
    seed: int = 0
    """Seed of the bootstrap."""
    max_tokens: int = 4096
    """Number of padded tokens in a batch."""

    def __post_init__(self) -> None:
        check_choice("a level", self.level, Level)
        check_choice("a replacement", self.instead, Instead)
        check_choice("a quantity", self.quantity, DeltaOf)
