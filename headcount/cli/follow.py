"""`headcount follow CHECKPOINTS... --task TASK --data FILE --out OUT`: heads along a training."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import models, papers, tasks
from headcount.cli.arguments import (
    TaskArguments,
    check_data,
    check_reading,
    recorded,
)
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.cli.folder_arguments import FolderArguments
from headcount.core import InputError, amount, claim
from headcount.corpora import Corpus, named_columns
from headcount.papers import FollowOptions


@dataclass(frozen=True)
class Follow(FolderArguments, TaskArguments):
    """Follow heads along a training: importance, roles and prunability at each checkpoint."""

    RECORD = papers.FollowRecord.FILE
    HAS_TABLES = True

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """Folder of a checkpoint."""
    more: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[CHECKPOINT ...]")
    ] = ()
    """Other folders, e.g. OUT/checkpoints/*. Checkpoints are sorted by their steps if all carry
    one; otherwise they keep the order given."""
    corpus: tuple[str, ...] = ()
    """Files to measure roles and confidence on (.txt, .jsonl, .conllu, .tsv of pairs, .csv,
    .parquet) or hf://dataset?split=test; by default the texts of --data, on which syntactic roles
    are unknown."""
    as_words: bool = False
    """Read a treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""
    how: Annotated[FollowOptions, tyro.conf.arg(name="")] = field(default_factory=FollowOptions)

    def run(self) -> int:
        """Measure every checkpoint, and write and print the numbers."""
        self.check()
        check_data(self.corpus)
        corpus = self._corpus()
        claim(self.out, papers.Followed.files(), self.out / "state", self.policy)
        with shown() as progress:
            followed = papers.follow(
                [self.model, *self.more],
                self._task,
                corpus,
                options=self.how,
                out=self.out,
                progress=progress,
                read=self._loaded,
                max_tokens=self.max_tokens,
            )
        followed = followed.recorded(recorded(self))
        followed.write(self.out)
        path = papers.write_followed(followed, self.out)
        papers.forget_followed(self.out)
        print_followed(followed.record, plain_console(soft_wrap=False))
        plain_console().print(f"Figures and numbers: {path}")
        return 0

    def _task(self, loaded: "models.Loaded") -> "tasks.Task":
        return self.built(loaded, self.data, self.how.seed)

    def _loaded(self, folder: Path) -> "models.Loaded":
        return replace(self, model=str(folder)).loaded()

    def _corpus(self) -> Corpus:
        if self.as_words and not self.corpus:
            raise InputError(
                "Expected --corpus TREEBANK.conllu for --as-words, got none. Leave it out."
            )
        if self.corpus:
            corpus = Corpus(self.corpus, limit=self.limit, as_words=self.as_words)
            check_reading(corpus)
            return corpus
        columns = named_columns(self.columns)
        return papers.texts_of(self.task, self.data, columns, self.limit)


def print_followed(record: "papers.FollowRecord", console: Console) -> None:
    """Print a row for each checkpoint, and the findings."""
    console.print(
        f"{record.task}: {amount(record.num_examples, 'example')}, importance by {record.method}"
    )
    columns = ("checkpoint", "loss", record.metric, "rank correlation with the last")
    table = Table(*columns, "on the other half", "prunable", "confidence", "roles", box=None)
    for point in record.checkpoints:
        table.add_row(
            point.name if point.step is None else f"step {point.step:,}",
            f"{point.loss:.4g}",
            f"{point.score:.4g}",
            str(point.correlation),
            f"{point.across_halves:.2f}",
            f"{point.prunable:.0%} ({point.prunable_low:.0%} to {point.prunable_high:.0%})",
            f"{point.confidence:.2f}",
            ", ".join(f"{number} {name}" for name, number in point.roles.items()),
        )
    console.print(table)
    for sentence in record.sentences:
        console.print(sentence, soft_wrap=True)
    print_warnings(record.warnings, console)
    console.print(record.signature, style="dim", soft_wrap=True)
