"""`headcount finetune`: train a model further on a task's data, and measure the change."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from headcount import artifact, models, results
from headcount.cli.arguments import check_model, recorded
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.cli.data_arguments import LearningArguments
from headcount.core import ResumePolicy, made
from headcount.training import FinetuneConfig, check_further_training


@dataclass(frozen=True)
class Finetune:
    """Train a model on a task's data: before pruning, after pruning, or as a control."""

    RECORD = "finetune.json"

    on: Annotated[LearningArguments, tyro.conf.arg(name="")]
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
        on, console, tuning = self.on, plain_console(), made(FinetuneConfig, self.set)
        check_further_training(tuning, self.teacher is not None)
        on.check()
        if self.teacher is not None:
            check_model(self.teacher)
        kind, read = artifact.FINETUNED, self._read()
        policy = ResumePolicy.of(self.resume, self.overwrite)
        overwrite = artifact.claim_artifact(self.out, policy, kind, read)
        loaded = on.loaded()
        teacher = None
        if self.teacher is not None:
            trusted = on.trust_remote_code
            teacher = models.load(self.teacher, on.device, on.dtype, trust_remote_code=trusted)
        splits = on.splits(loaded)
        print_warnings(splits.warnings, console)
        with shown() as progress:
            training = artifact.FurtherTraining(
                loaded,
                splits,
                tuning,
                teacher,
                seed=on.seed,
                max_tokens=on.max_tokens,
                state=artifact.state_of(self.out) / "training",
                progress=progress,
            )
            print_warnings(training.warnings, console)
            trained = training.run()
        arguments = recorded(self)
        record = trained.save(self.out, files=on.dev, arguments=arguments, overwrite=overwrite)
        _print(record, console)
        console.print(f"Folder: {self.out}")
        return 0

    def _read(self) -> list[Path]:
        """Every local file or folder that the run reads."""
        return [*self.on.files(), *([Path(models.place_of(self.teacher))] if self.teacher else [])]


def _print(record: "results.FinetuneRecord", console: Console) -> None:
    for name, found in record.data_sets.items():
        for each in (found.trained.score, found.trained.loss):
            console.print(f"{name}: {each.name} {each.before:.4g} -> {each.after:.4g}")
        if found.teacher is not None:
            score = found.teacher.score
            console.print(f"{name}: {score.name} of the teacher {score.before:.4g}; {score}")
