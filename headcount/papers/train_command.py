"""Commands that train a model, or follow a training: train, finetune, follow."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headcount import papers, training
from headcount.commands import (
    Flat,
    Measuring,
    Report,
    ResultCommand,
    ResumableArguments,
    TaskArguments,
    check_data,
    check_model,
    check_reading,
    field_values,
    is_quiet,
    plain_console,
)
from headcount.core import InputError, amount
from headcount.corpora import Corpus, named_columns
from headcount.papers.following.record import FollowOptions
from headcount.papers.pretraining.recipe import RECIPES, PretrainingConfig, PretrainingOptions

LEFT_OUT = {
    "num_empty": "have an empty side",
    "num_empty_dev": "are in the development set and have an empty side",
    "num_long": "are too long",
    "num_shared": "share a side with a held-out example",
}
"""Reason for leaving out examples, by the name of its counter."""


@dataclass(frozen=True)
class Train(Measuring[PretrainingConfig, "papers.Trained"]):
    """The arguments of `headcount train`."""

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
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    recipe: Literal["tiny", "small", "base"] = "small"
    """Recipe: size of the model and settings of the training."""
    set: tuple[str, ...] = ()
    """Change fields of the recipe, as FIELD=VALUE, e.g. epochs=3 batch_tokens=8000."""
    how: Flat[PretrainingOptions] = field(default_factory=PretrainingOptions)
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
        for model in filter(None, (self.how.pieces, self.how.start)):
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
            device=self.device,
            **vars(self.how),
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


@dataclass(frozen=True)
class Follow(ResumableArguments, TaskArguments, ResultCommand[None, "papers.Followed"]):
    """The arguments of `headcount follow`."""

    RESULT = papers.Followed

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """Folder of a checkpoint."""
    more: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[CHECKPOINT ...]")
    ] = ()
    """Other folders, e.g. OUT/checkpoints/*. Checkpoints are sorted by their steps if all carry
    one; otherwise they keep the order given."""
    corpus: tuple[str, ...] = ()
    """Files to measure roles and confidence on, as `headcount analyze` reads them; by default the
    texts of --data, on which syntactic roles are unknown."""
    as_words: bool = False
    """Read a treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""
    how: Flat[FollowOptions] = field(default_factory=FollowOptions)

    @cached_property
    def texts(self) -> Corpus:
        """The corpus, or the texts of the task."""
        if self.as_words and not self.corpus:
            raise InputError(
                "Expected --corpus TREEBANK.conllu for --as-words, got none. Leave it out."
            )
        if self.corpus:
            corpus = Corpus(self.given(self.corpus), limit=self.limit, as_words=self.as_words)
            check_reading(corpus)
            return corpus
        columns = named_columns(self.columns)
        return papers.texts_of(self.task, self.given(self.data), columns, self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the corpus included."""
        super().check()
        check_data(self.corpus)
        self.texts  # noqa: B018

    def prepare(self) -> None:
        """Load nothing: the checkpoints may not fit into memory together."""

    def forget(self) -> None:
        """Delete the measured checkpoints."""
        papers.forget_followed(self.out)

    def measure(self, read: object, progress: Report) -> "papers.Followed":
        """Measure every checkpoint; they are loaded one by one."""
        return papers.follow(
            [self.model, *self.more],
            lambda loaded: self.built(loaded, self.data, self.how.seed, progress),
            self.texts,
            options=self.how,
            out=self.out,
            progress=progress,
            read=lambda folder: self.load_model(folder, self.languages),
            max_tokens=self.max_tokens,
        )


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
