"""Further training: a model is trained on a task's data, measured before and after, and saved.

A compact model that learns from the dense model it was cut out of gets a new certificate and card.
For these its weights are copied back into the dense model. With the pruned heads gated to zero, the
dense model must compute the same as the compact one.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch

from headcount.artifact.comparing import Data
from headcount.artifact.making import certify, heads_record, write_head_card
from headcount.artifact.saving import write_model
from headcount.artifact.staging import FINETUNED, forget_run, staged
from headcount.compaction import Projection, named_feed_forwards, relative, restorable, restored
from headcount.core import MAX_TOKENS, ModelError, Plan, Progress, brief_repr, name_of, silent
from headcount.models import Loaded, check_is_loaded, is_compact, place_of, plan_for, revision
from headcount.pruning import changes, few_in
from headcount.results import (
    ChoiceRecord,
    DataSetChange,
    FinetuneChange,
    FinetuneRecord,
    PruneRecord,
)
from headcount.speed import cache_record
from headcount.tap import body_path
from headcount.tasks import Evaluation, Task, TaskSplits, check_examples_fit, evaluate
from headcount.training import (
    FinetuneConfig,
    TrainingRun,
    check_finetuning,
    check_further_training,
    check_teacher,
    finetune,
)


@final
@dataclass(frozen=True, eq=False)
class Origin:
    """A dense model, and which of its heads a compact model keeps."""

    dense: Loaded
    """The dense model."""
    plan: Plan
    """The plan of its kept heads."""

    def write(
        self, folder: Path, learned: Loaded, data: Data, record: PruneRecord | None = None
    ) -> None:
        """Write model, plan, certificate and card.

        Args:
            folder: Folder to write into.
            learned: The compact model.
            data: Data to compare the gated, compact and reloaded model on.
            record: What is known about the model besides; the heads alone if None.

        Raises:
            ModelError: If two of the three models differ.
        """
        gated = restored(self.dense, self.plan, learned)
        certificate = certify(folder, gated, self.plan, learned, data)
        made_for = learned.model.config.head_plan["model"]
        replace(self.plan, model=made_for).write(folder / "plan.json")
        record = record or heads_record(self.dense, self.plan, ())
        cache = cache_record(self.dense, learned)
        write_head_card(folder, replace(record, cache=cache, comparisons=certificate.comparisons))


def origin_of(smaller: Loaded, dense: Loaded) -> Origin:
    """The dense model and plan that a compact model comes from.

    Args:
        smaller: The compact model.
        dense: The dense model that it may come from, with any weights.

    Raises:
        ModelError: If it is not that model with fewer heads, or its weights can't be copied back.
    """
    found = smaller.model.config.head_plan
    counts = {site: list(each) for site, each in dense.heads.counts.items()}
    stock = vars(type(smaller.model)).get("stock_class")
    if found["heads"] != counts or type(dense.model) is not stock:
        raise ModelError(
            f"Expected a teacher of the kind that {name_of(smaller.name)} was cut out of, got a "
            f"{type(dense.model).__name__} with {dense.heads}."
        )
    named = Plan.of_kept(found["kept"], found.get("neurons"))
    dense = _with_biases(dense, found["maps"], named)
    stay = named.kept_heads(dense.heads)
    plan = replace(plan_for(dense, stay), neurons=named.neurons)
    same = restorable(dense, plan)
    if same is None:
        raise ModelError(
            f"The weights of a smaller {type(dense.model).__name__} can't be copied back into it."
        )
    shapes = [
        {name: each.shape for name, each in one.model.state_dict().items()}
        for one in (same, smaller)
    ]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"Expected a teacher of the size that {name_of(smaller.name)} was cut out of, got "
            "another size."
        )
    return Origin(dense, plan)


def dense_twin(smaller: Loaded) -> Loaded:
    """The dense model that computes what a compact one does: its pruned heads write zeros.

    Raises:
        ModelError: If the stock class does not make that model, or has no place for its weights.
    """
    model = smaller.model
    config = copy.deepcopy(model.config)
    config.per_layer_config = config.head_plan = config.auto_map = None
    stock: Any = vars(type(model))["stock_class"]
    dense = stock._from_config(config, dtype=model.dtype).to(model.device).eval()
    origin = origin_of(smaller, Loaded(dense, None, smaller.name))
    with torch.no_grad():
        for path in _last_maps(origin.dense, origin.plan):
            origin.dense.model.get_submodule(path).get_parameter("weight").zero_()
    twin = restored(origin.dense, origin.plan, smaller)
    return replace(twin, tokenizer=smaller.tokenizer)


def _last_maps(dense: Loaded, plan: Plan) -> list[str]:
    """Paths of the maps through which heads, and the neurons that a plan names, write."""
    fed = named_feed_forwards(dense.model, dense.anatomy, plan, dense.inputs)
    outputs = [each.output for each in (*dense.anatomy.layers, *fed)]
    return [path for path in outputs if path]


def _with_biases(dense: Loaded, maps: Mapping[str, Mapping[str, Any]], plan: Plan) -> Loaded:
    """A copy with a zero bias where folding added one to the compact model; else the model."""
    body = body_path(dense.model)
    grown = [
        path
        for path in _last_maps(dense, plan)
        if maps.get(relative(path, body), {}).get("bias")
        and dense.model.get_submodule(path).bias is None
    ]
    if not grown:
        return dense
    model = copy.deepcopy(dense.model)
    for path in grown:
        projection = Projection(model.get_submodule(path))
        projection.add_bias(torch.zeros(projection.weight_OM.shape[1]))
    return replace(dense, model=model)


def choice_of(folder: Path, origin: Origin) -> PruneRecord:
    """What stays true of a pruned model after training: its heads, and how they were chosen.

    Args:
        folder: Folder of the pruned model; without a record, nothing is known of the choice.
        origin: The dense model and the plan. Statements about a model that had already lost heads
            are not true of this dense model.

    Raises:
        InputError: If the record can't be read.
    """
    bare = heads_record(origin.dense, origin.plan, ())
    if not (folder / PruneRecord.FILE).exists():
        return bare
    record = PruneRecord.read(folder)
    choice, ceiling = record.choice and replace(record.choice, tried=None), record.ceiling
    if record.heads != bare.heads:
        choice, ceiling = choice and _of_any_model(choice), None
    return replace(
        bare,
        choice=choice,
        ceiling=ceiling,
        compensated_by=record.kept_stages,
        trained_on=record.trained_on or 0,
    )


def _of_any_model(choice: ChoiceRecord) -> ChoiceRecord:
    """A choice without the numbers about a model's own heads."""
    return replace(choice, scores={}, open=None, swept=None, compared=None, history=None)


