"""`headcount train`: a model from scratch."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headcount.cli.columns import named_columns
from headcount.cli.console import plain_console
from headcount.options import changed
from headcount.processes import processes
from headcount.training import RECIPES, Job, Moment, Trained, train
from headcount.training.telling import Tell

LEFT_OUT = {
    "num_empty": "have an empty side",
    "num_empty_dev": "of the development set have an empty side",
    "num_long": "are too long",
    "num_shared": "share a side with a held-out one",
}
"""Why examples are left out, by what counts them."""


@dataclass(frozen=True)
class Train:
    """Train a translation model, or a masked or causal language model, anew or from --start."""

    objective: tyro.conf.Positional[Literal["translation", "masked-lm", "causal-lm"]]
    """What the model is to learn."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files: .tsv, .csv, .jsonl with a column a side; or two text files, line i to line i. Language
    models: .txt, or the text or source column of a table."""
    out: Path = field(kw_only=True)
    """Folder of the model, its checkpoints and its record."""
    dev: tuple[str, ...] = ()
    """Files of the development set, which chooses among checkpoints."""
    hold_out: tuple[int, ...] = ()
    """Draw a development set, or development and test set, of these sizes from --data; they share
    no sentence with the rest and are written into --out."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    recipe: Literal["tiny", "small", "base"] = "small"
    """Size of the model and way of training."""
    set: tuple[str, ...] = ()
    """Fields of the recipe to change, as FIELD=VALUE, e.g. epochs=3 batch_tokens=8000."""
    pieces: str | None = None
    """A model whose vocabulary to take; by default one is learned from --data."""
    start: str | None = None
    """A model of the same shape to train on, with its vocabulary, instead of new weights."""
    save_every: int = 1000
    """Steps between two checkpoints."""
    patience: int | None = None
    """Stop after so many checkpoints without a better score on --dev."""
    seed: int = 1
    """Of weights, order, dropout, masks and held-out sets."""
    resume: bool = False
    """Go on with an interrupted training in --out."""
    overwrite: bool = False
    """Replace an earlier training in --out."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to train; several processes with torchrun."""

    def run(self) -> int:
        """Train, and write everything into `out`."""
        with _shown() as tell:
            trained = train(self._job(), self.out, self.resume, self.overwrite, tell)
        if processes().is_main_process:
            _print_result(trained, self.out)
        return 0

    def _job(self) -> Job:
        return Job(
            objective=self.objective,
            recipe=changed(RECIPES[self.recipe], self.set),
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


@contextmanager
def _shown() -> Iterator[Tell]:
    """A bar on a terminal; else a line a moment, which a log can hold."""
    console = plain_console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda moment: console.print(
            f"step {moment.step:,}/{moment.steps:,}  {_described(moment, moment.numbers)}",
        )
        return
    numbers: dict[str, float] = {}
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        bar = bars.add_task("training", total=None)

        def tell(moment: Moment) -> None:
            numbers.update(moment.numbers)  # loss and development set are told in turn
            described = _described(moment, numbers)
            bars.update(bar, completed=moment.step, total=moment.steps, description=described)

        yield tell


def _described(moment: Moment, numbers: Mapping[str, float]) -> str:
    """`epoch 1.20  loss 3.412  dev BLEU 21.3  2,100 tokens/s  0:41:07 left`."""
    names = {"eval_loss": "dev loss", "eval_bleu": "dev BLEU", "eval_perplexity": "dev perplexity"}
    labels = {"loss": "loss"} | names
    shown = [f"{label} {numbers[name]:.4g}" for name, label in labels.items() if name in numbers]
    left = timedelta(seconds=round(moment.seconds_left))
    speed = f"{moment.tokens_per_second:,.0f} tokens/s"
    return "  ".join([f"epoch {moment.epoch:.2f}", *shown, speed, f"{left} left"])


def _print_result(trained: Trained, out: Path) -> None:
    console, result = plain_console(), trained.result
    for name, what in LEFT_OUT.items():
        if result[name]:
            console.print(f"Left out: {result[name]:,} examples that {what}", style="yellow")
    if cut := result["num_cut_dev"]:
        console.print(f"Cut at the end: {cut:,} texts of the development set", style="yellow")
    console.print(
        f"Trained on {result['examples']:,} examples, {result['steps']:,} steps, "
        f"{result['parameters']:,} parameters"
    )
    for name, dev in result["candidates"].items():
        numbers = "".join(f"  {metric} {value:.4g}" for metric, value in dev.items())
        console.print(f"{'Model: ' if name == result['model'] else '  not: '}{name}{numbers}")
    console.print(f"Folder: {out}")
