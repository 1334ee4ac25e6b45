"""Names of methods, of their options and of presets. Needs no torch: arguments are checked at once.

A preset is a paper's way of pruning, option by option:

- `voita2019`: Hard Concrete gates from the authors' start, trained jointly with the weights. The
  decoder is frozen if only encoder heads are pruned. Translation has label smoothing of 0.1. The
  coefficient of the penalty is swept in up to eight trainings, until the number of open gates meets
  the budget. Gates are rounded, and nothing is trained afterwards. *Departures*: if eight trainings
  miss the number, the nearest is cut to it; gradients of the loss are clipped (see `l0`); updates,
  rates and batches are set by the caller (the paper's batches have about 16,000 source tokens, as
  in `tuning.batch_tokens=4096 tuning.accumulate=4`), with a linear schedule by default.
- `michel2019`: gradient importance by the paper's formula, normalised by layer, in one ranking over
  all sites, estimated again after every tenth of the heads. Nothing is trained.
- `li2021`: a relaxed subset of exactly K heads, trained jointly with the weights.

References: Voita et al. (2019), https://arxiv.org/abs/1905.09418; Michel et al. (2019),
https://arxiv.org/abs/1905.10650; Li et al. (2021), https://arxiv.org/abs/2108.04657
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, final

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
    "auto": {"step": float},
    "l0": {
        "tuning": FinetuneConfig,
        "coefficient": float | None,
        "sweep": int,
        "falling": float,
        "start": float,
        "voita2019": bool,
    },
    "subset": {
        "tuning": FinetuneConfig,
        "hot": float,
        "cold": float,
        "straight_through": bool,
        "softmax_gradient": bool,
    },
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
            f"{' and '.join(given) or 'none'}. Give exactly one of them."
        )
    if share is not None:
        check_share(share)
    if max_drop is not None and not isfinite(max_drop):
        raise InputError(f"Expected a finite largest drop, got {max_drop}.")
    if latency is not None and not 0 < latency < inf:
        raise InputError(f"Expected a finite latency above 0 ms, got {latency}.")


def check_share(part: int | float) -> None:
    """Check that a share of heads lies between 0 and 1.

    Raises:
        InputError: If it does not.
    """
    if not 0 <= part <= 1:
        raise InputError(
            f"Expected a share of heads to keep between 0 and 1, got {part}. To keep a number of "
            "heads, use keep."
        )


def uses_examples(name: str) -> bool:
    """Whether a method scores heads on examples without training."""
    return name not in ("random", "l0", "subset")


@final
@dataclass(frozen=True)
class Preset:
    """A paper's way to choose heads, without later stages (folding, rescaling, recovery)."""

    method: str
    options: tuple[str, ...] = ()
    encoder_only: tuple[str, ...] = ()
    """Options that apply if only encoder heads can be pruned."""
    translation: tuple[str, ...] = ()
    """Options that apply to translation."""

    def of(self, sites: Sequence[str], task: str) -> list[str]:
        """The options, given the sites whose heads can be pruned and the name of the task."""
        encoder_only = self.encoder_only if set(sites) == {"encoder.self"} else ()
        return [*self.options, *encoder_only, *(self.translation if task == "translation" else ())]


PRESETS: Mapping[str, Preset] = {
    "voita2019": Preset(
        "l0",
        ("voita2019=true", "sweep=8"),
        ("tuning.trained=encoder",),
        ("tuning.label_smoothing=0.1",),
    ),
    "michel2019": Preset("gradient", ("step=0.1", "level=sample", "normalise=true")),
    "li2021": Preset("subset", ("tuning.trained=all", "hot=1000"), translation=("hot=0.1",)),
}
"""Presets by name, as given to `--preset`."""


def preset(name: str) -> Preset:
    """A preset by name.

    Raises:
        InputError: for an unknown preset.
    """
    check_known("a preset", name, PRESETS)
    return PRESETS[name]
