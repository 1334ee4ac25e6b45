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
    """Score every head on a task: by gradient, relevance, measured ablation, norm and sink."""

    out: Path = field(kw_only=True)
    """Folder of the results; that of an analysis gets columns and a section in its report."""
    methods: tuple[Literal["gradient", "relevance", "ablation", "norm", "sink"], ...] = METHODS
    """Which scores."""
    level: Level = "sample"
    """Gradient: what the absolute value is taken of."""
    normalise: bool = True
    """Gradient: divide by the norm over the heads of the layer."""
    rules: Rules = "voita2019"
    """Relevance: which rules."""
    instead: Instead = "zero"
    """Ablation: what stands in for the head."""
    quantity: DeltaOf = "loss"
    """Ablation: what the delta is taken of."""
    layers: bool = True
    """Ablation: whole layers and whole sites too."""
    one_left: bool = True
    """Ablation: all heads of a layer but one too."""
    against: Path | None = None
    """Ablation: folder of an assessment on other data, to see whether effects agree."""
    samples: int | None = None
    """Ablation: resamples of the bootstrap; by default as many as the number of heads asks for,
    and 1000 where the quantity is a score other than BLEU or chrF."""
    seed: int = 0
    """Of the bootstrap, and of the masks of masked language modelling."""
    resume: bool = False
    """Go on with an interrupted run in --out; no example of the sweep is run twice, and nothing
    translated twice under the same ablation."""
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
        """Options of methods that are not asked for."""
        for name, method in OPTION_OF.items():
            if method not in self.methods:
                refuse_idle(self, name, method, "name that among the --methods")

    def _refuse_other_models(self, loaded: Loaded) -> None:
        """Before anything runs."""
        found = revision(loaded.model)
        refuse_other_model(self.out, loaded.heads, found)
        if self.against is None:
            return
        if self.against.resolve() == self.out.resolve():
            raise InputError("--against names an assessment on other data; --out is this one's")
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
                f"Table: {self.out / 'heads.parquet'}; for a report run `headcount analyze` into "
                "a folder first, then this into the same folder",
                soft_wrap=True,
            )