Evaluations = Mapping[str, Evaluation]
"""The evaluation of every data set, by its name."""


@final
@dataclass(frozen=True, eq=False)
class FurtherTraining:
    """A model to train further, the settings, and the data to train on and to measure on.

    `.run()` trains and returns a `FurtherTrained`, whose `.save(folder)` writes the model.

    Raises:
        InputError: If the model can't be trained like this, or the teacher has another vocabulary.
    """

    __repr__ = brief_repr

    loaded: Loaded
    """The model; it is not changed."""
    splits: TaskSplits
    """The data to train on, to measure on, and held out."""
    tuning: FinetuneConfig
    """Settings of the training."""
    teacher: Loaded | None = None
    """The model to distil from, e.g. the dense one."""
    seed: int = 0
    """Seed of batches, dropout and resamples."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch of an evaluation."""
    state: Path | None = None
    """Folder for checkpoints, from which an interrupted training resumes; None for none."""
    progress: Progress = silent
    """Function called with the progress of the training."""

    def __post_init__(self) -> None:
        check_is_loaded(self.loaded)
        check_further_training(self.tuning, self.teacher is not None)
        check_finetuning(self.loaded, self.splits.train, self.tuning)
        if self.teacher is not None:
            check_is_loaded(self.teacher)
            check_teacher(self.loaded, self.teacher)
        for task in self.splits.measured.values():
            check_examples_fit(self.loaded, task, self.max_tokens)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence if a compact model will get no certificate, and for each small data set."""
        origin = [self._origin] if isinstance(self._origin, str) else []
        return (*origin, *few_in(self.splits.measured))

    def run(self) -> "FurtherTrained":
        """Measure, train, and measure again.

        Raises:
            InputError: If the state belongs to another training, or a record can't be read.
            ModelError: If a loss is not finite.
        """
        origin = None if isinstance(self._origin, str) else self._origin
        known = None
        if origin is not None:
            known = choice_of(Path(place_of(self.loaded.name)), origin)
        models = {"before": self.loaded}
        if self.teacher is not None:
            models["teacher"] = self.teacher
        earlier = {name: self._evaluated(each) for name, each in models.items()}
        tuned = finetune(
            self.loaded,
            self.splits.train,
            self.tuning,
            teacher=self.teacher and self.teacher.model,
            run=TrainingRun(
                self.seed,
                self.state,
                tell=lambda moment: self.progress("training", moment.step, moment.steps),
            ),
        )
        after = self._evaluated(tuned.loaded)
        taught_by = self.teacher and revision(self.teacher.model)
        record = FinetuneRecord(
            data_sets={name: self._change(name, earlier, after) for name in after},
            tuning=asdict(self.tuning),
            warnings=(*self.splits.warnings, *self.warnings, *self.splits.noticed),
            signature=self.splits.signature(self.loaded, self.seed, teacher=taught_by),
            history=tuple(tuned.history),
        )
        return FurtherTrained(tuned.loaded, record, self.splits.dev, origin, known)

    @cached_property
    def _origin(self) -> Origin | str | None:
        """The origin that a compact model's certificate needs, or a warning that it has none."""
        if self.teacher is None or not is_compact(self.loaded.model.config):
            return None
        try:
            return origin_of(self.loaded, self.teacher)
        except ModelError as error:
            return f"no certificate and no card will be written: {str(error).rstrip('.')}"

    def _evaluated(self, loaded: Loaded) -> Evaluations:
        return {
            name: evaluate(loaded.model, task, self.max_tokens, texts=True)
            for name, task in self.splits.measured.items()
        }

    def _change(
        self, name: str, earlier: Mapping[str, Evaluations], after: Evaluations
    ) -> FinetuneChange:
        """The model before and after, and beside any teacher, on one data set."""
        task = self.splits.measured[name]

        def change(beside: str) -> DataSetChange:
            return changes(task, earlier[beside][name], after[name], seed=self.seed)

        return FinetuneChange(change("before"), change("teacher") if "teacher" in earlier else None)


