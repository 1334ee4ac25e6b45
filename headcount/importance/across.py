"""Across data: whether heads that matter on one data set matter on another one of the same task.

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
    """How far the effects of single heads agree with those on other data."""

    effects: Effects
    task: str
    """Of the other data."""
    num_examples: int

    def sentence(self) -> str:
        """What the correlations say, in plain words."""
        r, rho = self.effects.pearson, self.effects.spearman
        if r.rho != r.rho:
            return (
                "Whether effects agree with those on the other data can't be told: on one of them "
                "all heads have the same effect, or fewer than 4 heads were measured on both."
            )
        says = "agree with" if r.low > 0 else "contradict" if r.high < 0 else "say nothing about"
        return (
            f"The effects of single heads {says} those on the other data ({self.num_examples:,} "
            f"examples of {self.task}): Pearson's r {r} over {r.num_heads} heads, rank correlation "
            f"{signed(rho.rho)}."
        )

    def as_json(self) -> dict[str, Any]:
        """As `importance.json` holds it."""
        about = {"task": self.task, "num_examples": self.num_examples}
        return about | asdict(self.effects) | {"sentence": self.sentence()}


def across(frame: pd.DataFrame, other: pd.DataFrame, other_record: dict[str, Any]) -> Across:
    """Compare measured ablations on two data sets.

    Args:
        frame: the head table of one.
        other: that of the other.
        other_record: the other's `importance.json`.

    Raises:
        InputError: if the tables are of different heads, or one has no ablation.
    """
    return Across(effects(frame, other), other_record["task"], other_record["num_examples"])
