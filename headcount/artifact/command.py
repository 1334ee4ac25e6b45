"""The commands that make, train or time a smaller model: compact, export, speed and finetune."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from headcount import artifact, models, results, speed, tasks
from headcount.commands import (
    ColumnArguments,
    DeviceArguments,
    Flat,
    Inputs,
    LearningArguments,
    Measuring,
    ModelArguments,
    Report,
    check_data,
    check_model,
    check_no_unused_options,
    field_values,
    is_quiet,
    plain_console,
    print_document,
    print_warnings,
    recorded,
)
from headcount.core import (
    InputError,
    Plan,
    ResumePolicy,
    amount,
    check_is_folder,
    check_known,
    check_not_read,
    name_of,
)
from headcount.corpora import Corpus, ReadAs, named_columns
from headcount.models import TrustOptions
from headcount.speed import Options
from headcount.training import FinetuneConfig, check_further_training

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
        _print_certificate(found, console)
        trust = "" if artifact.is_plain(self.out) else ", trust_remote_code=True"
        console.print(
            f"Saved: {self.out}; load it with headcount.load({str(self.out)!r}), or with "
            f"transformers alone: from_pretrained(...{trust})",
        )


def _print_certificate(certificate: "results.Certificate", console: Console) -> None:
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
    to: tuple[artifact.Format, ...] = ()
    """Formats: onnx, gguf (even models, for llama.cpp), torch-export; each in a folder of its
    name, and compared with the model."""
    cache: bool = False
    """Also write onnx/decoder.onnx, and onnx/encoder.onnx of an encoder-decoder, which generate
    token by token with a cache of keys and values."""
    int8: bool = False
    """Also write onnx/model_int8.onnx, with 8 bits a weight and activation, and measure what that
    costs on --task."""
    task: Annotated[str | None, tasks.TASKS] = None
    """With --int8: task to measure it on."""
    test: tuple[str, ...] = ()
    """With --int8: held-out data of that task."""
    push: str | None = None
    """Upload the folder to this repository of the Hugging Face Hub, OWNER/NAME, with card, plan and
    certificate; a new one is private."""
    data: tuple[str, ...] = ()
    """Texts to compare on; by default headcount's own sample."""
    limit: int | None = None
    """Largest number of sentences to compare on; all by default."""

    def check(self) -> None:
        """Check everything that needs no model."""
        self._check_int8()
        if self.push is not None:
            artifact.check_repository(self.push)
        elif not self.formats:
            raise InputError("Expected a format to export to, got none. Add --to onnx.")
        if self.cache and "onnx" not in self.formats:
            raise InputError("Expected --to onnx beside --cache, which writes graphs of ONNX.")
        self.check_texts(self.data, self.limit)

    def _check_int8(self) -> None:
        if not self.int8:
            if self.task or self.test:
                raise InputError("Only --int8 reads --task and --test. Add it, or leave them out.")
            return
        if "onnx" not in self.formats:
            raise InputError("Expected --to onnx beside --int8, which rounds that file.")
        if not self.task or not self.test:
            raise InputError(
                "Expected --task and --test beside --int8, since rounding costs something that "
                "only a task can tell. Name both, such as --task similarity --test pairs.csv."
            )
        check_known("a task", self.task, tasks.TASKS, "(one of {})")
        if self.task != tasks.SEARCH:
            check_data(self.test)

    @property
    def formats(self) -> "list[artifact.Format]":
        """The formats, each once."""
        return [*dict.fromkeys(self.to)]

    def prepare(self) -> "models.Loaded":
        """Load the model."""
        return models.load(self.model, trust_remote_code=self.trust_remote_code)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Certificate":
        """Export the model, compare it, and save it."""
        data = ReadAs(self.data, self.reading) if self.data else ()
        columns = named_columns(self.columns)
        corpus = artifact.certificate_corpus(read, data, self.limit, columns)
        found = None
        for to in self.formats:
            found = artifact.export(read, self.model, corpus, self.cache, to)
        if self.int8:
            self._quantize(read)
        if self.push is not None:
            plain_console().print(f"Uploaded: {artifact.push(self.model, self.push)}")
        return results.Certificate.read(self.model) if found is None else found

    def _quantize(self, read: "models.Loaded") -> None:
        assert self.task is not None
        columns = named_columns(self.columns)
        task = tasks.build(self.task, read, ReadAs(self.test, self.reading), columns)
        rounded = artifact.quantize(read, self.model, task, self.test)
        before, after = rounded.bytes_before / 1e6, rounded.bytes_after / 1e6
        score = rounded.change.score
        plain_console().print(
            f"In 8 bits: {before:,.1f} -> {after:,.1f} MB; {score.name} {score.before:.4g} -> "
            f"{score.after:.4g} ({score}) on {amount(rounded.change.examples, 'example')}"
        )

    def show(self, read: "models.Loaded", found: "results.Certificate") -> None:
        """Print the comparisons, and where the files are."""
        console = plain_console()
        _print_certificate(found, console)
        if not found.is_with_gated:
            changed = (
                "the weights changed after heads were pruned, so the certificate does not show "
                "equality with a gated model"
            )
            print_warnings([changed], console)
        for to in self.formats:
            for path in sorted((self.model / to).iterdir()):
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


