"""`headcount probe MODEL --train ... --test ...`: what the heads know together."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import probes, reports, results
from headcount.cli.arguments import (
    ModelArguments,
    check_corpus,
    check_model,
    check_no_unused_options,
    recorded,
)
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.core import ResumePolicy
from headcount.probes import ProbeOptions


@dataclass(frozen=True)
class Probe(ModelArguments):
    """Train probes on attention and hidden states; measure them beside controls and baselines."""

    RECORD = results.ProbeRecord.FILE
    HAS_TABLES = True

    train: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to train on."""
    test: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to measure on."""
    out: Path = field(kw_only=True)
    """Folder for the results: new, or the folder of an analysis of this model."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    overwrite: bool = False
    """Replace earlier probes in --out."""
    how: Annotated[ProbeOptions, tyro.conf.arg(name="")] = field(default_factory=ProbeOptions)

    def run(self) -> int:
        """Run the probes, and write and print their numbers."""
        policy = ResumePolicy.of(self.resume, self.overwrite)
        for option, probe in (
            ("vectors", "words"),
            ("ranks", "structure"),
            ("normalize", "structure"),
        ):
            if probe not in self.how.probes:
                check_no_unused_options(self.how, option, f"the probe {probe}", f"Add {probe}")
        if not self.how.needs_states:
            check_no_unused_options(self.how, "layers", "hidden states", "Add structure or layers")
        check_model(self.model)
        check_corpus([*self.train, *self.test])
        results.claim_beside(self.out, results.Probed, "probes", policy)
        if policy is ResumePolicy.OVERWRITE:
            probes.forget_probes(self.out)
        loaded = self.loaded()
        with shown() as progress:
            found = probes.probe(
                loaded, self.train, self.test, options=self.how, out=self.out, progress=progress
            )
        found.recorded(recorded(self)).write(self.out)
        probes.forget_probes(self.out)
        reports.write_probe_figures(self.out)
        if (self.out / "run.json").exists():
            reports.write_report(self.out)
        print_probes(found, plain_console(soft_wrap=False))
        return 0


def print_probes(found: "results.Probed", console: Console) -> None:
    """Print the numbers over all relations."""
    table = Table("probe", "variant", "metric", "value", "95 % interval", box=None, pad_edge=False)
    for row in found.rows:
        if row.relation not in ("all", "macro") or math.isnan(row.low):
            continue  # weights of the scalar mix are in the table and the figure
        name = row.probe if row.layer is None else f"{row.probe}, layer {row.layer}"
        name = name if row.rank is None else f"{name}, rank {row.rank}"
        metric = row.metric if row.relation == "all" else f"{row.metric}, mean over relations"
        interval = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
        table.add_row(name, row.variant, metric, f"{100 * row.value:.1f}", interval)
    console.print(table)
    print_warnings(found.record.warnings, console)
    console.print(found.record.signature, style="dim", soft_wrap=True)
