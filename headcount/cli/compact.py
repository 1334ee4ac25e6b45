"""`headcount compact`: a model without the heads that a plan prunes."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from headcount import artifact, models, results
from headcount.cli.arguments import ColumnArguments, ModelArguments, check_model
from headcount.cli.console import plain_console, shown
from headcount.core import Plan, amount, check_not_read
from headcount.corpora import named_columns


@dataclass(frozen=True)
class Compact(ColumnArguments, ModelArguments):
    """Cut out the heads that a plan prunes, check equality with the gated model, and save."""

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

    def run(self) -> int:
        """Compact the model, compare it with the gated one, and save it."""
        check_model(self.model)
        self.check_texts(self.data, self.limit)
        check_not_read(
            self.out, [Path(models.place_of(self.model)), self.plan, *map(Path, self.data)]
        )
        plan = Plan.read(self.plan)
        models.Stated.of(self.model, self.trust_remote_code).check_plan(plan)
        loaded = self.loaded()
        columns = named_columns(self.columns)
        corpus = artifact.certificate_corpus(loaded, self.data, self.limit, columns)
        with shown() as progress:
            certificate = artifact.save_compact(
                loaded, plan, self.out, corpus, self.overwrite, progress
            )
        console = plain_console()
        kept = len(plan.kept_heads(loaded.heads))
        console.print(
            f"Kept {kept:,} of {amount(len(loaded.heads), 'head')}; {_size(self.out)} of weights",
        )
        print_certificate(certificate, console)
        console.print(
            f"Saved: {self.out}; load it with headcount.load({str(self.out)!r}), or with "
            "transformers alone: from_pretrained(..., trust_remote_code=True)",
        )
        return 0


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
