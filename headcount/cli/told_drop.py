"""A drop in words."""

from typing import Any


def told_drop(found: dict[str, Any]) -> str:
    """How much worse a record of two models has the second, with its interval."""
    drop = found["drop"]
    return f"drop {drop['delta']:.3g}, 95 % {drop['low']:.3g} to {drop['high']:.3g}"
