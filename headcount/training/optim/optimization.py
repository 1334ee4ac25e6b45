"""Optimization: how a training step is made, both from scratch and in fine-tuning."""

import math
from dataclasses import dataclass
from typing import Literal

from headcount.core import InputError, check_choice

Schedule = Literal["linear", "inverse_sqrt", "constant_with_warmup"]
Precision = Literal["float32", "bfloat16"]
Algorithm = Literal["adamw", "muon"]


@dataclass(frozen=True)
class Optimization:
    """Batches, learning rate and gradients of transformers' Trainer.

    Raises:
        InputError: for an invalid value; the error names the field.
    """

    batch_tokens: int = 4096
    """Number of padded tokens on the longer side of a batch, per process."""
    accumulate: int = 1
    """Number of batches per process whose gradients add up to one step."""
    peak: float = 1e-4
    """Learning rate at the end of the warm-up."""
    warmup: int = 50
    """Steps over which the learning rate rises from 0 to its peak."""
    schedule: Schedule = "linear"
    """Learning rate after the warm-up: falling linearly to 0 at the last step, falling with the
    inverse square root of the step, or constant."""
    optimizer: Algorithm = "adamw"
    """Optimizer of the layers' matrices; AdamW always trains embeddings, biases, norms, gates."""
    beta2: float = 0.999
    """AdamW's beta2; its beta1 is 0.9."""
    clip: float = 1.0
    """Largest norm of the gradients; larger gradients are scaled down to it."""
    precision: Precision = "float32"
    """Number format of matrix products in training (autocast); weights are float32."""
    label_smoothing: float = 0.0
    """Share of the probability spread evenly over all answers, in tasks that choose answers."""

    def __post_init__(self) -> None:
        check_choice("a schedule", self.schedule, Schedule)
        check_choice("an optimizer", self.optimizer, Algorithm)
        check_choice("a precision", self.precision, Precision)
        self._above_zero("batch_tokens", "accumulate", "peak", "clip")
        self._shares("beta2", "label_smoothing")
        if self.warmup < 0:
            raise InputError(f"Expected a warmup of at least 0 steps, got {self.warmup}.")

    def _above_zero(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"Expected a finite number above 0 for {name}, got {value}.")

    def _shares(self, *names: str) -> None:
        for name in names:
            if not 0 <= (value := getattr(self, name)) < 1:
                raise InputError(
                    f"Expected a number of at least 0 and below 1 for {name}, got {value}."
                )
