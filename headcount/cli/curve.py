"""`headcount curve`: every method under the same budgets."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, pruning, reports, results
from headcount.cli.arguments import recorded
from headcount.cli.console import plain_console, print_markdown, print_warnings, shown
from headcount.cli.data_arguments import TrialArguments, check_calibration
from headcount.cli.next_steps import after_curve, print_steps
from headcount.core import InputError, ResumePolicy, claim
from headcount.pruning import METHOD_OPTIONS, check_method


@dataclass(frozen=True)
class Curve:
    """Plot score against kept heads for every method, and random, under the same budgets."""

    RECORD = results.CurveRecord.FILE
    HAS_TABLES = True

    on: Annotated[TrialArguments, tyro.conf.arg(name="")]
    keep: tuple[int, ...] = field(kw_only=True)
    """Numbers of kept heads among the prunable ones (see --site): one point each."""
    out: Path = field(kw_only=True)
    """Folder for the table, the document and the figures."""
    methods: tuple[str, ...] = ("all",)
    """Methods to compare; all by default."""
    set: tuple[str, ...] = ()
    """Set options of methods, as METHOD.NAME=VALUE, e.g. gradient.step=0.1."""
    seeds: int = 5
    """Number of random orders to draw."""
    scores: bool = True
    """Measure the score at every point (a beam search in translation); otherwise the loss only."""
    control: bool = True
    """Also train and measure the dense model for as many updates as a method's point."""
    analysis: Path | None = None
    """Folder of `headcount analyze` of this model, to report the functions of the kept heads."""
    resume: bool = False
    """Resume an interrupted run in --out; no point is measured twice."""
    overwrite: bool = False
    """Replace an earlier run in --out."""

    def run(self) -> int:
        """Measure every point and write everything into `out`."""
        policy = self._check()
        chosen = {name: pruning.method(name, self._options(name)) for name in self._names()}
        claim(self.out, results.Curve.files(), self.out / "state", policy)
        loaded = self.on.loaded()
        roles = None if self.analysis is None else artifact.read_roles(self.analysis, loaded)
        splits, console = self.on.splits(loaded), plain_console(soft_wrap=False)
        print_warnings(splits.warnings, console)
        key = f"{self.on.signature(loaded, splits)}|scores:{self.scores}|set:{','.join(self.set)}"
        left_out: dict[str, str] = {}
        # "all" means all methods that suit this model.
        unsuited = left_out.__setitem__ if "all" in self.methods else None
        with shown() as progress:
            settings = self.on.settings(self.out / "state", progress, roles)
            context = settings.context(loaded, splits.train)
            trial = pruning.Trial(context, splits.dev, splits.test, self.scores, self.control)
            seeds = range(self.on.seed, self.on.seed + self.seeds)
            points = pruning.curve(trial, chosen, self.keep, seeds, key, unsuited=unsuited)
        facts = reports.CurveFacts.of(loaded, splits, chosen, key, roles, left_out)
        print_warnings(facts.warnings[len(splits.warnings) :], console)
        reports.write_curve(points, facts, self.out, recorded(self))
        column = "score" if self.scores else "loss"
        print_markdown(reports.numbers_table(points, column, by_method=True), console)
        console.print(f"Document: {self.out / 'curve.md'}", soft_wrap=True)
        print_steps(after_curve(self.on, points, splits.dev.metric, splits.dev.higher_is_better))
        return 0

    def _check(self) -> ResumePolicy:
        """Check everything that needs no model; returns what to do with an earlier run."""
        if not (self.keep and self.methods):
            raise InputError(
                "Expected at least one budget and one method, got none. Name them with "
                "--keep and --methods."
            )
        if self.seeds < 1:
            raise InputError(
                f"Expected --seeds of at least 1, got {self.seeds}. To draw no random order, "
                "name the other --methods."
            )
        if self.seeds != Curve.seeds and "random" not in self._names():
            raise InputError("Only the method random reads --seeds. Leave --seeds out.")
        for name in self._names():
            check_method(name, self._options(name))
        check_calibration(self.on.calibration, self._names())
        self.on.check()
        self.on.check_heads(max(self.keep), self.analysis)
        return ResumePolicy.of(self.resume, self.overwrite)

    def _names(self) -> list[str]:
        return list(METHOD_OPTIONS) if "all" in self.methods else list(dict.fromkeys(self.methods))

    def _options(self, name: str) -> list[str]:
        """The options of one method."""
        for option in self.set:
            if option.partition(".")[0] not in self._names():
                raise InputError(
                    f"Expected options as METHOD.NAME=VALUE with a method out of "
                    f"{', '.join(self._names())}, got {option!r}."
                )
        return [option.partition(".")[2] for option in self.set if option.startswith(f"{name}.")]
