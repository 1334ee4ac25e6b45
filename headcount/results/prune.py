"""The record of a pruned model: the contents of `prune.json`, from which its head card is made.

A model made from a plan alone has no choice and no pipeline. A pruned model that was trained
further has the choice, but none of the numbers that training made untrue.

What followed the choice of heads, as `prune.json` holds it: stages, limit and control; and what
remains of the dense model: roles, skills, and heads that a list named.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headcount import numbers
from headcount.core import amount, brief_repr, omitted, sorted_by, stored
from headcount.results.certificate import Comparison
from headcount.results.costs import CacheRecord, CeilingRecord, SizeRecord, SpeedRecord
from headcount.results.evaluation import DATA_SETS, ControlChange, DataSetChange
from headcount.results.store import Record
from headcount.vocabulary import SKILLS


@final
@dataclass(frozen=True)
class Base:
    """The model that a pruned one is made from, as the hub knows it."""

    name: str = ""
    """Its name on the hub; empty for a folder."""
    license: str = ""
    """Its licence, as its own card says; empty if that is unknown."""
    license_name: str = ""
    """Name of a licence that the hub does not list."""
    license_link: str = ""
    """Address of that licence."""


@final
@dataclass(frozen=True)
class StageResult:
    """Effect of one stage, or of one way to compensate, on the loss on the development set."""

    stage: str
    """Name of the stage, e.g. `folding`."""
    before: float
    """Loss before the stage."""
    after: float
    """Loss after it."""
    kept: bool = True
    """Whether the final model includes it."""
    examples: int | None = omitted(None)
    """Number of examples that it was judged on, if it lost the race before it saw all of them."""

    @property
    def verdict(self) -> str:
        """Whether the final model includes it, in words."""
        if self.kept:
            return "kept"
        return "not kept" + (f", on {amount(self.examples, 'example')}" if self.examples else "")


@final
@dataclass(frozen=True)
class Calibration:
    """The data that folding and rescaling were fitted on."""

    data: str
    """Hash of the training data."""
    examples: int
    """Number of examples used."""
    queries: int
    """Number of queries in the layer that had the most."""


@final
@dataclass(frozen=True)
class RecoveryRecord:
    """What was recorded of the recovery training."""

    history: tuple[Mapping[str, Any], ...]
    """Log entries of the training."""


@final
@dataclass(frozen=True)
class StagesRecord:
    """Facts about the stages after the choice of heads."""

    calibration: Calibration | None = omitted(None)
    """The data for folding and rescaling; None if neither was asked for."""
    recovery: RecoveryRecord | None = omitted(None)
    """The recovery training; None without recovery."""


@final
@dataclass(frozen=True, kw_only=True)
class ControlTraining:
    """One training of the control, the counterpart of a training of the pruned model."""

    settings: Mapping[str, Any] = stored(flat=())
    """All fields of the training's settings, by name."""
    taught: bool
    """Whether the pruned model had a teacher in this training."""
    kept: bool
    """Whether the control kept the trained weights."""

    @property
    def lacks_teacher(self) -> bool:
        """Whether the pruned model had a teacher, and the control had none."""
        return self.taught and not any(self.settings.get(n) for n in ("distilled", "layerwise"))


@final
@dataclass(frozen=True)
class ControlRecord:
    """The control: the dense model, trained in the same ways, for as many updates."""

    trainings: tuple[ControlTraining, ...]
    """Its trainings, in order."""
    data_sets: Mapping[str, ControlChange] = stored(flat=DATA_SETS)
    """Its numbers by the data set's name: `dev`, and `test` if there is a test set."""


@final
@dataclass(frozen=True, kw_only=True)
class PipelineRecord:
    """What followed the choice of heads."""

    stages: tuple[StageResult, ...] = stored("gains")
    """Every stage, or way to compensate, that was tried."""
    facts: StagesRecord = stored("stages")
    """The data and trainings of these stages."""
    within_limit: Mapping[str, bool] | None = None
    """Whether the final model meets each limit: a drop by the data set's name, a cost by its own;
    None if the budget was a number of heads."""
    latency_ms: float | None = None
    """Latency of the final model in milliseconds; None unless the budget was a latency."""
    control: ControlRecord | None = None
    """The control; None if nothing was trained, or no control was wanted."""
    seconds: float
    """Duration of everything, in seconds."""


