"""`headcount finetune`: a model trained on with a task's data, and what that changed."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import tyro
from rich.console import Console

from headcount.artifact.claim import claim_artifact, state_of
from headcount.artifact.save import write_model
from headcount.artifact.staging import Kind, staged
from headcount.cli.plain import plain
from headcount.cli.progress import shown
from headcount.cli.task_arguments import print_warnings
from headcount.cli.trial import LearningArguments
from headcount.errors import InputError
from headcount.files import nulls_for_nan, write_json
from headcount.models.load import Loaded
from headcount.options import made
from headcount.pruning.before_after import BeforeAfter
from headcount.tasks import Evaluation, Task, evaluate
from headcount.training.finetune import FineTuned, finetune, refuse_tuning
from headcount.training.tuning import Tuning

RESULT = "finetune.json"
KIND = Kind("a fine-tuned model", lambda folder: (folder / RESULT).exists())


@dataclass(frozen=True)
class Finetune:
    """Train a model on with a task's data: before it is pruned, or as a control of your own."""

    on: tyro.conf.OmitArgPrefixes[LearningArguments]
    out: Path = field(kw_only=True)
    """Folder of the model and its record; until then what is done so far is in OUT.state."""
    set: tuple[str, ...] = ()
    """Fields of the training, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""
    resume: bool = False
    """Go on with an interrupted training."""
    overwrite: bool = False
    """Replace an earlier model in --out."""

    def run(self) -> int:
        """Train, write the folder, say what changed."""
        tuning = self._tuning()
        claim_artifact(self.out, self.resume, self.overwrite, KIND, self.on.files())
        loaded = self.on.loaded()
        train, dev, test = tasks = self.on.tasks(loaded)
        console, warnings = Console(highlight=False, soft_wrap=True), self.on.warnings(tasks)
        print_warnings(warnings, console)
        refuse_tuning(loaded, train, tuning)
        measured = {"dev": dev} | ({} if test is None else {"test": test})
        before = self._evaluated(loaded, measured)
        with shown() as progress:
            tuned = finetune(
                loaded, train, tuning, seed=self.on.seed, state=state_of(self.out) / "training",
                tell=lambda moment: progress("training", moment.step, moment.steps),
            )  # fmt: skip
        after = self._evaluated(tuned.loaded, measured)
        compared = {
            name: BeforeAfter(task, before[name], after[name]).record(seed=self.on.seed)
            for name, task in measured.items()
        }
        self._write(tuned, compared, {
            "tuning": asdict(tuning),
            "warnings": warnings,
            "signature": self.on.signature(loaded, tasks),
        })  # fmt: skip
        _print(compared, console)
        console.print(f"Folder: {self.out}")
        return 0

    def _tuning(self) -> Tuning:
        tuning = made(Tuning, self.set)
        if tuning.is_taught or tuning.gate_rate != Tuning.gate_rate:
            raise InputError(
                "a model that is fine-tuned has neither a teacher nor gates: leave distilled, "
                "layerwise and gate_rate out"
            )
        return tuning

    def _write(self, tuned: FineTuned, compared: dict[str, Any], about: dict[str, Any]) -> None:
        """All of it or nothing; the state is needed no more."""
        record = compared | about | {"history": tuned.history, "arguments": plain(asdict(self))}
        with staged(self.out, self.overwrite, KIND) as new:
            write_model(new, tuned.loaded.model, tuned.loaded.tokenizer)
            write_json(new / RESULT, nulls_for_nan(record))
        rmtree(state_of(self.out), ignore_errors=True)

    def _evaluated(self, loaded: Loaded, tasks: dict[str, Task]) -> dict[str, Evaluation]:
        return {
            name: evaluate(loaded.model, task, self.on.max_tokens, texts=True)
            for name, task in tasks.items()
        }


def _print(compared: dict[str, Any], console: Console) -> None:
    for name, found in compared.items():
        for what, numbers in ((found["metric"], found["score"]), ("loss", found["loss"])):
            console.print(f"{name}: {what} {numbers['before']:.4g} -> {numbers['after']:.4g}")
