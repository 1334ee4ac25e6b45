"""Prune: choose heads, compensate for them, cut them out, and measure what changed.

The compact model itself is measured, on the development set and, if there is one, on a test set
that no choice depends on.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, final

from transformers import PreTrainedModel

from headcount.compaction import FeedForward, check_lists, kept_neurons, unlisted
from headcount.core import InputError, ModelError, Plan, Progress, brief_repr, options_of
from headcount.models import Loaded, as_loaded, revision
from headcount.pruning.before_after import changes, few_in, slices
from headcount.pruning.budget import Units, check_prunable
from headcount.pruning.budget_spec import BudgetSpec, GivenKeep, dense
from headcount.pruning.compensation import Compensation, control, run_stages
from headcount.pruning.context import (
    PruneSettings,
    PruningContext,
    known_roles,
    losses_of,
    protected_heads,
)
from headcount.pruning.costs import Costs, compacted
from headcount.pruning.limit import Chosen, broken_limit, choose, kept_limit, number_of_heads
from headcount.pruning.methods.method import Method, check_finetunings
from headcount.pruning.methods.registry import as_method, chosen
from headcount.pruning.remembering import remembered, remembered_speed
from headcount.results import (
    CeilingRecord,
    ChoiceRecord,
    ControlChange,
    ControlRecord,
    DataSetChange,
    NeuronsRecord,
    PipelineRecord,
    PruneRecord,
    SliceChange,
)
from headcount.skills import SkillOptions
from headcount.speed import Options, cache_record, ceiling, size_record, takes_tokens
from headcount.tasks import Evaluation, Task, TaskSplits, evaluate

TOGETHER = "fisher"
"""Method that chooses heads and neurons together."""


def neurons_record(plan: Plan, layers: Sequence[FeedForward]) -> tuple[NeuronsRecord, ...]:
    """How many neurons each feed-forward network keeps."""
    return tuple(
        NeuronsRecord(*each.layer_id, len(kept_neurons(plan, each)), each.num_neurons)
        for each in layers
    )


@final
@dataclass(frozen=True, eq=False)
class Pruned:
    """A pruned model and its record."""

    __repr__ = brief_repr

    plan: Plan
    """Plan for the given model."""
    given: Loaded
    """The model that was given, which is unchanged."""
    dense: Loaded
    """The model with all its heads, whose weights compensate for the pruned heads."""
    compact: Loaded
    """The model without the pruned heads."""
    record: PruneRecord
    """How it was made, and every number before and after."""
    dev: Task
    """The development set, on which the forms of the model are compared when it is saved."""
    asked: SkillOptions | None = None
    """How both models are asked for skills; few needles in raw text if None."""

    @property
    def model(self) -> PreTrainedModel:
        """The compact model."""
        return self.compact.model


@final
class _Stage:
    """Remembers the stage that a pruning is in, and passes progress on."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self.name = progress, ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.name = stage
        self._progress(stage, done, total)

    def advice(self, state: Path | None) -> str:
        """At which stage a pruning stopped, and what to try."""
        where = f"at its stage {self.name!r}" if self.name else "before its first stage"
        kept = (
            "" if state is None else f" Finished stages are in {state}, where --resume reads them."
        )
        return (
            f"prune stopped {where}.{kept} If heads were chosen, try other heads (--keep, "
            "--method), or leave a stage out (--no-fold, --no-rescale)."
        )


