"""Commands that make the cache or the model smaller, or time it: cache, compact, export, speed."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from headcount import artifact, models, results
from headcount.commands import (
    ColumnArguments,
    Measuring,
    ModelArguments,
    Report,
    plain_console,
    print_warnings,
)
from headcount.core import InputError, Plan, amount, check_not_read
from headcount.corpora import ReadAs, named_columns
from headcount.models import TrustOptions

if TYPE_CHECKING:
    Pair = tuple[models.Loaded, models.Loaded]
    """The dense model and the pruned one."""


@dataclass(frozen=True)
class Compact(ColumnArguments, ModelArguments, Measuring["models.Loaded", "results.Certificate"]):
    """The arguments of `headcount compact`."""

    plan: Path = field(kw_only=True)
    """The plan.json that lists the kept heads."""
    out: Path = field(kw_only=True)
    """Folder for the compact model."""
    data: tuple[str, ...] = ()
    """Texts to compare on (encoder-decoders: .tsv); by default headcount's own sample."""
    limit: int | None = None
    """Largest number of sentences to compare on; all by default."""
    overwrite: bool = False
    """Replace a compact model in --out once the new one is complete."""

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        self.check_texts(self.data, self.limit)
        check_not_read(
            self.out, [Path(models.place_of(self.model)), self.plan, *map(Path, self.data)]
        )
        plan = self.given  # read before the model's configuration
        models.Stated.of(self.model, self.trust_remote_code).check_plan(plan)

    @cached_property
    def given(self) -> Plan:
        """The plan."""
        return Plan.read(self.plan)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Certificate":
        """Compact the model, compare it with the gated one, and save it."""
        data = ReadAs(self.data, self.reading) if self.data else ()
        columns = named_columns(self.columns)
        corpus = artifact.certificate_corpus(read, data, self.limit, columns)
        return artifact.save_compact(read, self.given, self.out, corpus, self.overwrite, progress)

    def show(self, read: "models.Loaded", found: "results.Certificate") -> None:
        """Print what was kept, the comparisons, and how to load the model."""
        console = plain_console()
        kept = len(self.given.kept_heads(read.heads))
        console.print(
            f"Kept {kept:,} of {amount(len(read.heads), 'head')}; {_size(self.out)} of weights",
        )
        print_certificate(found, console)
        console.print(
            f"Saved: {self.out}; load it with headcount.load({str(self.out)!r}), or with "
            "transformers alone: from_pretrained(..., trust_remote_code=True)",
        )


def print_certificate(certificate: "results.Certificate", console: Console) -> None:
    """Print one line for every comparison."""
    for each in certificate.comparisons:
        on = amount(each.sentences, "sentence") if each.sentences else "a made-up batch"
        on += f" and {amount(len(each.runs), 'short random batch')}" if each.runs else ""
        console.print(
            f"Equal on {on}: {each.what} differ by at most {each.difference:.1e}, {each.share:.1e} "
            f"of the largest output (tolerance {each.tolerance:g})",
        )


def _size(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.glob('*.safetensors')) / 1e6:,.1f} MB"


@dataclass(frozen=True)
class Export(ColumnArguments, TrustOptions, Measuring["models.Loaded", "results.Certificate"]):
    """The arguments of `headcount export`."""

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PRUNED")]
    """Folder of a compact model."""
    onnx: bool = False
    """Write onnx/model.onnx into the folder."""
    cache: bool = False
    """Also write onnx/decoder.onnx, and onnx/encoder.onnx of an encoder-decoder, which generate
    token by token with a cache of keys and values."""
    data: tuple[str, ...] = ()
    """Texts to compare on; by default headcount's own sample."""
    limit: int | None = None
    """Largest number of sentences to compare on; all by default."""

    def check(self) -> None:
        """Check everything that needs no model."""
        if not self.onnx:
            raise InputError("Expected a format to export to, got none. Add --onnx.")
        self.check_texts(self.data, self.limit)

    def prepare(self) -> "models.Loaded":
        """Load the model."""
        return models.load(self.model, trust_remote_code=self.trust_remote_code)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Certificate":
        """Export the model, compare it, and save it."""
        data = ReadAs(self.data, self.reading) if self.data else ()
        columns = named_columns(self.columns)
        corpus = artifact.certificate_corpus(read, data, self.limit, columns)
        return artifact.export(read, self.model, corpus, self.cache)

    def show(self, read: "models.Loaded", found: "results.Certificate") -> None:
        """Print the comparisons, and where the files are."""
        console = plain_console()
        print_certificate(found, console)
        if not found.is_with_gated:
            changed = (
                "the weights changed after heads were pruned, so the certificate does not show "
                "equality with a gated model"
            )
            print_warnings([changed], console)
        for path in sorted((self.model / artifact.FOLDER).glob("*.onnx")):
            console.print(f"Saved: {path}")
