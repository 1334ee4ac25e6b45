"""The command `headcount align`."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount import models, probes, results
from headcount.cli.arguments import (
    ParallelArguments,
    check_data,
)
from headcount.cli.console import (
    Report,
)
from headcount.cli.frame import BesideCommand, Flat
from headcount.corpora import Corpus, read_links
from headcount.probes import AlignmentOptions

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Align(ParallelArguments, BesideCommand["results.Alignment"]):
    """The arguments of `headcount align`."""

    RESULT = results.Alignment

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

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Alignment":
        """Align."""
        return probes.align(read, self.texts, self.gold, self.how, progress)