@final
@dataclass(frozen=True, eq=False)
class Pruning:
    """What to prune, how, and the data to measure on."""

    context: PruningContext
    """The model, the data to choose heads with, and which heads can be pruned."""
    method: Method
    """The method that chooses heads."""
    limit: BudgetSpec
    """The budget."""
    dev: Task
    """The development set to measure on, which also decides about a searched budget and stages."""
    test: Task | None = None
    """The test set to measure on, which no choice depends on."""
    stages: Compensation = field(default_factory=Compensation)
    """The stages that follow the choice."""
    timing: Options | None = None
    """The case in which the pruned model is timed beside the dense one; None to time nothing."""

    def run(self) -> Pruned:
        """Choose heads, compensate, cut them out, and measure.

        Raises:
            InputError: if the limit can't be met.
            ConsentError: if all heads would be pruned that the model's configuration lists for
                some use.
            ModelError: if the model can't be made smaller exactly; says at which stage.
        """
        stage = _Stage(self.context.progress)
        try:
            return replace(self, context=replace(self.context, progress=stage)).measured()
        except ModelError as error:
            raise type(error)(f"{error} {stage.advice(self.context.state)}") from error

    def measured(self) -> Pruned:
        """The same, without the stage in errors."""
        loaded, start = self.context.loaded, perf_counter()
        self._check()
        costs = Costs(self.limit, self.context, self.dev, self.timing)
        measures = {} if self.context.feed_forwards else costs.checked()
        together = costs.together() if self.context.feed_forwards else None
        tasks = {"dev": self.dev} | ({} if self.test is None else {"test": self.test})
        before = self._evaluated("dense model", loaded, tasks)
        chosen = together or choose(
            self.limit, self.method, self.context, self.dev, before["dev"], measures
        )
        plan = replace(chosen.selection.plan, model=revision(loaded.model))
        check_lists(loaded.model, loaded.heads, plan)
        if self.context.state is not None:
            plan.write(self.context.state / "plan.json")
        done = run_stages(chosen.selection, self.stages, self.context, self.dev)
        with self._step("cut"):
            smaller = compacted(done.loaded, plan, plan.model)
            possible, cache = self._ceiling(plan), cache_record(loaded, smaller)
        after = self._evaluated("pruned model", smaller, tasks)
        compared = self._compared(tasks, before, after)
        size = size_record(loaded, smaller)
        speed = remembered_speed(self.context, smaller, partial(costs.speed, smaller))
        paid = costs.paid(smaller, size, speed)
        changed = {name: each.score for name, each in compared.items()}
        within_limit = kept_limit(self.limit, changed, paid)
        control = self._control(tasks, before, after)
        record = PruneRecord(
            model=Path(loaded.name).name,
            heads=loaded.heads.counts,
            neurons=neurons_record(plan, self.context.feed_forwards),
            kept=tuple(map(str, plan.kept_heads(loaded.heads))),
            pruned=tuple(map(str, plan.pruned_heads(loaded.heads))),
            unlisted=unlisted(loaded.model, loaded.heads, plan),
            choice=self._choice(chosen),
            pipeline=PipelineRecord(
                stages=done.results,
                facts=done.facts,
                within_limit=within_limit,
                latency_ms=paid.get("latency"),
                control=control,
                seconds=round(perf_counter() - start, 1),
            ),
            ceiling=possible,
            size=size,
            cache=cache,
            speed=speed,
            data_sets=compared,
            warnings=(
                *broken_limit(self.limit, within_limit, paid),
                *few_in(tasks),
                *losses_of(plan, loaded, self.context.roles, chosen.selection.scores),
            ),
        )
        return Pruned(plan, self.context.loaded, done.loaded, smaller, record, self.dev)

    def _check(self) -> None:
        """Raise the errors of impossible requests before time is spent on them."""
        context = self.context
        number_of_heads(self.limit, context.units, context.loaded.anatomy)
        with self._step("trial cut"):
            check_prunable(context.loaded, context.units)
        check_finetunings(context, self.method, self.stages.recovery)
        self.stages.check_control(self.method.tuning)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Report a stage that has no parts."""
        self.context.progress(name, 0, 1)
        yield
        self.context.progress(name, 1, 1)

    def _evaluated(
        self, what: str, loaded: Loaded, tasks: Mapping[str, Task]
    ) -> dict[str, Evaluation]:
        """A model's results on every data set."""
        found = {}
        for name, task in tasks.items():
            watched = self.context.watched(task, f"{what} on {name}")
            make = partial(evaluate, loaded.model, watched, self.context.max_tokens, texts=True)
            found[name] = remembered(self.context, loaded, task, make)
        return found

    def _choice(self, chosen: Chosen) -> ChoiceRecord:
        found, selection = chosen.found, chosen.selection
        return ChoiceRecord(
            method=TOGETHER if self.context.feed_forwards else self.method.name,
            options=repr(self.method),
            limit=self.limit.limits,
            keep=chosen.keep,
            tried=None if found is None else found.tried,
            scores=selection.scores,
            open=selection.open,
            swept=selection.swept,
            compared=selection.compared,
            history=selection.history,
            protected=tuple(map(str, self.context.units.protected)),
        )

    def _compared(
        self,
        tasks: Mapping[str, Task],
        before: Mapping[str, Evaluation],
        after: Mapping[str, Evaluation],
    ) -> dict[str, DataSetChange]:
        """The changes on every data set, with intervals."""
        found = dict[str, DataSetChange]()
        for number, (name, task) in enumerate(tasks.items()):
            self.context.progress("intervals", number, len(tasks))
            parts = slices(task, self.context.train, self.context.max_tokens)
            found[name] = changes(task, before[name], after[name], parts, self.context.seed)
        self.context.progress("intervals", len(tasks), len(tasks))
        return found

    def _ceiling(self, plan: Plan) -> CeilingRecord | None:
        """The largest possible speedup of one forward pass; None for models that take no tokens."""
        loaded = self.context.loaded
        if not takes_tokens(loaded.model):  # FLOPs are counted on tokens
            return None
        length = min(128, loaded.max_length or 128)
        return CeilingRecord(length, ceiling(loaded.model, plan, length, loaded.anatomy))

    def _control(
        self, tasks: dict[str, Task], before: dict[str, Evaluation], pruned: dict[str, Evaluation]
    ) -> ControlRecord | None:
        """Effect of training alone on the dense model, and the pruned model compared with that."""
        made = control(self.stages, self.method, self.context, self.dev)
        if made is None:
            return None
        loaded, trainings = made
        after = self._evaluated("control", loaded, tasks)
        seed, found = self.context.seed, {}
        for name, task in tasks.items():
            trained = changes(task, before[name], after[name], seed=seed)
            beside = changes(task, after[name], pruned[name], seed=seed)
            part = SliceChange(beside.examples, beside.score, beside.loss)
            found[name] = ControlChange(trained, part)
        return ControlRecord(trainings, found)


