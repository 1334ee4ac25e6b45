"""`headcount speed DENSE PRUNED`: the speedup of the pruned model."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.table import Table

from headcount.artifact import read_record, update_head_card
from headcount.cli.console import check_no_unused_options, plain_console, to_jsonable
from headcount.core import check_is_folder
from headcount.corpora import Corpus
from headcount.models import load, signature
from headcount.speed import (
    COSTS,
    GAINS,
    Options,
    Speed,
    check_same_sizes,
    compare_speed,
    cost_cells,
    fitting,
    gain_cells,
    record,
    size_rows,
    write_speed,
)


@dataclass(frozen=True)
class SpeedCommand:
    """Time a pruned model beside the dense one: speedups within one run, and their ceilings."""

    dense: tyro.conf.Positional[str]
    """The dense model: a Hugging Face name or a folder."""
    pruned: tyro.conf.Positional[str]
    """The pruned model: a Hugging Face name or a folder."""
    batch: tuple[int, ...] = Options.batches
    """Batch sizes, in examples."""
    length: tuple[int, ...] = Options.lengths
    """Example lengths, in tokens; lengths that the model can't take are skipped with a warning."""
    modes: tuple[Literal["forward", "generate"], ...] = ()
    """Time one forward (for a decoder: a prompt) or greedy generation; both by default."""
    new_tokens: int = Options.new_tokens
    """Number of tokens to generate."""
    rounds: int = Options.rounds
    """Rounds of dense, pruned, dense again; six cover every order once, and one more warms up."""
    data: tuple[Path, ...] = ()
    """Text to run on: .txt, .jsonl, .conllu, .tsv; random tokens by default."""
    out: Path | None = None
    """Folder for speed.json, speed.md and the figure."""
    card: bool = False
    """Add the numbers to the head card in the pruned model's folder."""
    seed: int = 0
    """Seed of the random tokens."""
    device: str = "cpu"
    """Device to run on, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Number format of the models."""

    def run(self) -> int:
        """Time the models, print the table, and write it if `out` or `card` is given."""
        options = Options(
            self.batch, self.length, self.modes, self.new_tokens, self.rounds, self.seed
        )
        options.check_sizes()
        if self.data:
            check_no_unused_options(self, "seed", "random tokens", "Leave --data out")
        if self.out is not None:
            check_is_folder(self.out)
        if self.card:
            read_record(Path(self.pruned))
        corpus = Corpus(self.data) if self.data else None
        dense, pruned = (load(each, self.device, self.dtype) for each in (self.dense, self.pruned))
        if self.card:
            check_same_sizes(dense, pruned)
        if "generate" not in (self.modes or fitting(dense.model)):
            check_no_unused_options(self, "new_tokens", "generation", "Add generate to --modes")
        found = compare_speed(dense, pruned, options, corpus, _tell)
        _print(found)
        if self.out is not None:
            sha256 = "random" if corpus is None else corpus.sha256()
            signed = {each.name: signature(each, sha256) for each in (dense, pruned)}
            about = {"signatures": signed, "arguments": to_jsonable(asdict(self))}
            names = (Path(self.dense).name, Path(self.pruned).name)
            names = names if names[0] != names[1] else (str(self.dense), str(self.pruned))
            write_speed(found, names, self.out, about)
        if self.card:
            update_head_card(Path(self.pruned), speed=record(found))
        return 0


def _tell(done: int, total: int, what: str) -> None:
    """Print one line per case, because a moving bar would be timed too."""
    plain_console(soft_wrap=False, stderr=True).print(f"{done + 1} of {total}: {what}")


def _print(speed: Speed) -> None:
    console = plain_console(soft_wrap=False)
    for columns, rows in (
        (("", "dense", "pruned"), size_rows(speed.dense, speed.pruned)),
        (GAINS, map(gain_cells, speed.timings)),
        (COSTS, map(cost_cells, speed.timings)),
    ):
        table = Table(*columns, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table, "")
    for warning in speed.warnings():
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)
