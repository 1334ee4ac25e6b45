"""The command `headcount prune`.

Its groups of options are in prune_arguments.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, pruning, results, speed, tasks
from headcount.artifact.prune_arguments import (
    BudgetArguments,
    CompensationArguments,
    SurvivalArguments,
    TimingArguments,
)
from headcount.commands import (
    PLACEHOLDER_CORPUS,
    UPDATES,
    DeviceArguments,
    Inputs,
    LearningArguments,
    Measuring,
    Report,
    between,
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
    InputError,
    ResumePolicy,
    capital,
    check_one_folder,
    check_single_process,
    is_main_process,
    options_of,
    own_unit,
)
from headcount.pages import command
from headcount.pruning import AutoOptions, TrialArguments, check_calibration, method_names


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
        settings = replace(settings, neurons=self.budget.neurons, asked=self.survival.asked)
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
            console.print(each.sentence)
        console.print(f"Load it: {artifact.loading(found)}")
        told = () if pipeline.control else (artifact.judged_on(found),)
        for name, change in found.data_sets.items():
            if name in told:
                continue
            beside, score = "", change.score
            if pipeline.control is not None:
                control = pipeline.control.data_sets[name]
                reached = control.trained.score.after
                beside = f"; control {reached:.4g} (against it: {control.pruned.score})"
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
        more = ["--methods", record.choice.ranking, results.RANDOM, "--keep", *keep]
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
