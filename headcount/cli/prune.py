"""Commands that choose heads to prune: prune, curve."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, pruning, reports, results, speed
from headcount.cli.arguments import ResumableArguments, check_data, group, recorded
from headcount.cli.console import Report, plain_console, print_lines, print_warnings
from headcount.cli.data_arguments import (
    Inputs,
    TrialArguments,
    check_calibration,
    field_values,
    values_of,
    with_options,
)
from headcount.cli.frame import Measuring, ResultCommand
from headcount.cli.next_steps import after_curve, after_prune, group_size
from headcount.core import (
    Heads,
    InputError,
    ResumePolicy,
    amount,
    check_one_folder,
    check_single_process,
    is_main_process,
    options_of,
    own_unit,
)
from headcount.pruning import METHOD_OPTIONS, AutoOptions
from headcount.training import FinetuneConfig


@dataclass(frozen=True)
class BudgetArguments:
    """How many heads to keep: one of these."""

    keep: tuple[int, ...] = ()
    """Number of heads to keep, in total or, with --site, one number per site."""
    share: float | None = None
    """Share of the prunable heads to keep."""
    keep_cache: float | None = None
    """Keep as many heads as possible whose keys and values take at most this share of the
    cache's bytes; entire key/value groups are pruned."""
    max_drop: float | None = None
    """Keep as few heads as possible while the score on --dev drops by at most this."""
    latency: float | None = None
    """Keep as many heads as possible while one forward pass of the compact model, without
    search or generation, takes at most this many ms on the --dev example of median length."""

    @property
    def limits(self) -> tuple[float | None, ...]:
        """All budgets but a number of heads, in the order of `BudgetSpec`."""
        return self.share, self.keep_cache, self.max_drop, self.latency

    def to_keep(self, sites: Sequence[str]) -> "pruning.Keep | None":
        """The number of heads to keep, in total or site by site."""
        if not self.keep:
            return None
        if len(set(sites)) < len(sites):
            raise InputError(f"Expected every --site once, got {' '.join(sites)}. Name each once.")
        if len(self.keep) != max(1, len(sites)):
            raise InputError(
                f"Expected one number for --keep, or one for each --site, got "
                f"{amount(len(self.keep), 'number')} and {amount(len(sites), 'site')}. Give one "
                "for each."
            )
        return dict(zip(sites, self.keep, strict=True)) if sites else self.keep[0]

    def num_pruned(self, heads: Heads, sites: Sequence[str]) -> int | None:
        """The number of heads that are pruned; None if it is searched."""
        total = sum(sum(heads.counts.get(site, ())) for site in sites or heads.counts)
        if self.share is not None:
            return total - round(self.share * total)
        keep = self.to_keep(sites)
        if keep is None:
            return None
        return total - (keep if isinstance(keep, int) else sum(keep.values()))


@dataclass(frozen=True)
class CompensationArguments:
    """What makes up for the pruned heads."""

    fold: bool = True
    """Fold the mean output of pruned heads into the bias where that lowers the loss."""
    rescale: bool = True
    """Rescale kept heads to compensate for pruned ones where that lowers the loss."""
    recover: int = 0
    """Number of updates that train the kept heads on --data, used if the loss drops; 0 for none."""
    tune: tuple[str, ...] = ()
    """Set fields of the recovery training, as NAME=VALUE, e.g. peak=5e-5 distilled=0.5."""
    control: bool = True
    """If anything is trained, also train the dense model for as many updates and measure it."""
    control_taught: bool = False
    """Give that control the pruned model's teacher, the dense model before its training."""

    def recovery(self) -> FinetuneConfig | None:
        """The settings of the recovery training; None for none."""
        if self.recover < 0:
            raise InputError(f"Expected --recover of at least 0 updates, got {self.recover}.")
        if self.tune and not self.recover:
            raise InputError("--tune only affects recovery training. Add --recover UPDATES.")
        if any(each.partition("=")[0].strip() == "updates" for each in self.tune):
            raise InputError("--recover sets the number of updates. Leave updates out of --tune.")
        if not self.recover:
            return None
        recovery = FinetuneConfig(updates=self.recover, **field_values(FinetuneConfig, self.tune))
        if recovery.gate_rate != FinetuneConfig.gate_rate:
            raise InputError("Recovery training has no gates to learn. Leave gate_rate out.")
        return recovery

    def stages(self, mend: bool) -> "pruning.Compensation":
        """What is tried; nothing is folded or rescaled unless `mend`."""
        return pruning.Compensation(
            self.fold and mend,
            self.rescale and mend,
            self.recovery(),
            self.control,
            self.control_taught,
        )


