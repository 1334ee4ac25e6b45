"""Names of methods and of their options. Needs no torch, so that arguments are checked at once."""

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

from headcount.core import InputError, check_known, check_options
from headcount.importance import DeltaOf, Level, Rules
from headcount.training import FinetuneConfig

CALIBRATION = 2000
"""Default number of examples for steps without training: scores of heads, folding, rescaling."""

METHOD_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "gradient": {"step": float, "level": Level, "normalise": bool},
    "relevance": {"step": float, "rules": Rules},
    "ablation": {"step": float, "quantity": DeltaOf},
    "norm": {"step": float},
    "sink": {"step": float},
    "fisher": {"step": float},
    "random": {},
    "l0": {
        "tuning": FinetuneConfig,
        "coefficient": float | None,
        "sweep": int,
        "falling": float,
        "start": float,
        "voita2019": bool,
    },
    "subset": {"tuning": FinetuneConfig, "hot": float, "cold": float, "straight_through": bool},
}
"""Type of every option of every method."""


def check_method(name: str, options: Sequence[str] = ()) -> None:
    """Check that there is a method, and that it takes some options.

    Args:
        name: name of the method.
        options: NAME=VALUE each; ranges of numbers are checked when the method is made.

    Raises:
        InputError: If there is no such method, it has no such option, or a value has another type.
    """
    check_known("a method", name, METHOD_OPTIONS)
    check_options(METHOD_OPTIONS[name], options)


def check_budget(
    keep: object, share: float | None, max_drop: float | None, latency: float | None
) -> None:
    """Check that there is exactly one budget, and that it is a possible one for some model.

    Raises:
        InputError: If there is none, or several, or a number that no model can meet.
    """
    budgets = {"--keep": keep, "--share": share, "--max-drop": max_drop, "--latency": latency}
    given = [name for name, value in budgets.items() if value is not None]
    if len(given) != 1:
        raise InputError(
            f"Expected one budget out of {', '.join(list(budgets)[:-1])} and --latency, got "
            f"{' and '.join(given) or 'none'}."
        )
    if max_drop is not None and not isfinite(max_drop):
        raise InputError(f"Expected a finite largest drop, got {max_drop}.")
    if latency is not None and not 0 < latency < inf:
        raise InputError(f"Expected a finite latency above 0 ms, got {latency}.")


def uses_examples(name: str) -> bool:
    """Whether a method scores heads on examples without training."""
    return name not in ("random", "l0", "subset")
