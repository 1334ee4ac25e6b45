"""Kept limit: whether the final model meets the requested drop or latency.

The budget was searched before the later stages, which can also make a model worse or, with a bias
of their own, slower.
"""

from collections.abc import Mapping
from typing import Any

from headcount.pruning.limit import Limit


def kept_limit(
    limit: Limit, compared: Mapping[str, Any], latency: float | None
) -> dict[str, bool] | None:
    """Whether a drop is met on every data set, or a latency; None for a fixed budget.

    Args:
        limit: the requested limit.
        compared: the record of `BeforeAfter` for every data set.
        latency: latency of the final model in ms, if a latency was requested.
    """
    if limit.max_drop is not None:
        return {name: found["drop"]["delta"] <= limit.max_drop for name, found in compared.items()}
    if limit.latency is not None:
        assert latency is not None
        return {"latency": latency <= limit.latency}
    return None


def broken_limit(limit: Limit, kept: Mapping[str, bool] | None, latency: float | None) -> list[str]:
    """Warnings for the user if the final model misses its limit or could not be checked."""
    if kept is None:
        return []
    if latency is not None:
        slower = f"the model, timed again, takes {latency:.4g} ms, more than {limit.latency}"
        return [] if kept["latency"] else [slower]
    found = [
        f"the drop on --{name} exceeds {limit.max_drop}, since the budget was searched on --dev "
        "with gates only"
        for name, is_within in kept.items()
        if not is_within
    ]
    if "test" not in kept:
        found.append("no --test was given, so the drop holds only for the data it was searched on")
    return found
