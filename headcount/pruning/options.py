"""Options of methods, and presets. Needs no torch: arguments are checked at once.

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

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache
from typing import Annotated, ClassVar

from headcount.core import (
    ABOVE_0_TO_1,
    FROM_0,
    FROM_0_TO_1,
    Checked,
    InputError,
    Registry,
    at_least,
    check_known,
)
from headcount.importance import SCORES, DeltaOf, Score
from headcount.training import FinetuneConfig

CALIBRATION = 2000
"""Default number of examples for steps without training: scores of heads, folding, rescaling."""


@dataclass(frozen=True)
class MethodOptions(Checked, ABC):
    """Options of a method: those of the command line, and fields of the method itself."""

    registry: ClassVar[str] = "headcount.pruning.options:METHODS"
    name: ClassVar[str]
    """Name of the method, as given to `--method`."""
    uses_data: ClassVar[bool] = True
    """Whether heads are scored on examples without training."""


def is_trained(options: MethodOptions) -> bool:
    """Whether a method trains gates or weights, which processes can't share."""
    return hasattr(options, "tuning") or getattr(options, "is_learned", False)


@dataclass(frozen=True)
class StepOptions(MethodOptions):
    """Options of every method that scores heads again after each step."""

    step: Annotated[float, FROM_0_TO_1] = 1.0
    """Share of the heads to prune before the others are scored again; 0: after each head."""


@cache
def _by_score(score: type[Score]) -> type[StepOptions]:
    """The options of pruning by a score: the step, and those of the score."""
    name = f"{score.__name__.removesuffix('Score')}Options"
    about = {"__module__": __name__, "__doc__": f"Options of `{score.name}`."}
    return make_dataclass(name, (), bases=(score, StepOptions), namespace=about, frozen=True)


@dataclass(frozen=True)
class AblationOptions(StepOptions):
    """Options of `ablation`."""

    name: ClassVar[str] = "ablation"
    step: Annotated[float, FROM_0_TO_1] = 0.1
    """Share of the heads to prune before the others are measured again; 0: after each head."""
    quantity: DeltaOf = "loss"
    """Quantity that measures the harm of removing a head."""


@dataclass(frozen=True)
class RandomOptions(MethodOptions):
    """`random` has no options."""

    name: ClassVar[str] = "random"
    uses_data: ClassVar[bool] = False


@dataclass(frozen=True)
class AutoOptions(StepOptions):
    """Options of `auto`, for every candidate."""

    name: ClassVar[str] = "auto"


@dataclass(frozen=True)
class L0Options(MethodOptions):
    """Options of `l0`."""

    name: ClassVar[str] = "l0"
    uses_data: ClassVar[bool] = False
    tuning: FinetuneConfig = field(default_factory=lambda: FinetuneConfig(gate_rate=0.1))
    """Settings of the training; the paper's `trained` is "encoder" if only its heads are pruned."""
    coefficient: Annotated[float | None, FROM_0] = None
    """Penalty of an open head, in the loss's unit; by default one that meets the budget."""
    sweep: Annotated[int, at_least(0, "training")] = 0
    """Largest number of coefficients to try, starting with the given one; 0 for no sweep."""
    falling: Annotated[float, ABOVE_0_TO_1] = 0.5
    """Share of the training over which the expected number of open heads falls to the budget."""
    start: float = 2.0
    """Initial log a; 2 means an open gate."""
    voita2019: bool = False
    """Start gates near 1/2, as in the authors' code."""

    def __post_init__(self) -> None:
        if self.voita2019 and self.start != L0Options.start:
            raise InputError("The option voita2019 sets its own start. Leave start out.")
        if self.falling != L0Options.falling and (self.sweep or self.coefficient is not None):
            raise InputError("Only training without a coefficient uses falling. Leave it out.")
        super().__post_init__()
        if self.sweep and self.coefficient == 0:
            raise InputError("Expected a coefficient above 0 to start a sweep, got 0. Raise it.")


