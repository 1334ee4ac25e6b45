"""Causal gates of an assessment: on which heads all of them agree, and what these are worth."""

from dataclasses import dataclass
from typing import final

AGREED = 0.5
"""A head is called facilitating or interfering if it is so by more than this in every set."""


@final
@dataclass(frozen=True, kw_only=True)
class GateCheck:
    """The loss without some heads, on examples that trained no gate."""

    left: str
    """What is left of the model: `only facilitating` heads or as many random ones (`only random`),
    all `without interfering` heads or as many random ones (`without random`), or all `without` one
    interfering head."""
    head: str = ""
    """The head that is removed; empty if there are several."""
    num_kept: int
    """Number of heads left."""
    delta: float
    """Rise of the loss; of random heads the mean over draws."""
    low: float
    """Lower end of the 95 % interval over examples; of random heads the smallest draw."""
    high: float
    """Upper end of the 95 % interval over examples; of random heads the largest draw."""


@final
@dataclass(frozen=True, kw_only=True)
class CausalGates:
    """What causal gates found beside the heads' numbers."""

    starts: int
    """Number of sets of gates on each half."""
    num_trained: tuple[int, ...]
    """Number of examples in each half that trained gates."""
    num_held_out: int
    """Number of examples that trained none."""
    loss: float
    """Loss of the dense model on the latter."""
    facilitating: tuple[str, ...]
    """Heads that every set keeps open although closed gates are rewarded."""
    interfering: tuple[str, ...]
    """Heads that every set keeps closed although open gates are rewarded."""
    facilitating_each: tuple[int, ...]
    """Number of facilitating heads of each set, half by half."""
    interfering_each: tuple[int, ...]
    """Number of interfering heads of each set, half by half."""
    facilitating_chance: float
    """Number of facilitating heads that sets of these sizes would share by chance."""
    interfering_chance: float
    """Number of interfering heads that sets of these sizes would share by chance."""
    starts_rho: float
    """Mean rank correlation of facilitation between starts on the same half; NaN of one start."""
    halves_rho: float
    """Rank correlation of facilitation between the halves, each the mean of its starts."""
    checks: tuple[GateCheck, ...]
    """What is left on examples that trained no gate."""
