"""`headcount speed DENSE PRUNED`: the speedup of the pruned model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from headcount import artifact, models, results, speed
from headcount.cli.arguments import (
    ColumnArguments,
    DeviceArguments,
    check_model,
    check_no_unused_options,
    recorded,
)
from headcount.cli.console import is_quiet, plain_console, print_warnings
from headcount.core import check_is_folder, name_of
from headcount.speed import Options


@dataclass(frozen=True)
class SpeedCommand(ColumnArguments, DeviceArguments):
    """Time a pruned model beside the dense one: speedups within one run, and their ceilings."""

    RECORD = "speed.json"

    dense: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DENSE")]
    """The dense model: a Hugging Face name or a folder."""
    pruned: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PRUNED")]
    """The pruned model: a Hugging Face name or a folder."""
    how: Annotated[Options, tyro.conf.arg(name="")] = field(default_factory=Options)
    data: tuple[str, ...] = ()
    """Text to run on: .txt, .jsonl, .conllu, .tsv, .csv, .parquet or hf://dataset?split=test;
    random tokens by default."""
    out: Path | None = None
    """Folder for speed.json, speed.md and the figure."""
    card: bool = False
    """Add the numbers to the head card in the pruned model's folder."""

    def run(self) -> int:
        """Time the models, print the table, and write it if `out` or `card` is given."""
        self.how.check_sizes()
        if self.data:
            check_no_unused_options(self.how, "seed", "random tokens", "Leave --data out")
        if self.out is not None:
            check_is_folder(self.out)
        if self.card:
            results.PruneRecord.read(Path(self.pruned))
        check_model(self.dense)
        check_model(self.pruned)
        if not self.data:
            check_no_unused_options(self, "columns", "--data", "Name files with --data")
        corpus = self.read(self.data) if self.data else None
        names = (self.dense, self.pruned)
        trusted = self.trust_remote_code
        dense, pruned = (
            models.load(each, self.device, self.dtype, trust_remote_code=trusted) for each in names
        )
        if self.card:
            speed.check_same_sizes(dense, pruned)
        if "generate" not in (self.how.modes or speed.fitting(dense.model)):
            check_no_unused_options(self.how, "new_tokens", "generation", "Add generate to --modes")
        found = speed.compare_speed(dense, pruned, self.how, corpus, _tell)
        _print(found)
        if self.out is not None:
            sha256 = "random" if corpus is None else corpus.sha256()
            reading = {} if corpus is None else corpus.signed
            names = name_of(self.dense), name_of(self.pruned)
            names = names if names[0] != names[1] else (names[0], f"{names[1]} (pruned)")
            both = zip(names, (dense, pruned), strict=True)
            signed = {name: models.signature(each, sha256, **reading) for name, each in both}
            about = {"signatures": signed, "arguments": recorded(self)}
            speed.write_speed(found, names, self.out, about)
        if self.card:
            artifact.add_speed(Path(self.pruned), found)
        return 0


def _tell(case: str, done: int, total: int) -> None:
    """Print one line per case, because a moving bar would be timed too."""
    if not is_quiet():
        plain_console(soft_wrap=False, stderr=True).print(f"{done + 1} of {total}: {case}")


def _print(found: "speed.Speed") -> None:
    console = plain_console(soft_wrap=False)
    for columns, rows in (
        (("", "dense", "pruned"), speed.size_rows(found.dense, found.pruned)),
        (speed.GAINS, map(speed.gain_cells, found.timings)),
        (speed.COSTS, map(speed.cost_cells, found.timings)),
    ):
        table = Table(*columns, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table, "")
    print_warnings(found.warnings(), plain_console())
