"""`headcount coreference`: which heads point from a mention at its antecedent."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import models, probes, results
from headcount.cli.arguments import check_data
from headcount.cli.console import Report
from headcount.cli.folder_arguments import BesideArguments
from headcount.cli.frame import BesideCommand
from headcount.core import CorpusError, amount
from headcount.corpora import read_documents
from headcount.probes import CoreferenceOptions

SHOWN = 5
"""Number of heads that are printed."""


@dataclass(frozen=True)
class Coreference(BesideArguments, BesideCommand["models.Loaded", "results.Coreference"]):
    """Measure how often every head points from a mention at its antecedent, beside baselines."""

    RESULT = results.Coreference

    corpus: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .conllu with Entity= in MISC (GUM, CorefUD), .conll (CoNLL-2012), .tsv (GAP)."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    how: Annotated[CoreferenceOptions, tyro.conf.arg(name="")] = field(
        default_factory=CoreferenceOptions
    )

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

    def summarize(self, found: "results.Coreference", console: Console) -> None:
        """Print the best heads, and the head chosen on half of the documents, for each kind."""
        record = found.record
        console.print(
            f"Resolved {amount(record.cases, 'mention')} of "
            f"{amount(record.documents, 'document')} in {amount(record.windows, 'window')} of "
            f"at most {amount(record.window, 'token')}"
        )
        names = ("head", "mentions", "accuracy", "95 %", "cases", "nearest", "head match", "rules")
        table = Table(*names, box=None, pad_edge=False)
        for row in found.ranked()[:SHOWN]:
            table.add_row(row.head, *_cells(row))
        console.print(table)
        console.print("Best head of one half of the documents, measured on the other half:")
        halves = Table(*names, box=None, pad_edge=False)
        for each in record.best:
            halves.add_row(each.head, *_cells(each))
        console.print(halves)
        if record.best_names:
            console.print(
                "Which of two names a pronoun means (GAP), head chosen on the other half:"
            )
            answers = Table("head", "pronouns", "F1", "95 %", "passages", "nearest", box=None)
            for row in record.best_names:
                interval = f"{row.low:.3f}-{row.high:.3f}"
                numbers = (f"{row.passages:,}", f"{row.nearest:.3f}")
                answers.add_row(row.head, row.gender, f"{row.f1:.3f}", interval, *numbers)
            console.print(answers)


def _cells(row: "results.CoreferenceRow | results.ChosenHead") -> list[str]:
    numbers = (row.nearest, row.head_match, row.rules)
    return [
        row.kind,
        f"{row.accuracy:.3f}",
        f"{row.low:.3f}-{row.high:.3f}",
        f"{row.cases:,}",
        *(f"{number:.3f}" for number in numbers),
    ]
