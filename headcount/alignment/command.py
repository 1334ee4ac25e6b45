"""The command `headcount align`."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount import alignment, models
from headcount.alignment.result import AlignmentOptions
from headcount.commands import BesideCommand, Flat, ParallelArguments, Report, check_data
from headcount.corpora import Corpus, read_links

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Align(ParallelArguments, BesideCommand["alignment.Alignment"]):
    """The arguments of `headcount align`."""

    RESULT = alignment.Alignment

    pairs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PAIRS ...")] = ()
    """Parallel text: .tsv (source<TAB>target), or any table with --columns text=NAME
    target=NAME."""
    gold: Path = field(kw_only=True)
    """Gold links of every pair in Pharaoh's format (0-0 1p2) or NAACL's (1 1 2 S)."""
    how: Flat[AlignmentOptions] = field(default_factory=AlignmentOptions)

    @cached_property
    def texts(self) -> Corpus:
        """The parallel text."""
        return self.read(self.pairs, self.source, self.target)

    def check(self) -> None:
        """Check everything that needs no model, the links included."""
        super().check()
        check_data([self.gold, *self.how.compare])
        read_links(self.gold, sum(1 for _ in self.texts))

    def measure(self, read: "models.Loaded", progress: Report) -> "alignment.Alignment":
        """Align."""
        return alignment.align(read, self.texts, self.gold, self.how, progress)
