"""Prune: choose heads, compensate for them, cut them out, and measure what changed.

The compact model itself is measured, on the development set and, if there is one, on a test set
that no choice depends on.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any, final

import numpy as np
from transformers import PreTrainedModel

from headcount.compaction import compact
from headcount.core import InputError, Plan
from headcount.models import Loaded, as_loaded, revision
from headcount.pruning.before_after import BeforeAfter, slices
from headcount.pruning.budget import GivenKeep, Units, check_prunable, dense
from headcount.pruning.compensation.stages import CompensatedModel, Compensation, run_stages
from headcount.pruning.limit import BudgetSpec, Chosen, broken_limit, choose, kept_limit
from headcount.pruning.methods.method import (
    Method,
    PruningContext,
    Ranking,
    RankingMethod,
    check_finetunings,
)
from headcount.pruning.methods.registry import method as named
from headcount.speed import ceiling, latency
from headcount.tasks import Evaluation, Task, evaluate
from headcount.training import finetune


@final
@dataclass(frozen=True, eq=False)
class Control:
    """The dense model after its trainings."""

    loaded: Loaded
    trainings: tuple[dict[str, Any], ...]
    """Settings of each training, whether the pruned model was `taught` in its counterpart, and
    whether its weights were `kept`."""


def control(
    stages: Compensation, method: Method, setting: PruningContext, dev: Task
) -> Control | None:
    """Train the dense model as the pruned one was; None if no training changed any weights."""
    trainings = {"choice": method.tuning, "recovery": stages.recovery}
    wanted = {name: each for name, each in trainings.items() if each and each.trained != "gates"}
    if not stages.control or not wanted:
        return None
    loaded, done = setting.loaded, []
    for name, given in wanted.items():
        # No teacher: the control measures training on the data, and would start as its own teacher.
        tuning = given.untaught()
        state = setting.state and setting.state / f"control-{name}"
        tuned = finetune(
            loaded,
            setting.train,
            tuning,
            seed=setting.seed,
            state=state,
            tell=setting.telling("control"),
        ).loaded
        is_kept = name == "choice" or _loss(tuned, dev, setting) < _loss(loaded, dev, setting)
        loaded = tuned if is_kept else loaded
        done.append(asdict(tuning) | {"taught": given.is_taught, "kept": is_kept})
    return Control(loaded, tuple(done))


def _loss(loaded: Loaded, dev: Task, setting: PruningContext) -> float:
    return evaluate(loaded.model, dev, setting.max_tokens).loss


def milliseconds(loaded: Loaded, task: Task, rounds: int = 9) -> float:
    """Median time over rounds of one forward pass with the example of median length alone.

    In translation, the reference is the decoder's input, without a search.
    """
    median = np.argsort(task.length_N, kind="stable")[task.num_examples // 2]
    inputs = task.batch(median[None]).to(loaded.model.device).inputs
    return 1000 * latency(loaded.model, inputs, rounds)


@final
@dataclass(frozen=True, eq=False)
class Pruned:
    """A pruned model and its record."""

    plan: Plan
    """Plan for the given model."""
    dense: Loaded
    """The model with all its heads, whose weights compensate for the pruned heads."""
    compact: Loaded
    record: dict[str, Any]
    """How it was made, and every number before and after: the contents of `prune.json`."""


@final
@dataclass(frozen=True, eq=False)
class Pruning:
    """What to prune, how, and the data to measure on."""

    setting: PruningContext
    method: Method
    limit: BudgetSpec
    dev: Task
    test: Task | None = None
    stages: Compensation = field(default_factory=Compensation)
    reported: Callable[[Plan], None] = lambda plan: None
    """Called with the plan as soon as heads are chosen."""

    def run(self) -> Pruned:
        """Choose heads, compensate, cut them out, and measure.

        Raises:
            InputError: if the limit can't be met.
            ModelError: if the model can't be made smaller exactly.
        """
        loaded, start = self.setting.loaded, perf_counter()
        # Impossible requests raise an error before time is spent on them.
        self.limit.budget(self.setting.units)
        check_prunable(loaded, self.setting.units)
        check_finetunings(self.setting, self.method, self.stages.recovery)
        tasks = {"dev": self.dev} | ({} if self.test is None else {"test": self.test})
        before = {name: self._evaluated(loaded, task) for name, task in tasks.items()}
        chosen = choose(
            self.limit,
            self.method,
            self.setting,
            self.dev,
            before["dev"],
            lambda choice: milliseconds(_compact(choice.loaded, choice.plan, None), self.dev),
        )
        plan = replace(chosen.choice.plan, model=revision(loaded.model))
        self.reported(plan)
        done = run_stages(chosen.choice, self.stages, self.setting, self.dev)
        smaller = _compact(done.loaded, plan, plan.model)
        after = {name: self._evaluated(smaller, task) for name, task in tasks.items()}
        record = self._about(chosen, plan, done)
        if loaded.model.main_input_name == "input_ids":  # FLOPs are counted on tokens
            record["ceiling"] = self._ceiling(plan)
        compared = {
            name: self._compared(task, before[name], after[name]) for name, task in tasks.items()
        }
        record |= compared | self._kept_limit(compared, smaller)
        record["control"] = self._control(tasks, before, after)
        return Pruned(
            plan, done.loaded, smaller, record | {"seconds": round(perf_counter() - start, 1)}
        )

    def _evaluated(self, loaded: Loaded, task: Task) -> Evaluation:
        return evaluate(loaded.model, task, self.setting.max_tokens, texts=True)

    def _about(self, chosen: Chosen, plan: Plan, done: CompensatedModel) -> dict[str, Any]:
        heads, found = self.setting.loaded.heads, chosen.found
        return {
            "method": self.method.name,
            "options": repr(self.method),
            "limit": {name: each for name, each in vars(self.limit).items() if each is not None},
            "keep": chosen.keep,
            "tried": None if found is None else {str(k): v for k, v in found.tried.items()},
            "heads": {site: list(counts) for site, counts in heads.counts.items()},
            "staying": list(map(str, plan.kept_heads(heads))),
            "leaving": list(map(str, plan.pruned_heads(heads))),
            "scores": dict(chosen.choice.record.get("scores", {})),
            "open": chosen.choice.record.get("open"),
            "swept": chosen.choice.record.get("swept"),
            "history": chosen.choice.record.get("history"),
            "gains": [asdict(gain) for gain in done.gains],
            "stages": done.record,
        }

    def _compared(self, task: Task, before: Evaluation, after: Evaluation) -> dict[str, Any]:
        parts = slices(task, self.setting.train, self.setting.max_tokens)
        return BeforeAfter(task, before, after).record(parts, self.setting.seed)

    def _ceiling(self, plan: Plan) -> dict[str, Any]:
        """The largest possible speedup of one forward pass, by its FLOPs."""
        loaded = self.setting.loaded
        length = min(128, loaded.max_length or 128)
        return {"tokens": length, "value": ceiling(loaded.model, plan, length, loaded.anatomy)}

    def _kept_limit(self, compared: dict[str, Any], smaller: Loaded) -> dict[str, Any]:
        """Whether the final model meets the limit for which its budget was searched."""
        limit = self.limit
        latency = None if limit.latency is None else milliseconds(smaller, self.dev)
        kept = kept_limit(limit, compared, latency)
        warnings = broken_limit(limit, kept, latency)
        return {"within_limit": kept, "latency_ms": latency, "warnings": warnings}

    def _control(
        self, tasks: dict[str, Task], before: dict[str, Evaluation], pruned: dict[str, Evaluation]
    ) -> dict[str, Any] | None:
        """Effect of training alone on the dense model, and the pruned model compared with that."""
        made = control(self.stages, self.method, self.setting, self.dev)
        if made is None:
            return None
        after = {name: self._evaluated(made.loaded, task) for name, task in tasks.items()}
        seed, found = self.setting.seed, dict[str, Any](trainings=list(made.trainings))
        for name, task in tasks.items():
            found[name] = BeforeAfter(task, before[name], after[name]).record(seed=seed)
            against = BeforeAfter(task, after[name], pruned[name]).record(seed=seed)
            about = ("higher_is_better", "score", "loss", "drop", "rise")
            found[name]["pruned"] = {key: against[key] for key in about}
        return found


def prune(
    model: Loaded | PreTrainedModel,
    task: Task,
    method: Method | Ranking | str,
    keep: GivenKeep,
    sites: Sequence[str] | None = None,
    seed: int = 0,
) -> Plan:
    """The plan of the heads that a method keeps; the model is not changed.

    Args:
        model: the result of `load`, or a plain model.
        task: the data to choose heads with.
        method: a method's name, as given to `--method`, or a method made with its own options. If
            the method trains, the trained weights are lost: see `Pruning`.
        keep: number of heads to keep, in all or at each site named.
        sites: sites whose heads can be pruned; all if None.
        seed: seed of all random draws.

    Raises:
        InputError: for an unknown method, or a budget that can't be met; the error names the
            nearest possible budget.
    """
    if isinstance(method, str):
        method = named(method)
    elif isinstance(method, Ranking):
        method = RankingMethod(method)
    elif not isinstance(method, Method):
        raise InputError(f"Expected a method, or the name of one, got a {type(method).__name__}.")
    loaded = as_loaded(model, None)
    units = Units.of(loaded.anatomy, sites)
    choice = method.choose(PruningContext(loaded, task, units, seed), dense(keep))
    return replace(choice.plan, model=revision(loaded.model))


def _compact(loaded: Loaded, plan: Plan, origin: str | None) -> Loaded:
    """The compact model, with its tokenizer."""
    fitting = replace(plan, model=revision(loaded.model))
    return Loaded(compact(loaded, fitting, origin), loaded.tokenizer, loaded.name)
