"""The command `headcount curve`, and arguments of all commands that prune: data and heads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headcount import models, pruning, results, tasks
from headcount.commands import (
    PLACEHOLDER_TEST,
    UPDATES,
    Inputs,
    LearningArguments,
    Report,
    ResultCommand,
    ResumableArguments,
    given,
    group,
    values_of,
    with_options,
)
from headcount.core import (
    Count,
    InputError,
    Progress,
    amount,
    check_options,
    check_single_process,
    options_of,
    silent,
)
from headcount.numbers import percent
from headcount.pages import command
from headcount.pruning.options import CALIBRATION, METHOD_OPTIONS, method_names

Site = Literal["encoder.self", "decoder.self", "decoder.cross", "vision.self"]


@dataclass(frozen=True)
class TrialArguments(LearningArguments):
    """Data to choose heads on and to measure on, and the heads that may be pruned."""

    site: tuple[Site, ...] = ()
    """Sites whose heads may be pruned; all by default."""
    groups: bool = True
    """Prune whole groups of heads that share keys and values; --no-groups prunes equally
    many heads of each."""
    even: bool = False
    """Keep equally many heads in all layers of a site, so that the folder loads as a stock model
    where its class takes a size of heads; --no-groups is needed where heads share keys."""
    protect: tuple[str, ...] = ()
    """Keep these heads whatever the method, with their groups: names such as dec.17.3, or roles.
    induction, duplicate and previous are found in causal models, and so are the skills retrieval,
    answers and function_vector, which takes minutes; other roles need --analysis."""
    calibration: Count = CALIBRATION
    """Number of examples drawn from --data for scoring heads, folding and rescaling; training uses
    all."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If the number of examples or another argument can't be used.
        """
        if self.protect:
            pruning.check_protect(self.protect)
        super().check()

    def check_heads(self, keep: "pruning.Keep | None", analysis: Path | None) -> None:
        """Check what the model's configuration says of heads; it may not say anything.

        Args:
            keep: Number of heads to keep, in all or at each site; None if it is not known yet.
            analysis: Analysis of the model, from which roles are read.

        Raises:
            InputError: If more heads are to be kept than the model has, a protected head is not the
                model's, or a protected role can't be known.
        """
        has_roles = analysis is not None
        protected = pruning.check_protect(self.protect, has_roles) if self.protect else []
        if keep is None and not protected:
            return
        stated = models.Stated.of(self.model, self.trust_remote_code)
        stated.check_heads(protected, "--protect")
        if isinstance(keep, int):
            stated.check_keep(keep)
        elif keep is not None:
            for site, number in keep.items():
                stated.check_keep(number, site)

    def settings(
        self, state: Path | None, progress: Progress, roles: "pruning.Roles | None" = None
    ) -> "pruning.PruneSettings":
        """What may be pruned, and how numbers are made.

        Args:
            state: Folder for intermediate state.
            progress: Function that is called with the progress.
            roles: Roles of the heads by an analysis.
        """
        return pruning.PruneSettings(
            sites=self.site,
            whole_groups=self.groups,
            even=self.even,
            protect=self.protect,
            roles=roles,
            calibration=self.calibration,
            seed=self.seed,
            max_tokens=self.max_tokens,
            state=state,
            progress=progress,
        )

    def signature(self, loaded: "models.Loaded", splits: "tasks.TaskSplits", **more: object) -> str:
        """The signature of everything that the numbers depend on, sites and groups included."""
        signed = self.settings(None, silent).signed_options
        return super().signature(loaded, splits, **signed, **more)


def check_calibration(calibration: int, methods: "Iterable[pruning.MethodOptions]") -> None:
    """Raise an error if --calibration was set and no method scores heads on examples.

    Raises:
        InputError: If --calibration would have no effect.
    """
    if calibration != CALIBRATION and not any(each.uses_data for each in methods):
        raise InputError(
            "--calibration only affects scores of heads, folding and rescaling, and this run has "
            "none of them. Leave it out."
        )


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
    seeds: Count = 5
    """Number of random orders to draw."""
    scores: bool = True
    """Measure the score at every point (a beam search in translation) beside the loss."""
    control: bool = True
    """Train and measure the dense model for as many updates as a method's point."""
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
        check_options(self)
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
        failed = left_out.__setitem__
        points = pruning.curve(
            trial, chosen, self.keep, seeds, key, unsuited=unsuited, failed=failed
        )
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


_CLOSE = 0.01
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
    close = [each for each in chosen if drop[id(each)] <= _CLOSE * abs(dense)]
    if close:
        best = min(close, key=lambda each: (each.keep, drop[id(each)]))
        is_smallest = 0 < best.keep == min(each.keep for each in chosen)
        untried = " (fewer were not tried)" if is_smallest else ""
        yield (
            f"Next: {amount(best.keep, 'head')} chosen by {best.method} keep {metric} within "
            f"{percent(_CLOSE, 0)} of {dense:.4g} on --dev, the fewest here{untried}. Prune to "
            "that budget "
            "and measure it on data that chose nothing (--test):"
        )
        recovery: list[object] = []
    else:
        best = min(chosen, key=lambda each: drop[id(each)])
        yield (
            f"Next: no budget here keeps {metric} within {percent(_CLOSE, 0)} of {dense:.4g}. "
            "Name larger "
            f"ones, or train the other weights after pruning, here to {amount(best.keep, 'head')}:"
        )
        recovery = ["--recover", UPDATES]
    shared = given(on, TrialArguments)
    shared.setdefault("test", (PLACEHOLDER_TEST,))
    keep = [best.kept[site] for site in on.site] or [best.keep]  # one number for each --site
    more = ["--method", best.method, "--keep", *keep, *recovery, "--out", "PRUNED"]
    yield f"  {command('prune', [on.model], shared, *more)}"
