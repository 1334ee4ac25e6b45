"""A drop in words; of a score that is better where it is lower, a rise."""

import math
from typing import Any


def told_drop(found: dict[str, Any]) -> str:
    """How much worse a record of two models has the second, with its interval."""
    drop = found["drop"]
    told = f"{'drop' if found['higher_is_better'] else 'rise'} {drop['delta']:.3g}"
    if math.isnan(drop["low"]):  # of one example
        return told
    return f"{told}, 95 % {drop['low']:.3g} to {drop['high']:.3g}"