@dataclass(frozen=True)
class SurvivalArguments:
    """Which functions of heads survive."""

    analysis: Path | None = None
    """Folder of `headcount analyze` of the dense model; reports which functions survive."""
    corpus: tuple[str, ...] = ()
    """With --analysis: its corpus, to find heads of the pruned model that took over functions."""

    def check(self) -> None:
        """Check that the analysis and its corpus are there."""
        if self.corpus and self.analysis is None:
            raise InputError(
                "Expected --analysis together with --corpus. Name the dense model's analysis of "
                "that corpus."
            )
        check_data(self.corpus)
        if self.analysis is not None:
            results.check_is_run(self.analysis)
            if self.corpus:
                artifact.analysed_corpus(self.analysis, self.corpus)


@dataclass(frozen=True)
class Prune(Measuring["Inputs[artifact.DenseAnalysis | None]", "results.PruneRecord"]):
    """The arguments of `headcount prune`."""

    RECORD = "prune.json"

    out: Path = field(kw_only=True)
    """Folder for the pruned model; an unfinished run keeps its state in OUT.state."""
    method: str | None = None
    """Method that chooses the heads; auto by default: the cheap score that loses least."""
    preset: str | None = None
    """Follow a paper: voita2019, michel2019 or li2021; nothing is folded or rescaled."""
    budget: Annotated[BudgetArguments, *group("budget")] = field(default_factory=BudgetArguments)
    on: Annotated[TrialArguments, *group("task and data")] = field(kw_only=True)
    one_per_group: Path | None = None
    """Folder of `headcount cluster` of this model: keep at least one head of each group of heads
    that look at the same places, as far as the budget allows."""
    compensation: Annotated[CompensationArguments, *group("compensation")] = field(
        default_factory=CompensationArguments
    )
    survival: Annotated[SurvivalArguments, *group("analysis")] = field(
        default_factory=SurvivalArguments
    )
    options: Annotated["pruning.MethodOptions", tyro.conf.Suppress] = AutoOptions()
    """Options of the method, given as --method.NAME VALUE."""
    resume: bool = False
    """Resume an interrupted run."""
    overwrite: bool = False
    """Replace an earlier pruned model in --out."""

    @classmethod
    def parsed_by(cls, arguments: Sequence[str]) -> type["Prune"]:
        """The same class, with the options of the method that is named."""
        names, presets = values_of(arguments, "--method"), values_of(arguments, "--preset")
        if presets and not names:
            sites, task = values_of(arguments, "--site"), "".join(values_of(arguments, "--task"))
            options = pruning.preset(presets[0])(sites, task)
        else:
            options = pruning.options_of_method(names[0] if names else "auto")()
        return with_options(cls, "method", options)

    def check(self) -> None:
        """Check everything that needs no model."""
        if self.preset is not None and self.method is not None:
            raise InputError("Expected one of --method and --preset, got both. Leave one out.")
        if self.compensation.recover or pruning.is_trained(self.options):
            check_single_process()
        self.on.check()
        keep = self.budget.to_keep(self.on.site)
        pruning.check_budget(keep, *self.budget.limits)
        self.on.check_heads(keep, self.survival.analysis)
        self.compensation.recovery()
        self.survival.check()
        is_mended = self.compensation.fold or self.compensation.rescale
        if self.preset is not None and not (self.compensation.fold and self.compensation.rescale):
            raise InputError(
                "A preset folds and rescales nothing. Leave --no-fold and --no-rescale out, or "
                "name its --method instead."
            )
        if self.preset is not None or not is_mended:
            check_calibration(self.on.calibration, [self.options])

    @cached_property
    def chosen(self) -> "pruning.Method":
        """The method."""
        method = pruning.with_options(self.options)
        if self.one_per_group is None:
            return method
        return pruning.spare_groups(method, results.Clusters.read(self.one_per_group).groups)

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or holds a pruned model that is replaced."""
        beside = (self.survival.analysis, self.one_per_group)
        read = [*self.on.files(), *map(Path, self.survival.corpus), *filter(None, beside)]
        self.chosen  # noqa: B018
        if is_main_process():
            artifact.claim_artifact(self.out, policy, read=read)

    def prepare(self) -> "Inputs[artifact.DenseAnalysis | None]":
        """Load the model, its analysis and the data."""
        check_one_folder(artifact.state_of(self.out))
        loaded, analysis = self.on.load(), None
        if self.one_per_group is not None:
            pruning.check_groups(self.one_per_group, loaded)
        if self.survival.analysis is not None:
            analysis = artifact.DenseAnalysis.read(
                self.survival.analysis, loaded, self.survival.corpus
            )
        return Inputs(loaded, self.on.splits(loaded), analysis)

    def measure(
        self, read: "Inputs[artifact.DenseAnalysis | None]", progress: Report
    ) -> "results.PruneRecord":
        """Prune, and write the folder; several processes share what is measured, one writes."""
        if is_main_process():
            said = speed.limits(read.loaded).sentence(
                self.budget.num_pruned(read.loaded.heads, self.on.site)
            )
            print_lines([f"{said[0].upper()}{said[1:]}."])
        analysis = read.more
        roles = None if analysis is None else analysis.roles
        pruned = pruning.prune(
            read.loaded,
            read.splits,
            self.chosen,
            keep=pruning.BudgetSpec(self.budget.to_keep(self.on.site), *self.budget.limits),
            compensation=self.compensation.stages(mend=self.preset is None),
            settings=self.on.settings(artifact.state_of(self.out), progress, roles),
        )
        if not is_main_process():
            return pruned.record
        with own_unit():
            return artifact.save_pruned(
                pruned,
                self.out,
                analysis=analysis,
                files=self.on.dev,
                arguments=recorded(self)
                | {"options": options_of(self.options, type(self).options)},
                overwrite=artifact.may_replace(self.out),
                progress=progress,
            )

    def show(
        self, read: "Inputs[artifact.DenseAnalysis | None]", found: "results.PruneRecord"
    ) -> None:
        """Print what a user wants to read first after pruning."""
        console, choice, pipeline = plain_console(), found.choice, found.pipeline
        assert choice is not None and pipeline is not None
        total = len(found.kept) + len(found.pruned)
        kept = f"{len(found.kept)} of {amount(total, 'head')}"
        console.print(f"Kept {kept}, chosen by {choice.method_used}")
        if choice.compared:
            losses = ", ".join(f"{name} {loss:.4f}" for name, loss in choice.compared.items())
            console.print(
                f"Losses of the candidates, on examples that did not score heads: {losses}"
            )
        for each in pipeline.stages:
            kept = "kept" if each.kept else "not kept"
            console.print(f"{each.stage:<31} loss {each.before:.4f} -> {each.after:.4f}  {kept}")
        for name, change in found.data_sets.items():
            beside, score = "", change.score
            if pipeline.control is not None:
                control = pipeline.control.data_sets[name]
                reached = control.trained.score.after
                beside = f"; control {reached:.4g}, {control.pruned.score} against it"
            numbers = f"{score.before:.4g} -> {score.after:.4g}"
            console.print(f"{name}: {score.name} {numbers} ({score}){beside}")
        print_warnings(found.warnings[len(read.splits.warnings) :], console)
        console.print(f"Folder: {self.out}, with the head card in README.md")

    def next_steps(
        self, read: "Inputs[artifact.DenseAnalysis | None]", found: "results.PruneRecord"
    ) -> Iterable[str]:
        """What to do with the pruned model."""
        return after_prune(self.on, found, self.out, group_size(read.loaded))


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
        found = reports.curve_of(points, loaded, splits, chosen, key, left_out)
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
