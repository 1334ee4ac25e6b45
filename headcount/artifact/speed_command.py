"""The command `headcount speed`, which can add its numbers to a head card."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount import artifact, models, results, speed
from headcount.commands import (
    ColumnArguments,
    DeviceArguments,
    Flat,
    Measuring,
    Report,
    check_model,
    check_no_unused_options,
    is_quiet,
    plain_console,
    print_document,
    recorded,
)
from headcount.core import check_is_folder, name_of
from headcount.corpora import Corpus
from headcount.speed import Options

if TYPE_CHECKING:
    Pair = tuple[models.Loaded, models.Loaded]
    """The dense model and the pruned one."""


@dataclass(frozen=True)
class SpeedCommand(ColumnArguments, DeviceArguments, Measuring["Pair", "speed.Speed"]):
    """The arguments of `headcount speed`."""

    RECORD = "speed.json"

    dense: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DENSE")]
    """The dense model: a Hugging Face name or a folder."""
    pruned: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PRUNED")]
    """The pruned model: a Hugging Face name or a folder."""
    how: Flat[Options] = field(default_factory=Options)
    data: tuple[str, ...] = ()
    """Text to run on, as `headcount analyze` reads it; random tokens by default."""
    out: Path | None = None
    """Folder for speed.json, speed.md and the figure."""
    card: bool = False
    """Add the numbers to the head card in the pruned model's folder."""

    @cached_property
    def texts(self) -> Corpus | None:
        """The text to run on; None for random tokens."""
        return self.read(self.data) if self.data else None

    def check(self) -> None:
        """Check everything that needs no model, the texts included."""
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
        self.texts  # noqa: B018

    def prepare(self) -> "Pair":
        """Load both models."""
        dense, pruned = self.load_model(self.dense), self.load_model(self.pruned)
        if self.card:
            speed.check_same_sizes(dense, pruned)
        if "generate" not in (self.how.modes or speed.fitting(dense.model)):
            check_no_unused_options(self.how, "new_tokens", "generation", "Add generate to --modes")
        return dense, pruned

    def measure(self, read: "Pair", progress: Report) -> "speed.Speed":
        """Time the models, and write the numbers if `out` or `card` is given."""
        found = speed.compare_speed(*read, self.how, self.texts, _tell)
        if self.out is not None:
            sha256 = "random" if self.texts is None else self.texts.sha256()
            reading = {} if self.texts is None else self.texts.signed
            both = zip(self.names, read, strict=True)
            signed = {name: models.signature(each, sha256, **reading) for name, each in both}
            about = {"signatures": signed, "arguments": recorded(self)}
            speed.write_speed(found, self.names, self.out, about)
        if self.card:
            artifact.add_speed(Path(self.pruned), found)
        return found

    @property
    def names(self) -> tuple[str, str]:
        """The names of both models."""
        dense, pruned = name_of(self.dense), name_of(self.pruned)
        return dense, pruned if pruned != dense else f"{pruned} (pruned)"

    def show(self, read: "Pair", found: "speed.Speed") -> None:
        """Print sizes, speedups and times."""
        print_document(speed.speed_document(found, self.names), plain_console(soft_wrap=False))


def _tell(case: str, done: int, total: int) -> None:
    """Print one line per case, because a moving bar would be timed too."""
    if not is_quiet():
        plain_console(soft_wrap=False, stderr=True).print(f"{done + 1} of {total}: {case}")
