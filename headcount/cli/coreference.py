"""`headcount coreference`: which heads point from a mention at its antecedent."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import probes, reports, results
from headcount.cli.arguments import check_data, check_model, recorded
from headcount.cli.beside_arguments import BesideArguments
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.core import CorpusError, amount
from headcount.corpora import read_documents
from headcount.probes import CoreferenceOptions

SHOWN = 5
"""Number of heads that are printed."""


def print_antecedents(found: "results.Coreference", console: Console) -> None:
    """Print the best heads, and the head chosen on half of the documents, for each kind."""
    record = found.record
    console.print(
        f"Resolved {amount(record.cases, 'mention')} of {amount(record.documents, 'document')} in "
        f"{amount(record.windows, 'window')} of at most {amount(record.window, 'token')}"
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
        console.print("Which of two names a pronoun means (GAP), head chosen on the other half:")
        answers = Table("head", "pronouns", "F1", "95 %", "passages", "nearest", box=None)
        for row in record.best_names:
            interval = f"{row.low:.3f}-{row.high:.3f}"
            numbers = (f"{row.passages:,}", f"{row.nearest:.3f}")
            answers.add_row(row.head, row.gender, f"{row.f1:.3f}", interval, *numbers)
        console.print(answers)
    print_warnings(record.warnings, console)
    console.print(record.signature, style="dim", soft_wrap=True)


def _cells(row: "results.CoreferenceRow | results.ChosenHead") -> list[str]:
    numbers = (row.nearest, row.head_match, row.rules)
    return [
        row.kind,
        f"{row.accuracy:.3f}",
        f"{row.low:.3f}-{row.high:.3f}",
        f"{row.cases:,}",
        *(f"{number:.3f}" for number in numbers),
    ]


@dataclass(frozen=True)
class Coreference(BesideArguments):
    """Measure how often every head points from a mention at its antecedent, beside baselines."""

    RECORD = results.CoreferenceRecord.FILE
    HAS_TABLES = True

    corpus: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .conllu with Entity= in MISC (GUM, CorefUD), .conll (CoNLL-2012), .tsv (GAP)."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    how: Annotated[CoreferenceOptions, tyro.conf.arg(name="")] = field(
        default_factory=CoreferenceOptions
    )

    def run(self) -> int:
        """Resolve the mentions and write everything into `out`."""
        check_model(self.model)
        if not self.corpus:
            raise CorpusError("Expected a corpus, got nothing. Give at least one file.")
        check_data(self.corpus)
        read_documents(self.corpus)  # refuses bad files before the model is loaded
        self.claim(results.Coreference, "coreference", self.resume)
        if self.overwrite:
            probes.forget_coreference(self.out)
        with shown() as progress:
            found = probes.select_antecedents(
                self.loaded_beside(), self.corpus, self.how, progress, out=self.out
            )
        found.recorded(recorded(self)).write(self.out)
        probes.forget_coreference(self.out)
        path = reports.write_coreference_document(self.out)
        print_antecedents(found, plain_console(soft_wrap=False))
        return self.finish(path)
