"""`headcount curve`: every method under the same budgets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, pruning, reports, results
from headcount.cli.console import Report
from headcount.cli.data_arguments import Inputs, TrialArguments, check_calibration
from headcount.cli.folder_arguments import ResumableArguments
from headcount.cli.frame import Flat, ResultCommand
from headcount.cli.method_arguments import values_of, with_options
from headcount.cli.next_steps import after_curve
from headcount.core import InputError, check_single_process, options_of
from headcount.pruning import METHOD_OPTIONS


@dataclass(frozen=True)
class Curve(ResumableArguments, ResultCommand["Inputs[pruning.Roles | None]", "results.Curve"]):
    """Plot score against kept heads for every method, and random."""

    RESULT = results.Curve

    on: Flat[TrialArguments]
    keep: tuple[int, ...] = field(kw_only=True)
    """Numbers of kept heads among the prunable ones (see --site): one point each."""
    methods: tuple[str, ...] = ("all",)
    """Methods to compare; all by default."""
    options: Annotated[object, tyro.conf.Suppress] = None
    """Options of the methods, given as --methods.METHOD.NAME VALUE."""
    seeds: int = 5
    """Number of random orders to draw."""
    scores: bool = True
    """Measure the score at every point (a beam search in translation); otherwise the loss only."""
    control: bool = True
    """Also train and measure the dense model for as many updates as a method's point."""
    analysis: Path | None = None
    """Folder of `headcount analyze` of this model, to report the functions of the kept heads."""

    @classmethod
    def parsed_by(cls, arguments: Sequence[str]) -> type["Curve"]:
        """The same class, with the options of the methods that are named."""
        names = values_of(arguments, "--methods") or cls.methods
        names = METHOD_OPTIONS if "all" in names else dict.fromkeys(names)
        kinds = {name.replace("-", "_"): pruning.options_of_method(name) for name in names}
        fields = [(name, kind, field(default=kind())) for name, kind in kinds.items()]
        return with_options(cls, "methods", make_dataclass("Options", fields, frozen=True)())

    def check(self) -> None:
        """Check everything that needs no model."""
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
        if self.seeds != Curve.seeds and "random" not in self._chosen():
            raise InputError("Only the method random reads --seeds. Leave --seeds out.")
        if any(pruning.is_trained(each) for each in self._chosen().values()):
            check_single_process()
        check_calibration(self.on.calibration, self._chosen().values())
        self.on.check()
        self.on.check_heads(max(self.keep), self.analysis)

    def _chosen(self) -> "dict[str, pruning.MethodOptions]":
        """The options of each method."""
        return {each.name: each for each in vars(self.options).values()}

    def prepare(self) -> "Inputs[pruning.Roles | None]":
        """Load the model, its roles and the data."""
        loaded = self.on.load()
        roles = None if self.analysis is None else artifact.read_roles(self.analysis, loaded)
        return Inputs(loaded, self.on.splits(loaded), roles)

    def measure(self, read: "Inputs[pruning.Roles | None]", progress: Report) -> "results.Curve":
        """Measure every point."""
        loaded, splits = read.loaded, read.splits
        changed = [
            f"{name}.{each}" for name, own in self._chosen().items() for each in options_of(own)
        ]
        key = f"{self.on.signature(loaded, splits)}|scores:{self.scores}|set:{','.join(changed)}"
        chosen = {name: pruning.with_options(own) for name, own in self._chosen().items()}
        left_out: dict[str, str] = {}
        # "all" means all methods that suit this model.
        unsuited = left_out.__setitem__ if "all" in self.methods else None
        settings = self.on.settings(self.out / "state", progress, read.more)
        context = settings.context(loaded, splits.train)
        trial = pruning.Trial(context, splits.dev, splits.test, self.scores, self.control)
        seeds = range(self.on.seed, self.on.seed + self.seeds)
        points = pruning.curve(trial, chosen, self.keep, seeds, key, unsuited=unsuited)
        facts = reports.CurveFacts.of(loaded, splits, chosen, key, read.more, left_out)
        return facts.curve(points, {"options": changed})

    def next_steps(
        self, read: "Inputs[pruning.Roles | None]", found: "results.Curve"
    ) -> Iterable[str]:
        """Which budget to take."""
        dev = read.splits.dev
        return after_curve(self.on, found.points, dev.metric, dev.higher_is_better)
