"""`headcount sensitivity`: how the loss reacts to attention on kinds of tokens."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headcount import importance, reports, results
from headcount.cli.arguments import TaskArguments, recorded
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.core import SITES, ResumePolicy, amount, check_seed, claim


def print_sensitivity(found: "results.Sensitivity", console: Console) -> None:
    """Print attention and reaction by layer, and whether attention to special tokens is a no-op."""
    record = found.record
    console.print(f"{record.task}: {amount(record.examples, 'example')}, loss {record.loss:.4g}")
    kinds = [
        kind for kind in results.KINDS if any(row.cases for row in found.layers("gradient", kind))
    ]
    table = Table("layer", *kinds, "|dL/dA|, other", box=None, pad_edge=False)
    parts = [(found.layers("attention", kind), found.layers("ratio", kind)) for kind in kinds]
    for number, other in enumerate(found.layers("gradient", "other")):
        cells = (
            f"{attention[number].value:.0%}, {ratio[number].value:.2f}"
            for attention, ratio in parts
        )
        table.add_row(f"{SITES[other.site]}.{other.layer}", *cells, f"{other.value:.2e}")
    console.print("By layer: share of attention, and |dL/dA| as a share of that for other tokens")
    console.print(table)
    for each in record.no_ops:
        console.print(
            f"{each.site}, {each.kind}: over {amount(each.heads, 'head')}, attention correlates "
            f"with |dL/dA| as a share of that for other tokens: {each.spearman:.2f} "
            f"({each.low:.2f} to {each.high:.2f}, Spearman)",
            soft_wrap=True,
        )
    print_warnings(record.warnings, console)
    console.print(record.signature, style="dim", soft_wrap=True)


@dataclass(frozen=True)
class SensitivityCommand(TaskArguments):
    """Measure how the loss reacts to attention on separators, first tokens and punctuation."""

    RECORD = results.SensitivityRecord.FILE
    HAS_TABLES = True

    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --overwrite is given."""
    samples: int = 1000
    """Number of resamples of the examples, for intervals."""
    seed: int = 0
    """Seed of the resamples; masked language modelling also draws masks with it."""
    overwrite: bool = False
    """Replace an earlier run in --out."""

    def run(self) -> int:
        """Measure, and write everything into `out`."""
        check_seed(self.seed)
        self.check()
        policy = ResumePolicy.of(False, self.overwrite)
        claim(self.out, results.Sensitivity.files(), self.out / "state", policy, resumes=False)
        loaded = self.loaded()
        task = self.built(loaded, self.data, self.seed)
        with shown() as progress:
            found = importance.sensitivity(
                loaded,
                task,
                max_tokens=self.max_tokens,
                samples=self.samples,
                seed=self.seed,
                progress=progress,
            )
        found.recorded(recorded(self)).write(self.out)
        reports.write_sensitivity_figures(self.out)
        print_sensitivity(found, plain_console(soft_wrap=False))
        return 0
