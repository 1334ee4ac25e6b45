"""Fixed: gates that are given and stay, for training with the heads that are left."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.errors import ModelError
from headcount.gates.head_gates import HeadGates
from headcount.tap import Gates


@final
class Fixed(HeadGates):
    """The same gates for every batch, e.g. those of a plan.

    Args:
        gates: one factor per head, by site and layer; other layers are left alone.

    Raises:
        ModelError: if one is not a finite number.
    """

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self._places = tuple(gates)
        for number, ((site, layer), gate_H) in enumerate(gates.items()):
            if not gate_H.isfinite().all():
                raise ModelError(
                    f"finite gates were expected; those of layer {layer} of {site} are "
                    f"{gate_H.tolist()}"
                )
            self.register_buffer(f"gate_{number}", gate_H.detach().clone(), persistent=False)

    def forward(self) -> Gates:
        """The gates."""
        return {place: self.get_buffer(f"gate_{n}") for n, place in enumerate(self._places)}

    def penalty(self) -> Float[Tensor, ""]:
        """None."""
        return torch.zeros(())

    def advance(self, share: int | float) -> None:
        """Nothing to set."""

    def settle(self) -> None:
        """Nothing to turn."""

    def numbers(self) -> dict[str, float]:
        """Nothing that changes."""
        return {}
