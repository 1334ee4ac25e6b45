"""`headcount train`: a model from scratch."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headcount import papers, training
from headcount.cli.arguments import check_data, check_model
from headcount.cli.console import Report, is_quiet, plain_console
from headcount.cli.field_values import field_values
from headcount.cli.frame import Measuring
from headcount.core import amount
from headcount.corpora import named_columns
from headcount.papers import RECIPES, PretrainingConfig

LEFT_OUT = {
    "num_empty": "have an empty side",
    "num_empty_dev": "are in the development set and have an empty side",
    "num_long": "are too long",
    "num_shared": "share a side with a held-out example",
}
"""Reason for leaving out examples, by the name of its counter."""


@dataclass(frozen=True)
class Train(Measuring[PretrainingConfig, "papers.Trained"]):
    """Train a translation, masked or causal language model."""

    RECORD = "result.json"

    objective: tyro.conf.Positional[Literal["translation", "masked-lm", "causal-lm"]]
    """Training objective."""
    data: tuple[str, ...] = field(kw_only=True)
    """Tables with one column per side, or two line-aligned text files; for language models .txt, or
    a table with a text or source column."""
    out: Path = field(kw_only=True)
    """Folder for the model, its checkpoints and its record."""
    dev: tuple[str, ...] = ()
    """Files of the development set, used to choose among checkpoints."""
    hold_out: tuple[int, ...] = ()
    """Draw a development set, or development and test sets, of these sizes from --data into --out;
    they share no sentence with the rest."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    recipe: Literal["tiny", "small", "base"] = "small"
    """Recipe: size of the model and settings of the training."""
    set: tuple[str, ...] = ()
    """Change fields of the recipe, as FIELD=VALUE, e.g. epochs=3 batch_tokens=8000."""
    pieces: str | None = None
    """Model whose vocabulary to use; by default a vocabulary is learned from --data."""
    start: str | None = None
    """Model of the same shape to start from, with its vocabulary; random weights by default."""
    save_every: int = 1000
    """Number of steps between two checkpoints."""
    patience: int | None = None
    """Number of checkpoints without a better --dev score before stopping; never by default."""
    seed: int = 1
    """Seed of weights, order, dropout, masks and held-out sets."""
    resume: bool = False
    """Resume an interrupted training in --out."""
    overwrite: bool = False
    """Replace an earlier training in --out."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device to train on; start several processes with torchrun."""

    def check(self) -> None:
        """Check everything that needs no model."""
        self.prepare()
        check_data((*self.data, *self.dev))
        for model in filter(None, (self.pieces, self.start)):
            check_model(model)

    def prepare(self) -> PretrainingConfig:
        """The training."""
        recipe = RECIPES[self.recipe]
        return PretrainingConfig(
            objective=self.objective,
            recipe=replace(recipe, **field_values(type(recipe), self.set)),
            data=self.data,
            dev=self.dev or None,
            columns=named_columns(self.columns),
            hold_out=self.hold_out,
            pieces=self.pieces,
            start=self.start,
            seed=self.seed,
            save_every=self.save_every,
            patience=self.patience,
            device=self.device,
        )

    def measure(self, read: PretrainingConfig, progress: Report) -> "papers.Trained":
        """Train the model and write everything into `out`."""
        with training_shown() as tell:
            return papers.train(read, self.out, self.policy, tell)

    def show(self, read: PretrainingConfig, found: "papers.Trained") -> None:
        """Print what was left out, and the numbers of every candidate."""
        console, result = plain_console(), found.result
        for name, what in LEFT_OUT.items():
            if number := getattr(result.counts, name):
                console.print(f"Left out: {amount(number, 'example')} that {what}", style="yellow")
        if cut := result.counts.num_cut_dev:
            console.print(
                f"Cut at the end: {amount(cut, 'text')} of the development set", style="yellow"
            )
        console.print(
            f"Trained on {amount(result.counts.examples, 'example')}, "
            f"{amount(result.steps, 'step')}, {amount(result.counts.parameters, 'parameter')}"
        )
        for name, dev in result.candidates.items():
            numbers = "".join(f"  {metric} {value:.4g}" for metric, value in dev.items())
            console.print(f"{'Model: ' if name == result.model else '  not: '}{name}{numbers}")
        console.print(f"Folder: {self.out}")


@contextmanager
def training_shown() -> Iterator["training.Tell"]:
    """Show a bar on a terminal, or print one line per report to a log."""
    console = plain_console(stderr=True)
    if is_quiet():
        yield lambda moment: None
        return
    if not sys.stderr.isatty():
        yield lambda moment: console.print(
            f"step {moment.step:,}/{moment.steps:,}  {_described(moment, moment.numbers)}",
        )
        return
    numbers: dict[str, float] = {}
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        bar = bars.add_task("training", total=None)

        def tell(moment: "training.TrainingProgress") -> None:
            numbers.update(moment.numbers)  # loss and development scores arrive separately
            described = _described(moment, numbers)
            bars.update(bar, completed=moment.step, total=moment.steps, description=described)

        yield tell


def _described(moment: "training.TrainingProgress", numbers: Mapping[str, float]) -> str:
    """A line such as `epoch 1.20  loss 3.412  dev BLEU 21.3  2,100 tokens/s  0:41:07 left`."""
    names = {"eval_loss": "dev loss", "eval_bleu": "dev BLEU", "eval_perplexity": "dev perplexity"}
    labels = {"loss": "loss"} | names
    shown = [f"{label} {numbers[name]:.4g}" for name, label in labels.items() if name in numbers]
    left = timedelta(seconds=round(moment.seconds_left))
    speed = f"{moment.tokens_per_second:,.0f} tokens/s"
    return "  ".join([f"epoch {moment.epoch:.2f}", *shown, speed, f"{left} left"])