SPARED = ", one head per group spared"
"""Ending of the name of a method that spares a head of each group."""


@final
@dataclass(frozen=True)
class ChoiceRecord:
    """How the heads to keep were chosen."""

    method: str
    """Name of the method, as given to `--method`; it ends in `SPARED` with `--one-per-group`."""
    options: str
    """The method with all its options, as Python writes it."""
    limit: Mapping[str, Any]
    """The budget as it was given: the value of every kind (`keep`, `share`, `cache`, `latency`,
    `speedup`, `size`, `max_drop`)."""
    keep: int | Mapping[str, int]
    """Number of heads to keep, in all or at each site named."""
    tried: Mapping[int, float] | None = None
    """The measured drop or cost of every number of heads tried; None if there was no search."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Score of every head that can be pruned, by its name."""
    open: Mapping[str, int] | None = None
    """Number of heads whose gates training left open, at each site; None without such gates."""
    swept: Mapping[str, int] | None = None
    """Number of open heads by coefficient tried; None if no coefficient was searched."""
    compared: Mapping[str, float] | None = None
    """Loss by candidate of `auto`, on examples that did not score heads; None for the others."""
    history: tuple[Mapping[str, Any], ...] | None = None
    """Log entries of a training with gates; None if the method trains nothing."""
    protected: tuple[str, ...] = omitted(())
    """Names of the heads that were kept whatever the method."""

    def __post_init__(self) -> None:
        if not self.limit:
            raise ValueError("expected a budget, got none")

    @property
    def method_used(self) -> str:
        """The method that ranked the heads: of `auto`, the candidate with the lowest loss."""
        if not self.compared:
            return self.method
        return sorted_by(self.compared, self.compared.__getitem__)[0]

    @property
    def ranking(self) -> str:
        """That method as given to `--method`."""
        return self.method_used.removesuffix(SPARED)


@final
@dataclass(frozen=True)
class Survival:
    """What became of one role."""

    role: str
    """Name of the role."""
    before: int
    """Number of heads with the role in the dense model."""
    stayed: tuple[str, ...]
    """Names of these heads that were kept."""
    kept: tuple[str, ...] | None = None
    """Names of these heads that still have the role after pruning; None if not analysed."""
    taken_over: tuple[str, ...] | None = None
    """Names of heads that have the role only in the pruned model; None if not analysed."""


@final
@dataclass(frozen=True)
class SkillChange:
    """What a pruned model can still do of what the dense one can."""

    skill: str
    """Name of the skill."""
    cases: int
    """Number of texts, needles or prompts."""
    before: float
    """Share that the dense model has right, over cases."""
    after: float
    """The same of the pruned model."""
    low: float
    """Low end of the 95 % interval of the difference, over cases."""
    high: float

    @property
    def sentence(self) -> str:
        """What became of the skill."""
        before, after = map(numbers.percent, (self.before, self.after))
        low, high = map(numbers.points, (self.low, self.high))
        return (
            f"Skill {SKILLS[self.skill].label}: {before} → {after} right ({low} to {high} points, "
            f"{amount(self.cases, 'case')})"
        )


@final
@dataclass(frozen=True)
class Unlisted:
    """Pruned heads that a field of the model's configuration listed by number."""

    field: str
    """Name of the field."""
    serves: str
    """What the listed heads are for, in the plural, e.g. `time stamps of words`."""
    heads: tuple[str, ...]
    """Names of the heads that it no longer lists."""
    left: int
    """Number of heads that it still lists, renumbered."""

    @property
    def sentence(self) -> str:
        """What became of the field."""
        gone = f"{', '.join(self.heads)}, which left it"
        if not self.left:
            return f"There are no {self.serves}: `{self.field}` listed only {gone}."
        still = f"The {amount(self.left, 'head')} still listed" if self.left > 1 else "One head"
        return (
            f"{self.serves.capitalize()} differ from the dense model's: `{self.field}` also listed "
            f"{gone}. {still} {'make' if self.left > 1 else 'makes'} them."
        )


