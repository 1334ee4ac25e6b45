"""Tuning: everything that decides how a trained model is trained on, but for the data."""

import math
from dataclasses import dataclass
from typing import Literal, final

from headcount.errors import InputError

Trained = Literal["all", "encoder", "gates"]


@final
@dataclass(frozen=True)
class Tuning:
    """How a model is trained on: the same for a control, for gates, and for recovery.

    Raises:
        InputError: for a value that can't be, with the field's name.
    """

    updates: int = 1000
    """Steps of the optimizer."""
    batch_tokens: int = 4096
    """Padded tokens in a batch of one process."""
    accumulate: int = 1
    """Batches of one process whose gradients add up to one step."""
    peak: float = 1e-4
    """Learning rate at the end of the warm-up."""
    warmup: int = 50
    """Steps over which the learning rate grows from 0 to its peak."""
    schedule: Literal["linear", "constant_with_warmup"] = "linear"
    """After the warm-up: down to 0 at the last step, or as it is."""
    clip: float = 1.0
    """Norm that gradients are cut down to."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products (autocast); weights are float32."""
    trained: Trained = "all"
    """What learns beside the gates: everything; the encoder, but for what the decoder shares; or
    nothing."""
    label_smoothing: float = 0.0
    """Share of the probability that goes to all answers alike; where answers are chosen."""
    distilled: float = 0.0
    """Share of the loss that is distance from a teacher."""
    temperature: float = 1.0
    """Of teacher and student in that distance."""
    gate_rate: float = 0.1
    """Learning rate of gates, where that of weights is at its peak."""
    save_every: int = 500
    """Steps between two checkpoints."""

    def __post_init__(self) -> None:
        for name in ("updates", "batch_tokens", "accumulate", "peak", "clip", "save_every",
                     "temperature", "gate_rate"):  # fmt: skip
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"a finite {name} above 0 was expected; came {value}")
        if self.warmup < 0:
            raise InputError(f"a warmup of at least 0 steps was expected; came {self.warmup}")
        for name, highest in (("label_smoothing", 0.999), ("distilled", 1)):
            if not 0 <= getattr(self, name) <= highest:
                raise InputError(
                    f"a {name} between 0 and {highest} was expected; came {getattr(self, name)}"
                )
