"""A case: one mode at one batch size and length, timed with two models, and what that says."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from headcount.speed.ratio import Ratio


@final
@dataclass(frozen=True)
class Case:
    """What is run."""

    mode: str
    batch: int
    """Examples at a time."""
    length: int
    """Tokens of an example; of an encoder-decoder, on either side."""
    new_tokens: int = 0
    """Tokens that a generation adds."""

    def __str__(self) -> str:
        added = f" + {self.new_tokens}" if self.new_tokens else ""
        return f"{self.mode}, batch {self.batch}, {self.length}{added} tokens"

    @property
    def counted_tokens(self) -> int:
        """Tokens that a rate is about: new ones where there are some, else those of the input."""
        return self.batch * (self.new_tokens or self.length)


@final
@dataclass(frozen=True)
class Cost:
    """What a case costs one model."""

    seconds: float
    """Median over rounds."""
    peak_bytes: float
    """Memory at the peak beyond weights and inputs; NaN where it can't be told."""
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
    """A case with two models, the first one twice: that tells noise from gain."""

    case: Case
    dense: Cost
    pruned: Cost
    seconds_RW: Float[np.ndarray, "round work"]
    """Dense, pruned and dense again, side by side in every round."""

    @property
    def speedup(self) -> Ratio:
        """How many times faster the pruned model is: in each round the dense one's two times."""
        first_R, pruned_R, second_R = self.seconds_RW.T
        return Ratio.of(np.sqrt(first_R * second_R) / pruned_R)

    @property
    def noise(self) -> Ratio:
        """The dense model against itself."""
        first_R, _, second_R = self.seconds_RW.T
        return Ratio.of(first_R / second_R)

    @property
    def ceiling(self) -> float:
        """How many times faster it could be if time went with FLOPs."""
        return self.dense.flops / self.pruned.flops

    @property
    def reached(self) -> float:
        """Share of the ceiling's gain that was measured; NaN where there is none to be had."""
        possible = self.ceiling - 1
        return (self.speedup.value - 1) / possible if possible > 0 else math.nan

    def warning(self) -> str | None:
        """A sentence where the speedup should not be believed; None where it may be."""
        speedup, noise = self.speedup, self.noise.distance
        if self.ceiling < 1:
            return (
                f"{self.case}: the second model takes {1 / self.ceiling:.2f} times the first's "
                "FLOPs, which is to be the dense one: were the two swapped?"
            )
        if speedup.value > self.ceiling:
            cause = "an error of measuring, or of time that goes with what FLOPs don't count"
            if speedup.low <= self.ceiling:
                cause = "an error of measuring: its interval reaches below"
            return (
                f"{self.case}: {speedup.value:.3f} is above its ceiling of {self.ceiling:.3f}, "
                f"{cause}"
            )
        if noise >= abs(speedup.value - 1) or speedup.low <= 1 <= speedup.high:
            return (
                f"{self.case}: a change of {speedup.value - 1:+.1%} is within the noise, the dense "
                f"model differs from itself by up to {noise:.1%}: more --rounds, or a quieter "
                "machine"
            )
        return None

    def record(self) -> dict[str, Any]:
        """All numbers, and the times they come from."""
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