@final
@dataclass(frozen=True)
class NeuronsRecord:
    """The feed-forward network of one layer."""

    site: str
    """Its side: `encoder.mlp`, `decoder.mlp` or `vision.mlp`."""
    layer: int
    kept: int
    """Number of neurons that are kept."""
    total: int
    """Number of neurons of the dense model."""


@final
@dataclass(frozen=True)
class Int8Record:
    """The ONNX export of a pruned model in 8 bits, beside the pruned model."""

    bytes_after: int
    """Bytes of the file."""
    bytes_before: int
    """Bytes of the export that it was made of."""
    sha256: str
    """Hash of the file."""
    weights_sha256: str
    """Hash of the pruned model's weight files."""
    data: tuple[str, ...]
    """Names of the files that it was measured on."""
    change: DataSetChange
    """Score and loss of the pruned model and of the file."""


@final
@dataclass(frozen=True, kw_only=True)
class PruneRecord(Record):
    """How a pruned model was made, and every number before and after."""

    FILE = "prune.json"
    COMMAND = "headcount prune"
    FOLDER = "the folder of a pruned model"
    DESCRIBES = ("plan.json",)

    __repr__ = brief_repr

    model: str
    """Name of the dense model."""
    base: Base | None = omitted(None)
    """The same on the hub; None of a model made before version 0.4."""
    heads: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer of the dense model, by site."""
    kept: tuple[str, ...] = stored("staying")
    """Names of the kept heads."""
    pruned: tuple[str, ...] = stored("leaving")
    """Names of the pruned heads."""
    neurons: tuple[NeuronsRecord, ...] = omitted(())
    """The networks whose neurons could be pruned, too; none if only heads could."""
    unlisted: tuple[Unlisted, ...] = omitted(())
    """Pruned heads that the model's configuration listed by number."""
    auto_class: str = "AutoModel"
    """Name of the auto class that loads the model with transformers alone."""
    plain: bool = omitted(False)
    """Whether stock transformers loads the folder, which then holds no code."""
    comparisons: tuple[Comparison, ...] = ()
    """The comparisons of the certificate."""
    choice: ChoiceRecord | None = stored(flat=("method",), default=None)
    """How the heads were chosen; None for a plan of unknown origin."""
    pipeline: PipelineRecord | None = stored(flat=("gains",), default=None)
    """What followed the choice; None if nothing did, or training made it untrue."""
    ceiling: CeilingRecord | None = omitted(None)
    """The largest possible speedup; None if it is unknown."""
    size: SizeRecord | None = omitted(None)
    """What the weights take; None for a model made from a plan or trained before version 0.4."""
    cache: CacheRecord | None = omitted(None)
    """What the key/value cache costs; None for a model that generates nothing."""
    data_sets: Mapping[str, DataSetChange] = stored(flat=DATA_SETS, default_factory=dict)
    """Numbers before and after, by the data set's name: `dev` and `test`."""
    compensated_by: tuple[str, ...] | None = stored("mended", default=None)
    """Stages that had changed the weights before further training; None without such training."""
    trained_on: int | None = omitted(None)
    """Number of updates of further training; None without it."""
    functions: tuple[Survival, ...] | None = omitted(None)
    """What became of every role; None if the dense model's analysis was not given."""
    skills: tuple[SkillChange, ...] = omitted(())
    """What both models can do; none if they were not asked."""
    speed: SpeedRecord | None = omitted(None)
    """The measured speed; None if it was not measured."""
    int8: Int8Record | None = omitted(None)
    """The ONNX export in 8 bits; None without one."""
    signature: str = omitted("")
    """Signature of everything that the numbers depend on; empty for a plan of unknown origin."""

    @property
    def data_arguments(self) -> Mapping[str, Any]:
        """The arguments that name the task and its data."""
        found = self.arguments.get("on")
        return found if isinstance(found, Mapping) else self.arguments

    @property
    def kept_stages(self) -> tuple[str, ...]:
        """Names of the stages after the choice that changed the weights."""
        if self.compensated_by is not None:
            return self.compensated_by
        stages = () if self.pipeline is None else self.pipeline.stages
        return tuple(each.stage for each in stages if each.kept)
