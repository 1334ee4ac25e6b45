"""The commands that score: importance, sensitivity and evaluate."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from headcount import importance, models, pages, results, tasks
from headcount.commands import (
    Flat,
    Measuring,
    OutArguments,
    Report,
    ResultCommand,
    ResumableArguments,
    TaskArguments,
    between,
    check_no_unused_options,
    group_size,
    plain_console,
    print_warnings,
    recorded,
    values_of,
    with_options,
)
from headcount.core import Count, InputError, ResumePolicy, Seed, check_is_folder
from headcount.importance.options import SCORES, Options
from headcount.numbers import minus
from headcount.pages import curve_command


@dataclass(frozen=True)
class ScoreArguments(Options):
    """The scores to compute, and their options."""

    methods: Annotated[tuple[str, ...], SCORES] = Options.methods
    """Scores to compute."""


@dataclass(frozen=True)
class Importance(
    ResumableArguments,
    TaskArguments,
    ResultCommand["tuple[models.Loaded, tasks.Task]", "importance.Assessment"],
):
    """The arguments of `headcount importance`."""

    RESULT = importance.Assessment

    out: Path = field(kw_only=True)
    """Folder for the results; an analysis in it gains columns and a section in its report."""
    how: Flat[ScoreArguments] = field(default_factory=ScoreArguments)
    against: Path | None = None
    """Ablation: folder of an assessment on other data, to test whether effects agree."""
    own: Annotated[object, tyro.conf.Suppress] = None
    """Options of the scores of plug-ins, given as --methods.SCORE.NAME VALUE."""

    @classmethod
    def values(cls) -> Mapping[str, Sequence[str]]:
        """The scores and tasks, for tab completion."""
        return {"--methods": SCORES.names(), "--task": tasks.TASKS.names()}

    @classmethod
    def parsed_by(cls, arguments: Sequence[str]) -> type["Importance"]:
        """The same class, with the options of the scores of plug-ins that are named."""
        names = [name for name in values_of(arguments, "--methods") if name not in SCORES.own]
        kinds = {name.replace("-", "_"): SCORES[name] for name in names}
        fields = [(name, kind, field(default=kind())) for name, kind in kinds.items()]
        options = make_dataclass("Options", fields, frozen=True)()
        return with_options(cls, "methods", options, "own") if fields else cls

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        self._check_no_unused_options()
        if self.against is not None and self.against.resolve() == self.out.resolve():
            raise InputError(
                "Expected --against to name an assessment on other data, got --out itself."
            )

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new or an analysis's, and may be written into."""
        importance.claim_importance(self.out, policy)

    def prepare(self) -> "tuple[models.Loaded, tasks.Task]":
        """Load the model and the task; results beside are of the same model and the same way."""
        loaded = self.load()
        self._check_same_models(loaded)
        task = self.built(loaded, self.data, self.how.seed)
        if self.against is not None:
            importance.check_against(self.against, loaded, task, self.how)
        return loaded, task

    def start_over(self) -> None:
        """Delete the losses so far of an earlier run."""
        importance.forget_sweep(self.out)

    def measure(
        self, read: "tuple[models.Loaded, tasks.Task]", progress: Report
    ) -> "importance.Assessment":
        """Score the heads."""
        loaded, task = read
        given = {} if self.own is None else vars(self.own)
        return importance.assess(
            loaded,
            task,
            self.how,
            self.out,
            progress,
            self.max_tokens,
            against=self.against,
            methods=[given.get(name.replace("-", "_"), name) for name in self.how.methods],
        )

    def publish(
        self, read: "tuple[models.Loaded, tasks.Task]", found: "importance.Assessment"
    ) -> Path | None:
        """Write document, page and figures, then the page of any analysis again."""
        page = super().publish(read, found)
        has_analysis = (self.out / results.RunRecord.FILE).exists()
        return pages.write_report(self.out) if has_analysis else page

    def next_steps(
        self, read: "tuple[models.Loaded, tasks.Task]", found: "importance.Assessment"
    ) -> Iterable[str]:
        """How to find out how many heads can be pruned."""
        (loaded, _), agreement = read, found.record.agreement
        score = None if agreement is None else agreement.pruning_score()
        own = [name for name in found.record.methods if name not in SCORES.own]
        return after_importance(self, len(loaded.heads), score, group_size(loaded), own)

    def _check_no_unused_options(self) -> None:
        """Raise an error for options of methods that are not requested."""
        for method in set(importance.READ_BY) - set(self.how.methods):
            advice = f"Add {method} to --methods"
            for name in importance.READ_BY[method]:
                check_no_unused_options(self.how, name, method, advice)
            if method == "ablation":
                check_no_unused_options(self, "against", method, advice)
        if self.how.quantity == "loss":
            advice = "Add --quantity score"
            check_no_unused_options(self.how, "score_test", "changes of the score", advice)

    def _check_same_models(self, loaded: "models.Loaded") -> None:
        """Raise an error for results of other models in the folders, before anything runs."""
        found = models.revision(loaded.model)
        results.check_same_model(self.out, loaded.heads, found)
        if self.against is not None:
            importance.check_same_assessment(self.against, found)


