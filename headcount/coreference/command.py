"""The command `headcount coreference`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount import coreference, models
from headcount.commands import BesideCommand, Flat, Report, check_data
from headcount.core import CorpusError
from headcount.coreference.result import CoreferenceOptions
from headcount.corpora import read_documents

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Coreference(BesideCommand["coreference.Coreference"]):
    """The arguments of `headcount coreference`."""

    RESULT = coreference.Coreference

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
        coreference.forget_coreference(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "coreference.Coreference":
        """Resolve the mentions."""
        return coreference.select_antecedents(read, self.corpus, self.how, progress, out=self.out)
