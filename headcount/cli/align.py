"""`headcount align`: which heads link words to their translations."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import probes, reports, results
from headcount.cli.arguments import CorpusArguments, check_data, check_model, recorded
from headcount.cli.beside_arguments import ParallelArguments
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.core import amount
from headcount.corpora import read_links
from headcount.probes import AlignmentOptions

SHOWN = 5
"""Number of heads that are printed."""


def print_best(found: "results.Alignment", console: Console) -> None:
    """Print the best heads and layers, each in its best direction."""
    record = found.record
    console.print(
        f"Aligned {amount(record.pairs, 'pair')} with {record.sure:,} sure and "
        f"{amount(record.possible, 'possible link')}"
    )
    table = Table(
        *("head", "read from", "direction", "AER", "95 %", "precision", "recall", "accuracy"),
        box=None,
        pad_edge=False,
    )
    for level in ("aligner", "head", "layer"):
        for row in found.ranked(level)[: 1 if level == "layer" else SHOWN]:
            interval = f"{row.aer_low:.3f}-{row.aer_high:.3f}"
            numbers = (f"{each:.3f}" for each in (row.precision, row.recall, row.accuracy))
            table.add_row(
                row.head, row.quantity, row.direction, f"{row.aer:.3f}", interval, *numbers
            )
    console.print(table)
    for sentence in record.sentences:
        console.print(sentence, soft_wrap=True)
    print_warnings(record.warnings, console)
    console.print(record.signature, style="dim", soft_wrap=True)


@dataclass(frozen=True)
class Align(CorpusArguments, ParallelArguments):
    """Measure how well every head links words to their translations, against gold links."""

    RECORD = results.AlignmentRecord.FILE
    HAS_TABLES = True

    pairs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PAIRS ...")] = ()
    """Parallel text: .tsv (source<TAB>target); with --columns text=NAME target=NAME, a .tsv, .csv,
    .jsonl or .parquet with such columns, or hf://dataset?split=test."""
    gold: Path = field(kw_only=True)
    """Gold links of every pair in Pharaoh's format (0-0 1p2) or NAACL's (1 1 2 S)."""
    how: Annotated[AlignmentOptions, tyro.conf.arg(name="")] = field(
        default_factory=AlignmentOptions
    )

    def run(self) -> int:
        """Align and write everything into `out`."""
        check_model(self.model)
        check_data([self.gold, *self.how.compare])
        corpus = self.read(self.pairs, self.source, self.target)
        read_links(self.gold, sum(1 for _ in corpus))  # refused before the model is loaded
        self.claim(results.Alignment, "alignment")
        with shown() as progress:
            found = probes.align(self.loaded_beside(), corpus, self.gold, self.how, progress)
        found.recorded(recorded(self)).write(self.out)
        path = reports.write_alignment_document(self.out)
        print_best(found, plain_console(soft_wrap=False))
        return self.finish(path)
