"""`headcount compact`: a model without the heads that a plan prunes."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rich.console import Console

from headcount import artifact, models, results
from headcount.cli.arguments import ColumnArguments, ModelArguments
from headcount.cli.console import Report, plain_console
from headcount.cli.frame import Measuring
from headcount.core import Plan, amount, check_not_read
from headcount.corpora import named_columns


@dataclass(frozen=True)
class Compact(ColumnArguments, ModelArguments, Measuring["models.Loaded", "results.Certificate"]):
    """Cut out the heads that a plan prunes, check equality, and save."""

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
        columns = named_columns(self.columns)
        corpus = artifact.certificate_corpus(read, self.data, self.limit, columns)
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
