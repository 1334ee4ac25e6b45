"""Further training: a model is trained on a task's data, measured before and after, and saved.

A compact model that learns from the dense model it was cut out of gets a new certificate and card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

from headcount.artifact.comparing import Data
from headcount.artifact.recertify import Origin, choice_of, origin_of
from headcount.artifact.saving import write_model
from headcount.artifact.staging import FINETUNED, forget_run, staged
from headcount.core import ModelError, Progress, silent
from headcount.models import Loaded, is_compact, place_of, revision
from headcount.pruning import BeforeAfter
from headcount.results import (
    DataSetChange,
    FinetuneChange,
    FinetuneRecord,
    PruneRecord,
)
from headcount.tasks import Evaluation, Task, TaskSplits, evaluate
from headcount.training import (
    FinetuneConfig,
    check_finetuning,
    check_further_training,
    check_teacher,
    finetune,
)

Evaluations = Mapping[str, Evaluation]
"""The evaluation of every data set, by its name."""


@final
@dataclass(frozen=True, eq=False)
class FurtherTraining:
    """What to train further, how, and the data to train and to measure on.

    Raises:
        InputError: If the model can't be trained like this, or the teacher has another vocabulary.
    """

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
    max_tokens: int = 4096
    """Number of padded tokens in a batch of an evaluation."""
    state: Path | None = None
    """Folder for checkpoints, from which an interrupted training resumes; None for none."""
    progress: Progress = silent
    """Function called with the progress of the training."""

    def __post_init__(self) -> None:
        check_further_training(self.tuning, self.teacher is not None)
        check_finetuning(self.loaded, self.splits.train, self.tuning)
        if self.teacher is not None:
            check_teacher(self.loaded, self.teacher)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence if a compact model will get no certificate."""
        return (self._origin,) if isinstance(self._origin, str) else ()

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
            seed=self.seed,
            state=self.state,
            tell=lambda moment: self.progress("training", moment.step, moment.steps),
        )
        after = self._evaluated(tuned.loaded)
        taught_by = self.teacher and revision(self.teacher.model)
        record = FinetuneRecord(
            data_sets={name: self._change(name, earlier, after) for name in after},
            tuning=asdict(self.tuning),
            warnings=(*self.splits.warnings, *self.warnings),
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
            return BeforeAfter(task, earlier[beside][name], after[name]).changes(seed=self.seed)

        return FinetuneChange(change("before"), change("teacher") if "teacher" in earlier else None)


@final
@dataclass(frozen=True, eq=False)
class FurtherTrained:
    """A model that was trained further, and its record."""

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
        folder, record = Path(folder), replace(self.record, arguments=arguments)
        with staged(folder, overwrite, FINETUNED) as staging:
            if self.origin is None:
                write_model(staging, self.loaded.model, self.loaded.tokenizer)
            else:
                data = Data.of_task(self.dev, self.loaded.model.device, files)
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
