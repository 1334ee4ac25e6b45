"""Tuning: everything that decides how a trained model is trained on, but for the data."""

import math
from dataclasses import dataclass, replace
from typing import Literal, final

from headcount.errors import InputError
from headcount.options import refuse_other
from headcount.training.optimization import Optimization

Trained = Literal["all", "encoder", "gates"]


@final
@dataclass(frozen=True)
class Tuning(Optimization):
    """How a model is trained on: the same for a control, for gates, and for recovery.

    Raises:
        InputError: for a value that can't be, with the field's name.
    """

    updates: int = 1000
    """Steps of the optimizer."""
    trained: Trained = "all"
    """What learns beside the gates: everything; the encoder, but for what a decoder shares; or
    nothing."""
    distilled: float = 0.0
    """Share of the loss that is distance from a teacher."""
    layerwise: float = 0.0
    """Weight of the distance from a teacher's hidden states after every layer, beside the loss."""
    temperature: float = 1.0
    """Of the logits of teacher and student, where `distilled` compares them."""
    dropout: float | None = None
    """What every dropout rate of the model above 0 is while it is trained; None for its own."""
    gate_rate: float = 0.1
    """Learning rate of gates, where that of weights is at its peak."""
    save_every: int = 500
    """Steps between two checkpoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_other("a trained part", self.trained, Trained)
        self._above_zero("updates", "save_every", "temperature", "gate_rate")
        if not 0 <= self.distilled <= 1:
            raise InputError(
                f"a number from 0 to 1 was expected for distilled; came {self.distilled}"
            )
        if self.dropout is not None:
            self._shares("dropout")
        if not 0 <= self.layerwise < math.inf:
            raise InputError(
                f"a finite number of at least 0 was expected for layerwise; came {self.layerwise}"
            )

    @property
    def is_taught(self) -> bool:
        """Whether there is a teacher."""
        return bool(self.distilled or self.layerwise)

    def untaught(self) -> "Tuning":
        """The same without a teacher and without gates."""
        return replace(
            self, distilled=0.0, layerwise=0.0, temperature=1.0, gate_rate=Tuning.gate_rate
        )
