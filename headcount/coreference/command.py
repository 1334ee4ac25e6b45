"""The command `headcount coreference`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount import models, probes, results
from headcount.cli.arguments import (
    check_data,
)
from headcount.cli.console import (
    Report,
)
from headcount.cli.frame import BesideCommand, Flat
from headcount.core import CorpusError
from headcount.corpora import read_documents
from headcount.probes import CoreferenceOptions

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Coreference(BesideCommand["results.Coreference"]):
    """The arguments of `headcount coreference`."""

    RESULT = results.Coreference

    corpus: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .conllu with Entity= in MISC (GUM, CorefUD), .conll (CoNLL-2012), .tsv (GAP)."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    how: Flat[CoreferenceOptions] = field(default_factory=CoreferenceOptions)

    def check(self) -> None:
        """Check everything that needs no model, the documents included."""
        super().check()
        if not self.corpus:
            raise CorpusError("Expected a corpus, got nothing. Give at least one file.")
        check_data(self.corpus)
        read_documents(self.corpus)

    def forget(self) -> None:
        """Delete the selections of finished windows."""
        probes.forget_coreference(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Coreference":
        """Resolve the mentions."""
        return probes.select_antecedents(read, self.corpus, self.how, progress, out=self.out)