@dataclass(frozen=True)
class Finetune(Measuring["Inputs[models.Loaded | None]", "results.FinetuneRecord"]):
    """The arguments of `headcount finetune`."""

    RECORD = "finetune.json"

    on: Flat[LearningArguments]
    out: Path = field(kw_only=True)
    """Folder for the model and its record; an unfinished run keeps its state in OUT.state."""
    teacher: str | None = None
    """The model to distill, e.g. the dense one; needs distilled or layerwise in --set."""
    set: tuple[str, ...] = ()
    """Set training fields, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""
    resume: bool = False
    """Resume an interrupted training."""
    overwrite: bool = False
    """Replace an earlier model in --out."""

    @cached_property
    def tuning(self) -> FinetuneConfig:
        """The settings of the training."""
        return FinetuneConfig(**field_values(FinetuneConfig, self.set))

    def check(self) -> None:
        """Check everything that needs no model."""
        check_further_training(self.tuning, self.teacher is not None)
        self.on.check()
        if self.teacher is not None:
            check_model(self.teacher)

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or holds a model that is replaced."""
        teacher = [Path(models.place_of(self.teacher))] if self.teacher else []
        artifact.claim_artifact(self.out, policy, artifact.FINETUNED, self.on.files() + teacher)

    def prepare(self) -> "Inputs[models.Loaded | None]":
        """Load the model, its teacher and the data."""
        loaded = self.on.load()
        teacher = None if self.teacher is None else self.on.load_model(self.teacher)
        return Inputs(loaded, self.on.splits(loaded), teacher)

    def measure(
        self, read: "Inputs[models.Loaded | None]", progress: Report
    ) -> "results.FinetuneRecord":
        """Train, and write the folder."""
        training = artifact.FurtherTraining(
            read.loaded,
            read.splits,
            self.tuning,
            read.more,
            seed=self.on.seed,
            max_tokens=self.on.max_tokens,
            state=artifact.state_of(self.out) / "training",
            progress=progress,
        )
        print_warnings(training.warnings, plain_console())
        overwrite = artifact.may_replace(self.out)
        trained, files, arguments = training.run(), self.on.dev, recorded(self)
        return trained.save(self.out, files=files, arguments=arguments, overwrite=overwrite)

    def show(self, read: "Inputs[models.Loaded | None]", found: "results.FinetuneRecord") -> None:
        """Print what changed."""
        console = plain_console()
        for name, change in found.data_sets.items():
            for each in (change.trained.score, change.trained.loss):
                console.print(f"{name}: {each.name} {each.before:.4g} -> {each.after:.4g}")
            if change.teacher is not None:
                score = change.teacher.score
                teacher = f"{score.name} of the teacher {score.before:.4g}"
                console.print(f"{name}: {teacher} (this model against it: {score})")
        console.print(f"Folder: {self.out}")
