"""Kept limit: whether the model that comes out holds the drop or latency that was asked for.

The budget was searched without what follows the choice, which may also make a model worse or, with
a bias of its own, slower.
"""

from collections.abc import Mapping
from typing import Any

from headcount.pruning.limit import Limit


def kept_limit(
    limit: Limit, compared: Mapping[str, Any], latency: float | None
) -> dict[str, bool] | None:
    """Whether a limit is kept: a drop on every data set, a latency once; None for a fixed budget.

    Args:
        limit: what was asked for.
        compared: of every data set what `BeforeAfter` says of it.
        latency: of the model that came out, in ms, if that was asked for.
    """
    if limit.max_drop is not None:
        return {name: found["drop"]["delta"] <= limit.max_drop for name, found in compared.items()}
    if limit.latency is not None:
        assert latency is not None
        return {"latency": latency <= limit.latency}
    return None


def broken_limit(limit: Limit, kept: Mapping[str, bool] | None, latency: float | None) -> list[str]:
    """What a person who gave a limit must know of the model that came out."""
    if kept is None:
        return []
    if latency is not None:
        slower = f"timed again the model takes {latency:.4g} ms, more than {limit.latency}"
        return [] if kept["latency"] else [slower]
    found = [
        f"the drop on --{name} is larger than {limit.max_drop}: the budget was searched on --dev "
        "with gates only"
        for name, is_within in kept.items()
        if not is_within
    ]
    if "test" not in kept:
        found.append("no --test was given: the drop holds for the data it was searched on")
    return found