def prune(
    model: Loaded | PreTrainedModel,
    splits: TaskSplits | Task,
    method: Method | str = "auto",
    keep: BudgetSpec | GivenKeep | None = None,
    compensation: Compensation | None = None,
    settings: PruneSettings | None = None,
    timing: Options | None = None,
) -> Pruned:
    """Choose heads, compensate for them, cut them out, and measure what changed.

    Args:
        model: the result of `load`, or a plain model; it is not changed.
        splits: the data to choose heads with, to measure on, and held out; a single task raises an
            error.
        method: a method's name, as given to `--method`, or a method made with its own options.
        keep: the budget: number of heads to keep, in all or at each site named, or a `BudgetSpec`.
        compensation: the stages that follow the choice; folding and rescaling if None.
        settings: which heads may be pruned, the seed, and the like.
        timing: the case in which the pruned model is timed beside the dense one, e.g. `TIMING`;
            None to time nothing unless the budget is a speedup.

    Raises:
        InputError: for an unknown method, or a budget that can't be met; the error names the
            nearest possible budget.
        ModelError: if the model can't be made smaller exactly.
    """
    if not isinstance(splits, TaskSplits):
        raise InputError(
            f"Expected TaskSplits, with data to choose heads with and to measure on, got "
            f"{type(splits).__name__}. For the plan alone, call choose_heads."
        )
    settings, loaded = settings or PruneSettings(), as_loaded(model, None)
    method, compensation = as_method(method), compensation or Compensation()
    budget = keep if isinstance(keep, BudgetSpec) else BudgetSpec(keep)
    number_of_heads(budget, settings.units(loaded), loaded.anatomy)  # before roles take their time
    pruned = Pruning(
        settings.context(loaded, splits.train, with_roles=True),
        method,
        budget,
        splits.dev,
        splits.test,
        compensation,
        timing,
    ).run()
    record = replace(
        pruned.record,
        warnings=(*splits.warnings, *pruned.record.warnings, *splits.noticed),
        signature=splits.signature(loaded, settings.seed, **settings.signed_options),
        arguments=_arguments(method, compensation),
    )
    return replace(pruned, record=record, asked=settings.asked)


def _arguments(method: Method, compensation: Compensation) -> dict[str, Any]:
    """The arguments of the command that set options of the method and of the recovery."""
    found: dict[str, Any] = {"options": method.changed_options}
    if (recovery := compensation.recovery) is not None:
        tune = [each for each in options_of(recovery) if not each.startswith("updates=")]
        found |= {"recover": recovery.updates, "tune": tune}
    return found


def choose_heads(
    model: Loaded | PreTrainedModel,
    task: Task,
    method: Method | str,
    keep: GivenKeep,
    sites: Sequence[str] | None = None,
    seed: int = 0,
    protect: Sequence[str] = (),
) -> Plan:
    """The plan of the heads that a method keeps; the model is not changed.

    Args:
        model: the result of `load`, or a plain model.
        task: the data to choose heads with.
        method: a method's name, as given to `--method`, or a method made with its own options. If
            the method trains, the trained weights are lost: see `prune`.
        keep: number of heads to keep, in all or at each site named.
        sites: sites whose heads can be pruned; all if None.
        seed: seed of all random draws.
        protect: names of heads that are kept whatever the method; of causal models also the roles
            induction, duplicate and previous, and the skills retrieval, answers and
            function_vector, whose heads are.

    Raises:
        InputError: for an unknown method, or a budget that can't be met; the error names the
            nearest possible budget.
    """
    method, loaded = as_method(method), as_loaded(model, None)
    units = Units.of(loaded.anatomy, sites)
    if protect:
        roles = known_roles(loaded, seed, protect=protect)
        units = units.protecting(protected_heads(protect, loaded, roles))
    selection = chosen(method, PruningContext(loaded, task, units, seed=seed), dense(keep))
    return replace(selection.plan, model=revision(loaded.model))
