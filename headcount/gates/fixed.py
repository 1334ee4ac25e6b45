"""Fixed: gates that are given and never change, for training with the kept heads."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import Gates, ModelError
from headcount.gates.head_gates import HeadGates


@final
class Fixed(HeadGates):
    """The same gates for every batch, e.g. those of a plan.

    Args:
        gates: one factor per head, by site and layer; other layers are not gated.

    Raises:
        ModelError: if a gate is not a finite number.
    """

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self._places = tuple(gates)
        for number, ((site, layer), gate_H) in enumerate(gates.items()):
            if not gate_H.isfinite().all():
                raise ModelError(
                    f"Expected finite gates, got {gate_H.tolist()} for layer {layer} of {site}. "
                    "Correct these values."
                )
            self.register_buffer(f"gate_{number}", gate_H.detach().clone(), persistent=False)

    def forward(self) -> Gates:
        """The given gates."""
        return {place: self.get_buffer(f"gate_{n}") for n, place in enumerate(self._places)}

    def penalty(self) -> Float[Tensor, ""]:
        """A penalty of 0: fixed gates add nothing to the loss."""
        return torch.zeros(())

    def advance(self, share: int | float) -> None:
        """Do nothing: fixed gates have no schedule."""

    def settle(self) -> None:
        """Do nothing: fixed gates do not move."""

    def numbers(self) -> dict[str, float]:
        """An empty log entry, since nothing changes."""
        return {}
