"""The command `headcount prune`.

It is long by its options: four groups, each with what is checked before a model is loaded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, numbers, pruning, results, skills, speed, tasks
from headcount.commands import (
    PLACEHOLDER_CORPUS,
    UPDATES,
    DeviceArguments,
    Inputs,
    LearningArguments,
    Measuring,
    Report,
    between,
    check_data,
    field_values,
    given,
    group,
    group_size,
    plain_console,
    print_lines,
    print_warnings,
    recorded,
    values_of,
    with_options,
)
from headcount.core import (
    Head,
    Heads,
    InputError,
    ResumePolicy,
    amount,
    capital,
    check_known,
    check_one_folder,
    check_single_process,
    is_main_process,
    options_of,
    own_unit,
)
from headcount.pages import command
from headcount.pruning import AutoOptions, TrialArguments, check_calibration, method_names
from headcount.training import FinetuneConfig


@dataclass(frozen=True)
class BudgetArguments:
    """How many heads to keep, or how small, fast and good the model must be; several at once."""

    keep: tuple[int, ...] = ()
    """Number of heads to keep, in total or, with --site, one number per site."""
    speedup: float | None = None
    """Keep as many heads as possible while one forward pass is this many times as fast as the dense
    model's, e.g. 1.2, in the case that is timed."""
    size: str | None = None
    """Keep as many heads as possible while the weights take at most this share of the dense model's
    bytes, e.g. 80%."""
    max_drop: str | None = None
    """Largest drop of the score on --dev, in its unit or, as 1%, of the dense model's score; the
    upper end of its 95 % interval counts. Alone, it keeps as few heads as possible."""
    latency: float | None = None
    """Keep as many heads as possible while one forward pass of the compact model, without
    search or generation, takes at most this many ms on the --dev example of median length."""
    share: float | None = None
    """Share of the prunable heads to keep."""
    keep_cache: float | None = None
    """Keep as many heads as possible whose keys and values take at most this share of the
    cache's bytes; entire key/value groups are pruned."""
    neurons: bool = False
    """Prune neurons of feed-forward networks, too: heads and neurons are chosen together by Fisher
    information under one --speedup or --size."""

    def spec(self, sites: Sequence[str]) -> "pruning.BudgetSpec":
        """The budget.

        Raises:
            InputError: If there is none, or one that no model can meet.
        """
        return pruning.BudgetSpec(
            self.to_keep(sites),
            self.share,
            self.keep_cache,
            self.max_drop,
            self.latency,
            self.speedup,
            None if self.size is None else numbers.part(self.size),
        )

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
class TimingArguments:
    """The case in which the pruned model is timed beside the dense one."""

    speed: bool = True
    """Time one forward pass of both models, in turns, once the model is pruned."""
    batch: int = pruning.TIMING.batch[0]
    """Number of examples of the pass that is timed."""
    length: int | None = None
    """Number of tokens of each example; the median of --dev by default."""

    def options(self) -> "speed.Options":
        """The case."""
        length = () if self.length is None else (self.length,)
        return replace(pruning.TIMING, batch=(self.batch,), length=length)

    def check(self) -> None:
        """Check that the case can be run by some model."""
        options = self.options()
        replace(options, length=options.length or (1,)).check_sizes()


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
    """Train the dense model for as many updates as the pruned one, and measure it as a control."""
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
    skills: tuple[str, ...] = ("induction",)
    """Ask the dense and the pruned language model for these skills: induction, retrieval, answers
    or function_vector; all but the first take minutes."""

    def check(self) -> None:
        """Check that the analysis and its corpus are there."""
        if self.corpus and self.analysis is None:
            raise InputError(
                "Expected --analysis together with --corpus. Name the dense model's analysis of "
                "that corpus."
            )
        check_data(self.corpus)
        for each in self.skills:
            check_known("a skill to ask for", each, skills.ABILITIES)
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
    timing: Annotated[TimingArguments, *group("speed")] = field(default_factory=TimingArguments)
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
    push: str | None = None
    """Upload the folder to this repository of the Hugging Face Hub at the end, OWNER/NAME."""

    @classmethod
    def values(cls) -> Mapping[str, Sequence[str]]:
        """The methods, for tab completion."""
        return {"--method": method_names()}

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
        if self.push is not None:
            artifact.check_repository(self.push)
        self.on.check()
        spec = self.budget.spec(self.on.site)
        self._check_neurons(spec)
        if spec.speedup is not None and not self.timing.speed:
            raise InputError("Expected to time models for --speedup. Leave --no-speed out.")
        self.timing.check()
        self.on.check_heads(self.budget.to_keep(self.on.site), self.survival.analysis)
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

    def _check_neurons(self, spec: "pruning.BudgetSpec") -> None:
        """Check that what is asked for neurons can be done."""
        if not self.budget.neurons:
            return
        if self.method not in (None, "auto", pruning.TOGETHER) or self.preset is not None:
            raise InputError(
                f"Expected --method {pruning.TOGETHER} or none beside --neurons, got "
                f"{self.method or self.preset}. Heads and neurons are chosen together, by Fisher "
                "information."
            )
        if spec.costs not in (["speedup"], ["size"]) or set(spec.limits) - {
            "speedup",
            "size",
            "max_drop",
        }:
            raise InputError(
                "Expected --speedup or --size beside --neurons, and no other budget but "
                f"--max-drop, got {' and '.join(spec.limits)}. Heads and neurons share one budget."
            )

    @cached_property
    def chosen(self) -> "pruning.Method":
        """The method."""
        method = pruning.with_options(self.options)
        if self.one_per_group is None:
            return method
        return pruning.spare_groups(method, pruning.read_groups(self.one_per_group))

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
        analysis = read.more
        roles = None if analysis is None else analysis.roles
        settings = self.on.settings(artifact.state_of(self.out), progress, roles)
        settings = replace(settings, neurons=self.budget.neurons)
        stages = self.compensation.stages(mend=self.preset is None)
        keep = self.budget.spec(self.on.site)
        if is_main_process():
            said = speed.limits(read.loaded).sentence(
                self.budget.num_pruned(read.loaded.heads, self.on.site)
            )
            lines = [f"{capital(said)}."]
            found = pruning.forecast(read.loaded, read.splits, self.chosen, keep, stages, settings)
            if found is not None:
                lines.append(found.sentence)
            print_lines(lines)
        pruned = pruning.prune(
            read.loaded,
            read.splits,
            self.chosen,
            keep=keep,
            compensation=stages,
            settings=settings,
            timing=self.timing.options() if self.timing.speed else None,
        )
        if not is_main_process():
            return pruned.record
        with own_unit():
            return artifact.save_pruned(
                pruned,
                self.out,
                analysis=analysis,
                files=self.on.dev,
                skills=self.survival.skills if self.on.task == tasks.CAUSAL else (),
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
        console.print(f"Kept {artifact.units_of(found, 'kept')}, chosen by {choice.method_used}")
        if choice.compared:
            losses = ", ".join(f"{name} {loss:.4f}" for name, loss in choice.compared.items())
            console.print(
                f"Losses of the candidates, on examples that did not score heads: {losses}"
            )
        for each in pipeline.stages:
            losses = f"{each.before:.4f} -> {each.after:.4f}"
            console.print(f"{each.stage:<31} loss {losses}  {each.verdict}")
        for word, text in artifact.verdict_lines(found):
            console.print(f"{word}: {text}")
        for each in found.skills:
            console.print(artifact.skill_sentence(each))
        console.print(f"Load it: {artifact.loading(found)}")
        told = () if pipeline.control else (artifact.judged_on(found),)
        for name, change in found.data_sets.items():
            if name in told:
                continue
            beside, score = "", change.score
            if pipeline.control is not None:
                control = pipeline.control.data_sets[name]
                reached = control.trained.score.after
                beside = f"; control {reached:.4g}, {control.pruned.score} against it"
            numbers = f"{score.before:.4g} -> {score.after:.4g}"
            console.print(f"{name}: {score.name} {numbers} ({score}){beside}")
        print_warnings(found.warnings[len(read.splits.warnings) :], console)
        if self.on.even and not found.plain:
            kind = type(read.loaded.model).__name__
            said = f"the folder still needs its file of code: {kind} has no field for such a size"
            print_warnings([said], console)
        console.print(f"Folder: {self.out}, with the head card in README.md")
        if self.push is not None:
            console.print(f"Uploaded: {artifact.push(self.out, self.push)}")

    def next_steps(
        self, read: "Inputs[artifact.DenseAnalysis | None]", found: "results.PruneRecord"
    ) -> Iterable[str]:
        """What to do with the pruned model."""
        return after_prune(self.on, found, self.out, group_size(read.loaded))


def after_prune(
    on: TrialArguments, record: "results.PruneRecord", out: Path, size: int = 1
) -> Iterator[str]:
    """What to do with a pruned model, of which `size` heads are pruned at once."""
    name, found = list(record.data_sets.items())[-1]
    score = found.score
    num_kept, num_pruned = (_num_at(on.site, each) for each in (record.kept, record.pruned))
    total = num_kept + num_pruned
    lossy = score if score.low > 0 else found.loss
    if lossy.low > 0:
        what = "the pruned model loses" if lossy is score else "the loss of the pruned model rises"
        yield f"Next: {what} on {name} ({lossy}). Train its other weights:"
        how = ["--teacher", on.model, "--set", f"updates={UPDATES}", "distilled=0.5"]
        shared = given(on, LearningArguments)
        yield f"  {command('finetune', [str(out)], shared, *how, '--out', f'{out}-tuned')}"
        yield "or see what more heads are worth:"
        keep = between(num_kept, total, size)
    else:
        found_none = f"Next: no loss beyond chance was found on {name} ({score}){_unseen(score)}."
        if on.task in ("image-classification", tasks.TRANSCRIPTION):  # `speed` makes up texts
            yield f"{found_none} See how many more heads can be pruned:"
        else:
            speed = command("speed", [on.model, str(out)], given(on, DeviceArguments), "--card")
            yield f"{found_none} Measure the speed:"
            yield f"  {speed}"
            yield "or see how many more heads can be pruned:"
        keep = between(0, num_kept, size)
    if record.choice is not None and keep:
        more = [
            "--methods",
            record.choice.ranking,
            results.RANDOM,
            "--keep",
            *keep,
        ]
        shared = given(on, TrialArguments)
        yield f"  {command('curve', [on.model], shared, *more, '--out', f'{out}-curve')}"
    if on.task == tasks.TRANSCRIPTION:  # `analyze` reads no sound
        return
    yield "or see on a page what its heads do on a corpus, before and after:"
    heads, shared = f"{out}-heads", given(on, DeviceArguments)
    yield f"  {command('analyze', [on.model, PLACEHOLDER_CORPUS], shared, '--out', heads)}"
    yield f"  {command('report', [heads], {}, '--pruned', str(out))}"


def _unseen(score: "results.MetricChange") -> str:
    """The largest loss within the interval of a change in which none was found."""
    if not score.high > 0:  # NaN of a single example, or better beyond chance
        return ""
    change = "drop" if score.higher_is_better else "rise"
    return f"; a {change} of up to {score.high:.3g} can't be excluded"


def _num_at(sites: Sequence[str], names: Iterable[str]) -> int:
    """Number of heads at some sites; of all heads if no site is named."""
    return sum(not sites or Head.parse(name).site in sites for name in names)
