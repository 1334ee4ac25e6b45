"""Other data: whether the effects of single heads hold on another data set."""

import pandas as pd

from headcount.core import amount
from headcount.importance.statistics.agreement import Effects, effects
from headcount.results import Across, ImportanceRecord, signed


def across(frame: pd.DataFrame, other: pd.DataFrame, other_record: ImportanceRecord) -> Across:
    """Compare measured ablations on two data sets.

    Args:
        frame: Head table of one data set.
        other: Head table of the other data set.
        other_record: Record of the assessment on the other data set.

    Raises:
        InputError: If the tables have different heads, or one has no ablation.
    """
    found = effects(frame, other)
    return Across(
        task=other_record.task,
        num_examples=other_record.num_examples,
        pearson=found.pearson,
        spearman=found.spearman,
        sentence=_sentence(found, other_record),
    )


def _sentence(found: Effects, other: ImportanceRecord) -> str:
    """The meaning of the correlations in one sentence."""
    r, rho = found.pearson, found.spearman
    if r.rho != r.rho:
        return (
            "Agreement with the effects on the other data is unknown: on one data set all "
            "heads have the same effect, or fewer than 4 heads were measured on both."
        )
    says = "agree with" if r.low > 0 else "contradict" if r.high < 0 else "say nothing about"
    return (
        f"The effects of single heads {says} those on the other data ("
        f"{amount(other.num_examples, 'example')} of {other.task}): Pearson's r {r} over "
        f"{amount(r.num_heads, 'head')}, rank correlation {signed(rho.rho)}."
    )
