"""`headcount follow CHECKPOINTS... --task TASK --data FILE --out OUT`: heads along a training."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import tyro

from headcount import papers
from headcount.cli.arguments import TaskArguments, check_data, check_reading
from headcount.cli.console import Report
from headcount.cli.folder_arguments import ResumableArguments
from headcount.cli.frame import Flat, ResultCommand
from headcount.core import InputError
from headcount.corpora import Corpus, named_columns
from headcount.papers import FollowOptions


@dataclass(frozen=True)
class Follow(ResumableArguments, TaskArguments, ResultCommand[None, "papers.Followed"]):
    """Follow heads along a training: importance, roles, prunability."""

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
            corpus = Corpus(self.corpus, limit=self.limit, as_words=self.as_words)
            check_reading(corpus)
            return corpus
        columns = named_columns(self.columns)
        return papers.texts_of(self.task, self.data, columns, self.limit)

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
            lambda loaded: self.built(loaded, self.data, self.how.seed),
            self.texts,
            options=self.how,
            out=self.out,
            progress=progress,
            read=lambda folder: self.load_model(folder, self.languages),
            max_tokens=self.max_tokens,
        )