@final
@dataclass(frozen=True, eq=False)
class FurtherTrained:
    """A model that was trained further, and its record."""

    __repr__ = brief_repr

    loaded: Loaded
    """The trained model."""
    record: FinetuneRecord
    """How it was trained, and every number before and after."""
    dev: Task
    """The development set, on which the forms of a compact model are compared."""
    origin: Origin | None = None
    """The dense model that it was cut out of; None if it gets no certificate."""
    known: PruneRecord | None = None
    """What stays true of a pruned model; None if it gets no card."""

    def save(
        self,
        folder: str | Path,
        *,
        files: Sequence[str] = (),
        arguments: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> FinetuneRecord:
        """Write everything or nothing, and remove the state of the training.

        Args:
            folder: The output folder.
            files: Files of the development set, for the certificate.
            arguments: Arguments of the command, for the record.
            overwrite: Whether to replace a fine-tuned model in the folder.

        Raises:
            InputError: If the folder is taken.
            ModelError: If the gated, the compact and the reloaded model differ.
        """
        folder, record = Path(folder), replace(self.record, arguments=arguments or {})
        with staged(folder, overwrite, FINETUNED) as staging:
            if self.origin is None:
                write_model(staging, self.loaded.model, self.loaded.tokenizer)
            else:
                data = Data.of_task(self.dev, self.loaded.model, files)
                self.origin.write(staging, self.loaded, data, self._card())
            record.write(staging)
        forget_run(folder, FINETUNED)
        return record

    def _card(self) -> PruneRecord:
        """The record of the pruned model beside its teacher, the dense one."""
        known, record = self.known, self.record
        assert known is not None
        beside = {name: each.teacher for name, each in record.data_sets.items()}
        return replace(
            known,
            data_sets={name: each for name, each in beside.items() if each is not None},
            warnings=record.warnings,
            signature=record.signature,
            trained_on=(known.trained_on or 0) + record.tuning["updates"],
        )
