"""`headcount importance`: what every head is worth on a task."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from headcount.cli.console import plain_console
from headcount.cli.idle import refuse_idle
from headcount.cli.plain import plain
from headcount.cli.progress import shown
from headcount.cli.task_arguments import TaskArguments, print_warnings
from headcount.cli.worth_summary import print_worth
from headcount.errors import InputError
from headcount.importance.ablation import DeltaOf, Instead
from headcount.importance.assessment import METHODS, Assessment, Methods, assess
from headcount.importance.folder import (
    claim_importance,
    forget_sweep,
    read_assessment,
    refuse_other_assessment,
    refuse_other_measurement,
    refuse_other_model,
    write_assessment,
)
from headcount.importance.gradient import Level
from headcount.importance.relevance import Rules
from headcount.models.load import Loaded
from headcount.options import refuse_negative
from headcount.reports import write_report
from headcount.signature import revision
from headcount.tasks import Task

OPTION_OF = {
    "level": "gradient", "normalise": "gradient", "rules": "relevance",
    "instead": "ablation", "quantity": "ablation", "layers": "ablation", "one_left": "ablation",
    "against": "ablation", "samples": "ablation",
}  # fmt: skip
"""Options that only one method reads."""


@dataclass(frozen=True)
class Importance(TaskArguments):
    """Score every head on a task by gradient, relevance, ablation, norm and sink."""

    out: Path = field(kw_only=True)
    """Folder for the results; an analysis in it gains columns and a section in its report."""
    methods: tuple[Literal["gradient", "relevance", "ablation", "norm", "sink"], ...] = METHODS
    """Scores to compute."""
    level: Level = "sample"
    """Gradient: unit whose absolute value is taken; sample as in Michel et al. (2019)."""
    normalise: bool = True
    """Gradient: divide each score by the norm over the layer's heads, so that layers compare."""
    rules: Rules = "voita2019"
    """Relevance: rule set for LRP."""
    instead: Instead = "zero"
    """Ablation: replacement for the head's output."""
    quantity: DeltaOf = "loss"
    """Ablation: quantity whose change is measured; the loss needs no beam search."""
    layers: bool = True
    """Ablation: also ablate whole layers and whole sites."""
    one_left: bool = True
    """Ablation: also ablate all heads of a layer but one."""
    against: Path | None = None
    """Ablation: folder of an assessment on other data, to test whether effects agree."""
    samples: int | None = None
    """Ablation: bootstrap resamples; by default set by the number of heads, or 1000 for a score
    other than BLEU or chrF."""
    seed: int = 0
    """Seed of the bootstrap and of the masks in masked language modelling."""
    resume: bool = False
    """Resume an interrupted run in --out; no example is run or translated twice per ablation."""
    overwrite: bool = False
    """Replace an earlier assessment in --out."""

    def run(self) -> int:
        """Run the methods and write everything into `out`."""
        refuse_negative(self.seed)
        self._refuse_idle()
        claim_importance(self.out, self.resume, self.overwrite)
        loaded = self.loaded()
        self._refuse_other_models(loaded)
        seed = {"seed": self.seed} if self.task == "masked-lm" else {}
        task = self.built(loaded, self.data, **seed)
        self._refuse_other_ways(task)
        print_warnings(task.warnings(), plain_console())
        if self.overwrite and not self.resume:
            forget_sweep(self.out)
        with shown() as progress:
            assessment = assess(loaded, task, self._methods(), self.out, progress)
        self._write(assessment, loaded)
        return 0

    def _refuse_idle(self) -> None:
        """Raise an error for options of methods that are not requested."""
        for name, method in OPTION_OF.items():
            if method not in self.methods:
                refuse_idle(self, name, method, f"Add {method} to --methods")

    def _refuse_other_models(self, loaded: Loaded) -> None:
        """Raise an error for results of other models in the folders, before anything runs."""
        found = revision(loaded.model)
        refuse_other_model(self.out, loaded.heads, found)
        if self.against is None:
            return
        if self.against.resolve() == self.out.resolve():
            raise InputError(
                "Expected --against to name an assessment on other data, got --out itself."
            )
        refuse_other_assessment(self.against, found)

    def _refuse_other_ways(self, task: Task) -> None:
        if self.against is not None:
            how = {"quantity": self.quantity, "replacement": self.instead}
            record = {"task": self.task, "metric": task.metric, "ablation": how}
            refuse_other_measurement(self.against, record)

    def _methods(self) -> Methods:
        return Methods(
            self.methods, self.level, self.normalise, self.rules, self.instead, self.quantity,
            self.layers, self.one_left, self.samples, self.seed, self.max_tokens,
        )  # fmt: skip

    def _write(self, assessment: Assessment, loaded: Loaded) -> None:
        console = plain_console(soft_wrap=False)
        table, found = write_assessment(
            assessment, loaded.heads, self.out, plain(asdict(self)), self.against
        )
        print_worth(table, found, assessment.record, console)
        if self.against is not None:
            _, record = read_assessment(self.out, "ablation")
            console.print(record["across"]["sentence"], soft_wrap=True)
        if (self.out / "run.json").exists():
            console.print(f"Report: {write_report(self.out)}", soft_wrap=True)
        else:
            console.print(
                f"Table: {self.out / 'heads.parquet'}; for a report, run `headcount analyze` "
                "first and this command into the same folder",
                soft_wrap=True,
            )