@dataclass(frozen=True)
class SubsetOptions(MethodOptions):
    """Options of `subset`."""

    name: ClassVar[str] = "subset"
    uses_data: ClassVar[bool] = False
    tuning: FinetuneConfig = field(default_factory=lambda: FinetuneConfig(gate_rate=0.3))
    """Settings of the training, and the learning rate of the scores."""
    hot: float = 10.0
    """Temperature at the start; the preset `li2021` has the paper's."""
    cold: float = 1e-8
    """Temperature at the end."""
    straight_through: bool = False
    """Train with hard gates without noise, whose gradients are passed on unchanged."""
    softmax_gradient: bool = False
    """Let straight-through gates pass on the gradient of relaxed gates; a rule of our own."""

    def __post_init__(self) -> None:
        if not 0 < self.cold <= self.hot:
            raise InputError(
                f"Expected temperatures with 0 < cold <= hot, got cold {self.cold} and hot "
                f"{self.hot}."
            )
        if self.softmax_gradient and not self.straight_through:
            raise InputError(
                "softmax_gradient has no effect without straight_through. Set both, or neither."
            )


METHODS: Registry[type[MethodOptions]] = Registry(
    "methods",
    "a method",
    {
        "ablation": "headcount.pruning.methods.ablation:Greedy",
        "random": "headcount.pruning.methods.by_score:Random",
        "auto": "headcount.pruning.methods.by_score:Auto",
        "l0": "headcount.pruning.methods.learned:L0",
        "subset": "headcount.pruning.methods.learned:Subset",
    },
)
"""Methods that are no scores, by name; every score is a method as well."""

_OPTIONS: Mapping[str, type[MethodOptions]] = {
    each.name: each
    for each in (AblationOptions, RandomOptions, AutoOptions, L0Options, SubsetOptions)
}
"""Options of our own methods, for which nothing heavy is imported."""

METHOD_OPTIONS: Mapping[str, type[MethodOptions]] = {
    name: _OPTIONS.get(name) or _by_score(SCORES[name])
    for name in dict.fromkeys((*SCORES.own, *METHODS.own))
}
"""Options of each of our own methods, by its name: of scores, and of the others."""


def method_names() -> tuple[str, ...]:
    """The names of all methods: our own, and those of plug-ins."""
    return tuple(dict.fromkeys((*METHOD_OPTIONS, *SCORES, *METHODS)))


@cache
def options_of_method(name: str) -> type[MethodOptions]:
    """The options of a method; a method of a plug-in is its own options.

    Raises:
        InputError: If there is no such method.
    """
    if name in METHOD_OPTIONS:
        return METHOD_OPTIONS[name]
    check_known("a method", name, method_names())
    return METHODS[name] if name in METHODS else _by_score(SCORES[name])


def voita2019(sites: Sequence[str], task: str) -> L0Options:
    """The way of Voita et al. (2019); see above."""
    tuning = L0Options().tuning
    if set(sites) == {"encoder.self"}:
        tuning = replace(tuning, trained="encoder")
    if task == "translation":
        tuning = replace(tuning, label_smoothing=0.1)
    return L0Options(tuning, sweep=8, voita2019=True)


def michel2019(sites: Sequence[str] = (), task: str = "") -> MethodOptions:
    """The way of Michel et al. (2019), for any sites and task."""
    del sites, task
    options = {"step": 0.1, "level": "sample", "normalise": True}
    return METHOD_OPTIONS["gradient"](**options)


def li2021(sites: Sequence[str], task: str) -> SubsetOptions:
    """The way of Li et al. (2021), whose first temperature is another in translation."""
    del sites
    hot = 0.1 if task == "translation" else 1000.0
    return SubsetOptions(replace(SubsetOptions().tuning, trained="all"), hot=hot)


PRESETS: Mapping[str, Callable[[Sequence[str], str], MethodOptions]] = {
    each.__name__: each for each in (voita2019, michel2019, li2021)
}
"""Papers' ways to choose heads, without later stages (folding, rescaling, recovery), by the names
that `--preset` takes: options, given the sites whose heads can be pruned and the task's name."""


def preset(name: str) -> Callable[[Sequence[str], str], MethodOptions]:
    """A preset by name.

    Raises:
        InputError: for an unknown preset.
    """
    check_known("a preset", name, PRESETS)
    return PRESETS[name]
