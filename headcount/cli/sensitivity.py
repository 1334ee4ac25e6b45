"""`headcount sensitivity`: how the loss reacts to attention on kinds of tokens."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from headcount import importance, models, results
from headcount.cli.arguments import TaskArguments
from headcount.cli.console import Report
from headcount.cli.folder_arguments import OutArguments
from headcount.cli.frame import ResultCommand
from headcount.core import SITES, amount, check_seed


@dataclass(frozen=True)
class SensitivityCommand(
    OutArguments, TaskArguments, ResultCommand["models.Loaded", "results.Sensitivity"]
):
    """Measure how the loss reacts to attention on separators, first tokens and punctuation."""

    RESULT = results.Sensitivity

    samples: int = 1000
    """Number of resamples of the examples, for intervals."""
    seed: int = 0
    """Seed of the resamples; masked language modelling also draws masks with it."""

    def check(self) -> None:
        """Check everything that needs no model."""
        check_seed(self.seed)
        super().check()

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Sensitivity":
        """Measure attention and reactions."""
        return importance.sensitivity(
            read,
            self.built(read, self.data, self.seed),
            max_tokens=self.max_tokens,
            samples=self.samples,
            seed=self.seed,
            progress=progress,
        )

    def summarize(self, found: "results.Sensitivity", console: Console) -> None:
        """Print attention and reactions by layer, and whether special tokens are a no-op."""
        record = found.record
        console.print(
            f"{record.task}: {amount(record.examples, 'example')}, loss {record.loss:.4g}"
        )
        kinds = [
            kind
            for kind in results.KINDS
            if any(row.cases for row in found.layers("gradient", kind))
        ]
        table = Table("layer", *kinds, "|dL/dA|, other", box=None, pad_edge=False)
        parts = [(found.layers("attention", kind), found.layers("ratio", kind)) for kind in kinds]
        for number, other in enumerate(found.layers("gradient", "other")):
            cells = (
                f"{attention[number].value:.0%}, {ratio[number].value:.2f}"
                for attention, ratio in parts
            )
            table.add_row(f"{SITES[other.site]}.{other.layer}", *cells, f"{other.value:.2e}")
        console.print(
            "By layer: share of attention, and |dL/dA| as a share of that for other tokens"
        )
        console.print(table)
        for each in record.no_ops:
            console.print(
                f"{each.site}, {each.kind}: over {amount(each.heads, 'head')}, attention "
                f"correlates with |dL/dA| as a share of that for other tokens: {each.spearman:.2f} "
                f"({each.low:.2f} to {each.high:.2f}, Spearman)",
                soft_wrap=True,
            )
