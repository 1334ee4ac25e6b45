"""Gold numbers, and Spearman's rank correlation of a model's numbers with them."""

import numpy as np
from jaxtyping import Float, Int

from headcount.core import CorpusError, InputError, amount
from headcount.corpora import Table
from headcount.statistics import rank_correlations
from headcount.tasks.task import Resampled

Scale = tuple[int | float, int | float]
"""Lowest and highest number that the data can have."""


def gold_numbers(table: Table, role: str, scale: Scale | None) -> Float[np.ndarray, " example"]:
    """A column of gold numbers, which must differ and lie on the scale, if there is one.

    Raises:
        InputError: if the scale does not rise.
        CorpusError: for a cell that is no number or outside the scale, or if all are equal.
    """
    low, high = (-np.inf, np.inf) if scale is None else scale
    if not low < high:
        raise InputError(
            f"Expected a scale from a lower to a higher number, got {low:g} to {high:g}."
        )
    numbers = table.numbers(role)
    for number, origin in zip(numbers, table.origins, strict=True):
        if not low <= number <= high:
            raise CorpusError(
                f"{origin}: expected a {role} between {low:g} and {high:g}, got {number:g}. Fix "
                "the line, or give the scale of the data with --scale LOW HIGH."
            )
    if len(set(numbers)) < 2:
        raise CorpusError(
            f"Expected different {role}s for Spearman's correlation, got "
            f"{amount(len(numbers), role)} of {numbers[0]:g} each."
        )
    return np.array(numbers)


def spearmans(
    outcome_N: Float[np.ndarray, " example"], gold_N: Float[np.ndarray, " example"]
) -> Resampled:
    """Spearman's correlation as a function of the examples drawn.

    It is NaN if the numbers, or the gold numbers, of a draw are all equal.
    """

    def scores(index_DS: Int[np.ndarray, "draw sample"]) -> Float[np.ndarray, " draw"]:
        return rank_correlations(outcome_N[index_DS], gold_N[index_DS])

    return scores
