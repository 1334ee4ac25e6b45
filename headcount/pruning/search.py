"""Search: the budget that a limit allows, by bisection over the number of heads that stay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.errors import InputError


@final
@dataclass(frozen=True)
class Found:
    """Where a limit lies."""

    keep: int
    """The budget."""
    tried: Mapping[int, float]
    """What was measured at each budget that was tried, in the order of trying."""


def last_within(
    budgets: Sequence[int], measure: Callable[[int], float], limit: float, what: str
) -> Found:
    """The last of some budgets at which a measured number is within a limit.

    Bisection: the number is taken to grow along the budgets. Where it does not, the budget found is
    within the limit and the next one tried is not, but others beyond it may be within it again.

    Args:
        budgets: from the one that is surest to be within the limit to the least sure.
        measure: is asked for log2 of them.
        limit: the largest number allowed.
        what: is measured, for the error.

    Raises:
        InputError: if even the first is not within the limit; says what was measured there.
    """
    tried = {budgets[0]: measure(budgets[0])}
    if not tried[budgets[0]] <= limit:
        raise InputError(
            f"{what} of at most {limit:g} was asked for, but with {budgets[0]} heads it is "
            f"{tried[budgets[0]]:.4g} already: raise the limit"
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
