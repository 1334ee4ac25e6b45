"""`headcount finetune`: train a model further on a task's data, and measure the change."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from headcount.artifact import (
    Data,
    Kind,
    Origin,
    choice_of,
    claim_artifact,
    origin_of,
    staged,
    state_of,
    write_model,
)
from headcount.cli.console import format_drop, plain_console, to_jsonable
from headcount.cli.data_arguments import LearningArguments
from headcount.cli.progress import shown
from headcount.cli.task_arguments import print_warnings
from headcount.core import InputError, ModelError, made, nulls_for_nan, remove_state, write_json
from headcount.models import Loaded, is_compact, load, place_of, revision
from headcount.pruning import BeforeAfter
from headcount.tasks import Evaluation, Task, evaluate
from headcount.training import FinetuneConfig, FineTuned, check_finetuning, check_teacher, finetune

RESULT = "finetune.json"
Evaluations = dict[str, Evaluation]
"""The evaluation of each data set."""
KIND = Kind("a fine-tuned model", lambda folder: (folder / RESULT).exists())


@dataclass(frozen=True)
class Finetune:
    """Train a model on a task's data: before pruning, after pruning, or as a control."""

    on: tyro.conf.OmitArgPrefixes[LearningArguments]
    out: Path = field(kw_only=True)
    """Folder for the model and its record; an unfinished run keeps its state in OUT.state."""
    teacher: str | None = None
    """The model to distill, e.g. the dense one; needs distilled or layerwise in --set."""
    set: tuple[str, ...] = ()
    """Set training fields, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""
    resume: bool = False
    """Resume an interrupted training."""
    overwrite: bool = False
    """Replace an earlier model in --out."""

    def run(self) -> int:
        """Train, write the folder, and print what changed."""
        tuning = self._tuning()
        self.on.check()
        claim_artifact(self.out, self.resume, self.overwrite, KIND, self._read())
        loaded, teacher = self.on.loaded(), self._taught_by()
        train, dev, test = tasks = self.on.tasks(loaded)
        console, warnings = plain_console(), self.on.warnings(tasks)
        print_warnings(warnings, console)
        check_finetuning(loaded, train, tuning)
        if teacher is not None:
            check_teacher(loaded, teacher)
        origin = self._origin(loaded, teacher, console, warnings)
        place = Path(place_of(self.on.model))
        known = {} if origin is None else choice_of(place, origin.dense)
        measured = {"dev": dev} | ({} if test is None else {"test": test})
        beside = {"before": loaded} | ({} if teacher is None else {"teacher": teacher})
        earlier = {name: self._evaluated(each, measured) for name, each in beside.items()}
        with shown() as progress:
            tuned = finetune(
                loaded,
                train,
                tuning,
                teacher=teacher and teacher.model,
                seed=self.on.seed,
                state=state_of(self.out) / "training",
                tell=lambda moment: progress("training", moment.step, moment.steps),
            )
        compared = self._compared(measured, earlier, self._evaluated(tuned.loaded, measured))
        taught_by = teacher and revision(teacher.model)
        about = {
            "tuning": asdict(tuning),
            "warnings": warnings,
            "signature": self.on.signature(loaded, tasks, teacher=taught_by),
        }
        self._write(tuned, compared, about, (origin, known), dev)
        _print(compared, console)
        console.print(f"Folder: {self.out}")
        return 0

    def _read(self) -> list[Path]:
        """Every local file or folder that the run reads."""
        return [*self.on.files(), *([Path(place_of(self.teacher))] if self.teacher else [])]

    def _tuning(self) -> FinetuneConfig:
        tuning = made(FinetuneConfig, self.set)
        if tuning.gate_rate != FinetuneConfig.gate_rate:
            raise InputError("Fine-tuning has no gates. Leave gate_rate out.")
        if tuning.is_taught != (self.teacher is not None):
            raise InputError(
                "Expected a --teacher together with a distillation loss (distilled or layerwise "
                "in --set), got one without the other."
            )
        return tuning

    def _origin(
        self, loaded: Loaded, teacher: Loaded | None, console: Console, warnings: list[str]
    ) -> Origin | None:
        """The origin that a compact model's certificate needs; else a warning and None."""
        if teacher is None or not is_compact(loaded.model.config):
            return None
        try:
            return origin_of(loaded, teacher)
        except ModelError as error:
            late = [f"no certificate and no card will be written: {str(error).rstrip('.')}"]
            print_warnings(late, console)
            warnings += late
            return None

    def _taught_by(self) -> Loaded | None:
        on = self.on
        return None if self.teacher is None else load(self.teacher, on.device, on.dtype)

    def _compared(
        self,
        tasks: Mapping[str, Task],
        earlier: Mapping[str, Evaluations],
        after: Evaluations,
    ) -> dict[str, Any]:
        """The record of the model before and after, and beside any teacher, for each data set."""
        records = {
            beside: {
                name: BeforeAfter(task, each[name], after[name]).record(seed=self.on.seed)
                for name, task in tasks.items()
            }
            for beside, each in earlier.items()
        }
        taught = records.get("teacher", {})
        return {
            name: record | {"teacher": taught.get(name)}
            for name, record in records["before"].items()
        }

    def _write(
        self,
        tuned: FineTuned,
        compared: dict[str, Any],
        about: dict[str, Any],
        pruned: tuple[Origin | None, dict[str, Any]],
        dev: Task,
    ) -> None:
        """Write everything or nothing, then remove the state."""
        record = (
            compared | about | {"history": tuned.history, "arguments": to_jsonable(asdict(self))}
        )
        origin, known = pruned
        with staged(self.out, self.overwrite, KIND) as new:
            if origin is None:
                write_model(new, tuned.loaded.model, tuned.loaded.tokenizer)
            else:
                data = Data.of_task(dev, tuned.loaded.model.device, self.on.dev)
                origin.write(new, tuned.loaded, data, _reported(compared, about, known))
            write_json(new / RESULT, nulls_for_nan(record))
        remove_state(state_of(self.out))

    def _evaluated(self, loaded: Loaded, tasks: Mapping[str, Task]) -> Evaluations:
        return {
            name: evaluate(loaded.model, task, self.on.max_tokens, texts=True)
            for name, task in tasks.items()
        }


def _reported(
    compared: dict[str, Any], about: dict[str, Any], known: dict[str, Any]
) -> dict[str, Any]:
    """The card's facts about a pruned model beside its teacher, the dense one."""
    beside = {name: found["teacher"] for name, found in compared.items()}
    more = {"warnings": about["warnings"], "signature": about["signature"]}
    updates = known.get("trained_on", 0) + about["tuning"]["updates"]
    return known | beside | more | {"trained_on": updates}


def _print(compared: dict[str, Any], console: Console) -> None:
    for name, found in compared.items():
        for what, numbers in ((found["metric"], found["score"]), ("loss", found["loss"])):
            console.print(f"{name}: {what} {numbers['before']:.4g} -> {numbers['after']:.4g}")
        if found["teacher"] is not None:
            taught, against = found["teacher"]["score"]["before"], format_drop(found["teacher"])
            console.print(f"{name}: {found['metric']} of the teacher {taught:.4g}; {against}")
