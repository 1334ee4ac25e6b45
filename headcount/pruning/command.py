"""The command `headcount curve`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from headcount import models, pruning, results
from headcount.commands import (
    PLACEHOLDER_TEST,
    UPDATES,
    Inputs,
    Report,
    ResultCommand,
    ResumableArguments,
    given,
    group,
    values_of,
    with_options,
)
from headcount.core import (
    InputError,
    amount,
    check_single_process,
    options_of,
)
from headcount.numbers import percent
from headcount.pages import command
from headcount.pruning.arguments import TrialArguments, check_calibration
from headcount.pruning.options import METHOD_OPTIONS, method_names


@dataclass(frozen=True)
class Curve(ResumableArguments, ResultCommand["Inputs[pruning.Roles | None]", "results.Curve"]):
    """The arguments of `headcount curve`."""

    RESULT = results.Curve

    on: Annotated[TrialArguments, *group("task and data")]
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
    def values(cls) -> Mapping[str, Sequence[str]]:
        """The methods, for tab completion."""
        return {"--methods": ["all", *method_names()]}

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
        roles = None
        if self.analysis is not None:
            found = models.revision(loaded.model)
            roles = results.read_roles(self.analysis, loaded.heads, found)
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
        found = pruning.curve_of(points, loaded, splits, chosen, key, left_out)
        return found.recorded({"options": changed})

    def show(self, read: "Inputs[pruning.Roles | None]", found: "results.Curve") -> None:
        """Print the summary, without the warnings about data, which are printed by then."""
        left = found.record.warnings[len(read.splits.warnings) :]
        super().show(read, replace(found, record=replace(found.record, warnings=left)))

    def next_steps(
        self, read: "Inputs[pruning.Roles | None]", found: "results.Curve"
    ) -> Iterable[str]:
        """Which budget to take."""
        dev = read.splits.dev
        return after_curve(self.on, found.points, dev.metric, dev.higher_is_better)


CLOSE = 0.01
"""Largest drop of a score, relative to that of the dense model, that is called close."""


def after_curve(
    on: TrialArguments, points: "results.CurvePoints", metric: str, higher_is_better: bool
) -> Iterator[str]:
    """Which budget to take after a curve of scores."""
    if "score" not in points:
        return
    dense, sign = points.dense.numbers["score"], 1 if higher_is_better else -1
    chosen = [
        each for each in points.points if not each.is_control and each.method != results.RANDOM
    ]
    chosen = [
        each for each in chosen if each.method != results.ALL and each.keep < points.dense.keep
    ]
    if not chosen:
        return
    drop = {id(each): sign * (dense - each.numbers["score"]) for each in chosen}
    close = [each for each in chosen if drop[id(each)] <= CLOSE * abs(dense)]
    if close:
        best = min(close, key=lambda each: (each.keep, drop[id(each)]))
        is_smallest = 0 < best.keep == min(each.keep for each in chosen)
        untried = " (fewer were not tried)" if is_smallest else ""
        yield (
            f"Next: {amount(best.keep, 'head')} chosen by {best.method} keep {metric} within "
            f"{percent(CLOSE, 0)} of {dense:.4g} on --dev, the fewest here{untried}. Prune to "
            "that budget "
            "and measure it on data that chose nothing (--test):"
        )
        recovery: list[object] = []
    else:
        best = min(chosen, key=lambda each: drop[id(each)])
        yield (
            f"Next: no budget here keeps {metric} within {percent(CLOSE, 0)} of {dense:.4g}. "
            "Name larger "
            f"ones, or train the other weights after pruning, here to {amount(best.keep, 'head')}:"
        )
        recovery = ["--recover", UPDATES]
    shared = given(on, TrialArguments)
    shared.setdefault("test", (PLACEHOLDER_TEST,))
    keep = [best.kept[site] for site in on.site] or [best.keep]  # one number for each --site
    more = ["--method", best.method, "--keep", *keep, *recovery, "--out", "PRUNED"]
    yield f"  {command('prune', [on.model], shared, *more)}"
