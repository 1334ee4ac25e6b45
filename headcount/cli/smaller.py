"""Commands that make the cache or the model smaller, or time it: cache, compact, export, speed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from headcount import artifact, cache, models, results, speed
from headcount.cache import CacheOptions
from headcount.cli.arguments import (
    ColumnArguments,
    CorpusArguments,
    DeviceArguments,
    ModelArguments,
    OutArguments,
    TextFiles,
    check_model,
    check_no_unused_options,
    recorded,
)
from headcount.cli.console import Report, is_quiet, plain_console, print_document, print_warnings
from headcount.cli.explain import SAMPLE
from headcount.cli.frame import Flat, Measuring, ResultCommand
from headcount.core import InputError, Plan, amount, check_is_folder, check_not_read, name_of
from headcount.corpora import Corpus, ReadAs, named_columns
from headcount.models import TrustOptions
from headcount.speed import Options

if TYPE_CHECKING:
    Pair = tuple[models.Loaded, models.Loaded]
    """The dense model and the pruned one."""


PLAN = "plan.json"
"""Name of the plan in --out."""


@dataclass(frozen=True)
class CacheCommand(
    ModelArguments,
    CorpusArguments,
    OutArguments,
    ResultCommand["models.Loaded", "results.PlannedCache"],
):
    """The arguments of `headcount cache`."""

    RESULT = results.PlannedCache

    texts: TextFiles = ()
    """Running text; its first half scores groups, its second half judges the plan; by default a
    sample of ours, with --lengths as long as it allows."""
    how: Flat[CacheOptions] = field(default_factory=CacheOptions)

    @cached_property
    def corpus(self) -> Corpus:
        """The texts."""
        return self.read(self.texts or (SAMPLE,))

    def check(self) -> None:
        """Check everything that needs no model, the texts included."""
        super().check()
        self.corpus  # noqa: B018

    def measure(self, read: "models.Loaded", progress: Report) -> "results.PlannedCache":
        """Score groups, choose, and judge the choice."""
        return cache.plan_cache(read, self.corpus, self.how, progress=progress)

    def store(self, found: "results.PlannedCache") -> None:
        """Write the plan, then tables and record."""
        cache.plan_of(found).write(self.out / PLAN)
        super().store(found)

    def next_steps(self, read: "models.Loaded", found: "results.PlannedCache") -> Iterable[str]:
        """How to generate under the plan."""
        yield "Next: generate with such a cache, in Python:"
        yield f"  loaded = headcount.load({self.model!r})"
        yield '  inputs = loaded.tokenizer("Once upon a time", return_tensors="pt")'
        yield f"  plan = headcount.CachePlan.read({str(self.out / PLAN)!r})"
        yield "  with headcount.streaming_cache(loaded, plan) as cache:"
        yield '      how = {"past_key_values": cache, "max_new_tokens": 50}'
        yield "      output = loaded.model.generate(**inputs, **how)"


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