@dataclass(frozen=True)
class SensitivityCommand(
    OutArguments, TaskArguments, ResultCommand["models.Loaded", "importance.Sensitivity"]
):
    """The arguments of `headcount sensitivity`."""

    RESULT = importance.Sensitivity

    samples: Count = 1000
    """Number of resamples of the examples, for intervals."""
    seed: Seed = 0
    """Seed of the resamples; masked language modelling also draws masks with it."""

    def measure(self, read: "models.Loaded", progress: Report) -> "importance.Sensitivity":
        """Measure attention and reactions."""
        return importance.sensitivity(
            read,
            self.built(read, self.data, self.seed, progress),
            max_tokens=self.max_tokens,
            samples=self.samples,
            seed=self.seed,
            progress=progress,
        )


@dataclass(frozen=True)
class Evaluate(TaskArguments, Measuring["models.Loaded", "tasks.Scored"]):
    """The arguments of `headcount evaluate`."""

    RECORD = results.EvaluationRecord.FILE

    out: Path | None = None
    """Folder for evaluation.json and what the model writes: translations.txt, transcripts.txt."""

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        if self.out is not None:
            check_is_folder(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "tasks.Scored":
        """Evaluate the model."""
        task = self.built(read, self.data, progress=progress)
        watched = task.watched(partial(progress, task.bar("evaluating")))
        found = tasks.score(read, watched, self.max_tokens)
        print_warnings(found.record.warnings, plain_console())
        return found

    def store(self, found: "tasks.Scored") -> None:
        """Write the numbers if `out` is given."""
        if self.out is not None:
            found.write(self.out, recorded(self))

    def show(self, read: "models.Loaded", found: "tasks.Scored") -> None:
        """Print the numbers."""
        console = plain_console()
        for name, value in found.record.numbers().items():
            shown = minus(f"{value:,.4f}") if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}")


def after_importance(
    on: TaskArguments,
    num_heads: int,
    score: str | None,
    size: int = 1,
    own: Sequence[str] = (),
) -> Iterator[str]:
    """How to find out how many heads can be pruned.

    Args:
        on: arguments of the assessment.
        num_heads: number of heads of the model.
        score: column of the score that predicts ablation best; None if none does beyond chance.
        size: number of heads that are pruned at once.
        own: names of scores of plug-ins that were measured, which are proposed first.
    """
    keep = between(0, num_heads, size)
    if not keep:
        return
    yield "Next: see how good the model is with fewer heads:"
    by_column = {SCORES[name].column.key: name for name in SCORES.own}
    methods = [by_column[score]] if score in by_column else ["fisher", "gradient"]
    given = vars(on) | vars(on.reading)
    named = [*own, *methods, results.RANDOM]
    yield f"  {curve_command(on.model, given, keep, 'CURVE', named)}"
