"""Search: the budget that a limit allows, by bisection over the number of kept heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.errors import InputError


@final
@dataclass(frozen=True)
class Found:
    """The result of a search."""

    keep: int
    """Number of heads to keep."""
    tried: Mapping[int, float]
    """Measured number for each budget tried, in the order of trying."""


def last_within(
    budgets: Sequence[int], measure: Callable[[int], float], limit: float, what: str
) -> Found:
    """The last budget at which a measured number is within a limit.

    Bisection assumes that the number grows along the budgets. If it does not, the budget found is
    within the limit and the next one tried is not, but later ones may be within it again.

    Args:
        budgets: budgets, from the most to the least likely to be within the limit.
        measure: function that measures a budget; it is called for about log2 of them.
        limit: the largest number allowed.
        what: name of the measured number, for the error.

    Raises:
        InputError: if even the first budget exceeds the limit; the error says what was measured.
    """
    tried = {budgets[0]: measure(budgets[0])}
    if not tried[budgets[0]] <= limit:
        raise InputError(
            f"Expected {what} of at most {limit:g}, got {tried[budgets[0]]:.4g} with "
            f"{budgets[0]} heads already. Raise the limit."
        )
    within, beyond = 0, len(budgets)
    while beyond - within > 1:
        middle = (within + beyond) // 2
        tried[budgets[middle]] = measure(budgets[middle])
        if tried[budgets[middle]] <= limit:
            within = middle
        else:
            beyond = middle
    return Found(budgets[within], tried)
