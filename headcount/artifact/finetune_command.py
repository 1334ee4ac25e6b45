"""The command `headcount finetune`."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from headcount import artifact, models, results
from headcount.commands import (
    Flat,
    Inputs,
    LearningArguments,
    Measuring,
    Report,
    check_model,
    field_values,
    plain_console,
    print_warnings,
    recorded,
)
from headcount.core import ResumePolicy
from headcount.training import FinetuneConfig, check_further_training


@dataclass(frozen=True)
class Finetune(Measuring["Inputs[models.Loaded | None]", "results.FinetuneRecord"]):
    """The arguments of `headcount finetune`."""

    RECORD = "finetune.json"

    on: Flat[LearningArguments]
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

    @cached_property
    def tuning(self) -> FinetuneConfig:
        """The settings of the training."""
        return FinetuneConfig(**field_values(FinetuneConfig, self.set))

    def check(self) -> None:
        """Check everything that needs no model."""
        check_further_training(self.tuning, self.teacher is not None)
        self.on.check()
        if self.teacher is not None:
            check_model(self.teacher)

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or holds a model that is replaced."""
        teacher = [Path(models.place_of(self.teacher))] if self.teacher else []
        artifact.claim_artifact(self.out, policy, artifact.FINETUNED, self.on.files() + teacher)

    def prepare(self) -> "Inputs[models.Loaded | None]":
        """Load the model, its teacher and the data."""
        loaded = self.on.load()
        teacher = None if self.teacher is None else self.on.load_model(self.teacher)
        return Inputs(loaded, self.on.splits(loaded), teacher)

    def measure(
        self, read: "Inputs[models.Loaded | None]", progress: Report
    ) -> "results.FinetuneRecord":
        """Train, and write the folder."""
        training = artifact.FurtherTraining(
            read.loaded,
            read.splits,
            self.tuning,
            read.more,
            seed=self.on.seed,
            max_tokens=self.on.max_tokens,
            state=artifact.state_of(self.out) / "training",
            progress=progress,
        )
        print_warnings(training.warnings, plain_console())
        overwrite = artifact.may_replace(self.out)
        trained, files, arguments = training.run(), self.on.dev, recorded(self)
        return trained.save(self.out, files=files, arguments=arguments, overwrite=overwrite)

    def show(self, read: "Inputs[models.Loaded | None]", found: "results.FinetuneRecord") -> None:
        """Print what changed."""
        console = plain_console()
        for name, change in found.data_sets.items():
            for each in (change.trained.score, change.trained.loss):
                console.print(f"{name}: {each.name} {each.before:.4g} -> {each.after:.4g}")
            if change.teacher is not None:
                score = change.teacher.score
                console.print(f"{name}: {score.name} of the teacher {score.before:.4g}; {score}")
        console.print(f"Folder: {self.out}")
