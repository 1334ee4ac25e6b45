"""Names of methods and of their options. Needs no torch, so that arguments are checked at once."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import inf, isfinite

from headcount.core import InputError, check_known
from headcount.training import FinetuneConfig

CALIBRATION = 2000
"""Default number of examples for steps without training: scores of heads, folding, rescaling."""

METHOD_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "gradient": ("step", "level", "normalise"),
    "relevance": ("step", "rules"),
    "ablation": ("step", "quantity"),
    "norm": ("step",),
    "sink": ("step",),
    "fisher": ("step",),
    "random": (),
    "l0": ("tuning", "coefficient", "sweep", "falling", "start", "voita2019"),
    "subset": ("tuning", "hot", "cold", "straight_through"),
}
"""Options of every method."""


def check_method(name: str, options: Sequence[str] = ()) -> None:
    """Check that there is a method, and that it has some options.

    Args:
        name: name of the method.
        options: NAME=VALUE each; values are checked when the method is made.

    Raises:
        InputError: If there is no such method, or it has no such option.
    """
    check_known("a method", name, METHOD_OPTIONS)
    known = METHOD_OPTIONS[name]
    if "tuning" in known:
        known += tuple(f"tuning.{each.name}" for each in fields(FinetuneConfig))
    for option in options:
        given = option.partition("=")[0]
        check_known(f"an option of {name}", given, known)


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
