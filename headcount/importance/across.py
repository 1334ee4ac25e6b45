"""Across data: whether heads that matter on one data set also matter on another of the same task.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 3.4,
https://arxiv.org/abs/1905.10650
"""

from dataclasses import asdict, dataclass
from typing import Any, final

import pandas as pd

from headcount.importance.correlation import Effects, effects, signed


@final
@dataclass(frozen=True)
class Across:
    """Agreement of single heads' effects with their effects on other data."""

    effects: Effects
    task: str
    """Name of the other data's task."""
    num_examples: int

    def sentence(self) -> str:
        """The meaning of the correlations in one sentence."""
        r, rho = self.effects.pearson, self.effects.spearman
        if r.rho != r.rho:
            return (
                "Agreement with the effects on the other data is unknown: on one data set all "
                "heads have the same effect, or fewer than 4 heads were measured on both."
            )
        says = "agree with" if r.low > 0 else "contradict" if r.high < 0 else "say nothing about"
        return (
            f"The effects of single heads {says} those on the other data ({self.num_examples:,} "
            f"examples of {self.task}): Pearson's r {r} over {r.num_heads} heads, rank correlation "
            f"{signed(rho.rho)}."
        )

    def as_json(self) -> dict[str, Any]:
        """The fields of `importance.json`."""
        about = {"task": self.task, "num_examples": self.num_examples}
        return about | asdict(self.effects) | {"sentence": self.sentence()}


def across(frame: pd.DataFrame, other: pd.DataFrame, other_record: dict[str, Any]) -> Across:
    """Compare measured ablations on two data sets.

    Args:
        frame: Head table of one data set.
        other: Head table of the other data set.
        other_record: The `importance.json` of the other data set.

    Raises:
        InputError: If the tables have different heads, or one has no ablation.
    """
    return Across(effects(frame, other), other_record["task"], other_record["num_examples"])
