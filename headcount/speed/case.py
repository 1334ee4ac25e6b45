"""Case: one mode at one batch size and length, timed with two models."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from headcount.core import amount
from headcount.speed.timing import Ratio


@final
@dataclass(frozen=True)
class Case:
    """One mode, batch size and length to time."""

    mode: str
    batch: int
    """Number of examples in a batch."""
    length: int
    """Number of tokens in an example; for an encoder-decoder, on each side."""
    new_tokens: int = 0
    """Number of tokens to generate."""

    def __str__(self) -> str:
        return f"{self.mode}, batch {self.batch}, {self.size}"

    @property
    def size(self) -> str:
        """Length in words, with the tokens to generate."""
        if not self.new_tokens:
            return amount(self.length, "token")
        return f"{self.length} + {amount(self.new_tokens, 'token')}"

    @property
    def counted_tokens(self) -> int:
        """Number of tokens for the rate: generated tokens if there are any, else input tokens."""
        return self.batch * (self.new_tokens or self.length)


@final
@dataclass(frozen=True)
class Cost:
    """The cost of a case for one model."""

    seconds: float
    """Median over rounds, in seconds."""
    peak_bytes: float
    """Peak memory beyond weights and inputs, in bytes; NaN where it can't be measured."""
    flops: int

    def record(self, case: Case) -> dict[str, float]:
        """All numbers, with rates."""
        return {
            "latency_s": self.seconds,
            "examples_per_s": case.batch / self.seconds,
            "tokens_per_s": case.counted_tokens / self.seconds,
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
        }


@final
@dataclass(frozen=True, eq=False)
class Timing:
    """A case timed with two models; the dense model runs twice, to separate noise from speedup."""

    case: Case
    dense: Cost
    pruned: Cost
    seconds_RW: Float[np.ndarray, "round work"]
    """Seconds of dense, pruned and dense again in every round."""

    @property
    def speedup(self) -> Ratio:
        """Speedup of the pruned model: per round, the mean dense time over the pruned time."""
        first_R, pruned_R, second_R = self.seconds_RW.T
        return Ratio.of(np.sqrt(first_R * second_R) / pruned_R)

    @property
    def noise(self) -> Ratio:
        """Ratio of the dense model's two times."""
        first_R, _, second_R = self.seconds_RW.T
        return Ratio.of(first_R / second_R)

    @property
    def ceiling(self) -> float:
        """Largest speedup if time is proportional to FLOPs."""
        return self.dense.flops / self.pruned.flops

    @property
    def reached(self) -> float:
        """Measured share of the ceiling's gain; NaN where the ceiling allows no gain."""
        possible = self.ceiling - 1
        return (self.speedup.value - 1) / possible if possible > 0 else math.nan

    def warning(self) -> str | None:
        """A sentence if the speedup is not reliable; else None."""
        speedup, noise = self.speedup, self.noise.distance
        if self.ceiling < 1:
            return (
                f"{self.case}: the second model takes {1 / self.ceiling:.2f} times the FLOPs of "
                "the first, which should be the dense one: were the two swapped?"
            )
        if speedup.value > self.ceiling:
            cause = "a measurement error, or time spent on work that FLOPs don't count"
            if speedup.low <= self.ceiling:
                cause = "a measurement error: its interval includes the ceiling"
            return (
                f"{self.case}: {speedup.value:.3f} is above its ceiling of {self.ceiling:.3f}, "
                f"{cause}"
            )
        if noise >= abs(speedup.value - 1) or speedup.low <= 1 <= speedup.high:
            return (
                f"{self.case}: a change of {speedup.value - 1:+.1%} is within the noise, since the "
                f"dense model differs from itself by up to {noise:.1%}: use more --rounds or a "
                "quieter machine"
            )
        return None

    def record(self) -> dict[str, Any]:
        """All numbers, and the times they are computed from."""
        speedup, noise = self.speedup, self.noise
        return {
            "mode": self.case.mode,
            "batch": self.case.batch,
            "length": self.case.length,
            "new_tokens": self.case.new_tokens,
            "dense": self.dense.record(self.case),
            "pruned": self.pruned.record(self.case),
            "speedup": {"value": speedup.value, "low": speedup.low, "high": speedup.high},
            "noise": {"value": noise.value, "low": noise.low, "high": noise.high},
            "ceiling": self.ceiling,
            "share_of_ceiling": self.reached,
            "rounds_s": dict(
                zip(("dense", "pruned", "dense_again"), self.seconds_RW.T.tolist(), strict=True)
            ),
        }
