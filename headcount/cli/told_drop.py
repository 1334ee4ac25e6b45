"""Format a drop in score, or a rise for a score where lower is better."""

import math
from typing import Any


def told_drop(found: dict[str, Any]) -> str:
    """The drop of the second model in a record of two models, with its 95 % interval."""
    drop = found["drop"]
    told = f"{'drop' if found['higher_is_better'] else 'rise'} {drop['delta']:.3g}"
    if math.isnan(drop["low"]):  # a single example has no interval
        return told
    return f"{told}, 95 % {drop['low']:.3g} to {drop['high']:.3g}"
