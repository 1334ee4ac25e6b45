"""Options of following a training. Needs no torch."""

import math
from dataclasses import dataclass, field
from typing import final

from headcount.core import InputError, check_choice, check_seed
from headcount.importance import MethodName
from headcount.vocabulary import Thresholds


@final
@dataclass(frozen=True)
class FollowOptions:
    """Settings of `follow`, in Python and as options of the command."""

    method: MethodName = "gradient"
    """Score of importance; gradient as in Michel et al. (2019)."""
    within: float = 0.05
    """Rise of the loss within which heads can be pruned, as a share of the dense model's loss."""
    scores: bool = True
    """Whether to measure the task's score; translation writes texts for it, which takes longest."""
    seed: int = 0
    """Seed of the resamples."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds for assigning roles; the papers' values by default."""

    def __post_init__(self) -> None:
        check_choice("a method", self.method, MethodName)
        check_seed(self.seed)
        if not (self.within > 0 and math.isfinite(self.within)):
            raise InputError(
                f"Expected a finite rise of the loss above 0, got within={self.within}. Give 0.05 "
                "for 5 %."
            )
