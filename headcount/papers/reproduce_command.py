"""`headcount reproduce PAPER`: a paper's tables and figures with our numbers beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from headcount import analysis, importance, models, papers, pruning, results, tasks
from headcount.commands import (
    Command,
    Flat,
    Measuring,
    PaperCommand,
    Report,
    ResumableArguments,
    TaskArguments,
    check_data,
    document_of,
    field_values,
    plain_console,
    print_document,
    print_warnings,
    recorded,
    show_comparison,
)
from headcount.core import Document, InputError, ResumePolicy, claim, start_over
from headcount.corpora import Corpus, check_frequencies
from headcount.importance import DeltaOf, ScoreTest
from headcount.papers.paper_commands import (
    Clark2019,
    Coenen2019,
    Hewitt2019,
    Kobayashi2020,
    Kovaleva2019,
    Voita2019Evolution,
)
from headcount.pruning import CALIBRATION, TrialArguments, check_calibration
from headcount.training import FinetuneConfig


def _print_assessment(folder: Path, console: Console) -> None:
    print_document(document_of(importance.Assessment.read(folder)), console)


@dataclass(frozen=True)
class PruningArguments:
    """Arguments for pruning, where heads are chosen on --data."""

    dev: tuple[str, ...] = ()
    """Pruning: files to measure models on."""
    test: tuple[str, ...] = ()
    """Pruning: held-out files to measure models on."""
    keep: tuple[int, ...] = ()
    """Pruning: total numbers of heads to keep; the paper's shares by default."""
    tune: tuple[str, ...] = ()
    """Pruning: set fields of training with gates, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""
    seed: int = 0
    """Pruning: seed of everything random."""
    calibration: int = CALIBRATION
    """Pruning: number of examples drawn from --data to score heads on without training."""


@dataclass(frozen=True)
class Experiment(
    ResumableArguments,
    Measuring["tuple[models.Loaded, tasks.TaskSplits]", "tuple[papers.PruningExperiment, Any]"],
):
    """What papers that prune do."""

    trial: TrialArguments
    """The model, its data, and what may be pruned."""
    arguments: Mapping[str, Any]
    """Arguments of the command, for the record."""
    document: str
    """Name of the document's file in --out."""
    prune: "Callable[[papers.PruningExperiment], Any]"
    """Measures the points, and makes the document unless `shown` does."""
    shown: "Callable[[papers.PruningExperiment, Any], Document]" = lambda _, found: found
    """Makes the document about the points, once no progress is shown."""

    def check(self) -> None:
        """Check everything that needs no model."""
        self.trial.check()

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or holds a curve that is resumed or replaced."""
        claim(self.out, results.Curve.files(), self.out / "state", policy)

    def start_over(self) -> None:
        """Delete the points so far of an earlier run."""
        start_over(self.out / "state")

    def prepare(self) -> "tuple[models.Loaded, tasks.TaskSplits]":
        """Load the model and its data."""
        loaded = self.trial.load()
        return loaded, self.trial.splits(loaded)

    def measure(
        self, read: "tuple[models.Loaded, tasks.TaskSplits]", progress: Report
    ) -> "tuple[papers.PruningExperiment, Any]":
        """Measure every point."""
        settings = self.trial.settings(None, progress)
        experiment = papers.PruningExperiment(*read, self.out, settings, self.arguments)
        return experiment, self.prune(experiment)

    def show(self, read: object, found: "tuple[papers.PruningExperiment, Any]") -> None:
        """Write and print the document."""
        show_comparison(self.shown(*found), self.out / self.document)


@dataclass(frozen=True)
class PaperArguments(ResumableArguments, TaskArguments):
    """Arguments of a paper that covers more than pruning."""

    pruning: Flat[PruningArguments] = field(default_factory=PruningArguments)

    def experiment(
        self, document: str, prune: "Callable[[papers.PruningExperiment], Any]"
    ) -> Experiment:
        """The paper's pruning, and the name of its document."""
        given = self.pruning
        trial = TrialArguments(
            **self.shared(),
            dev=given.dev,
            test=given.test,
            seed=given.seed,
            calibration=given.calibration,
        )
        folder = {"out": self.out, "resume": self.resume, "overwrite": self.overwrite}
        what = {"arguments": recorded(self), "document": document, "prune": prune}
        return Experiment(trial=trial, **what, **folder)

    def check_no_pruning(self, option: str) -> None:
        """Raise an error for pruning arguments without the option that pruning needs.

        Raises:
            InputError: If an argument would have no effect.
        """
        if self.pruning != PruningArguments():
            raise InputError(
                "--dev, --test, --keep, --tune, --seed and --calibration only affect pruning. "
                f"Add {option}, or leave them out."
            )

    def check_pruning_only(self, option: str, names: Sequence[str]) -> None:
        """Raise an error for arguments that pruning does not use.

        Raises:
            InputError: If an argument would have no effect, or the development set is missing.
        """
        if not self.pruning.dev:
            raise InputError(f"{option} needs a development set. Name one with --dev.")
        self.check_not_given(names, option)

    def check_not_given(self, names: Sequence[str], part: str) -> None:
        """Raise an error if any of some options is not at its default.

        Raises:
            InputError: If an option would have no effect.
        """
        for name in names:
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(
                    f"--{name.replace('_', '-')} does not affect {part}. Leave it out."
                )


@dataclass(frozen=True)
class Michel2019(PaperArguments, PaperCommand["tuple[models.Loaded, list[tasks.Task]]"]):
    """Reproduce "Are Sixteen Heads Really Better than One?": section 3, or 4 and 5 with --prune."""

    DOCUMENT = "michel2019.md"

    other_data: tuple[str, ...] = ()
    """A second data set of the same task: for figure 2, and to measure the best single heads, which
    are chosen on --data."""
    quantity: DeltaOf = "score"
    """Quantity whose change is measured, also with --prune; the paper uses the score, which takes a
    beam search per head in translation."""
    samples: int | None = None
    """Number of swaps or resamples; at least 10000 swaps by default."""
    score_test: ScoreTest = "randomization"
    """Test of a score's change; sacrebleu is the kind of bootstrap that the paper uses for BLEU."""
    prune: bool = False
    """Instead, prune heads tenth by tenth (section 4), and cut out half of them (table 4)."""

    def run(self) -> int:
        """Ablate on both data sets, or prune."""
        return self._pruned() if self.prune else super().run()

    def check(self) -> None:
        """Check everything that needs no model."""
        self.check_no_pruning("--prune")
        super().check()
        check_data(self.other_data)
        self.check_columns(self.other_data)

    @property
    def folders(self) -> list[Path]:
        """The folder of each data set's assessment."""
        return [self.out, *([self.out / "other"] if self.other_data else [])]

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folders are new, or hold assessments that are resumed or replaced."""
        for folder in self.folders:
            importance.claim_importance(folder, policy)

    def prepare(self) -> "tuple[models.Loaded, list[tasks.Task]]":
        """Load the model, and the task on the second data set, if any, and on the first."""
        loaded, files = self.load(), [self.other_data] if self.other_data else []
        return loaded, [self.task_on(loaded, each) for each in [*files, self.data]]

    def start_over(self) -> None:
        """Delete the losses so far of earlier assessments."""
        for folder in self.folders:
            importance.forget_sweep(folder)

    def measure(self, read: "tuple[models.Loaded, list[tasks.Task]]", progress: Report) -> Document:
        """Ablate on both data sets."""
        loaded, (*other, task) = read
        return papers.reproduce_michel2019(
            loaded,
            task,
            self.out,
            other=other[0] if other else None,
            options=importance.Options(
                quantity=self.quantity, samples=self.samples, score_test=self.score_test
            ),
            arguments=recorded(self),
            progress=progress,
            max_tokens=self.max_tokens,
        )

    def show(self, read: "tuple[models.Loaded, list[tasks.Task]]", found: Document) -> None:
        """Print the assessments; write and print the document."""
        console = plain_console(soft_wrap=False)
        for folder in reversed(self.folders):
            _print_assessment(folder, console)
        super().show(read, found)

    def _pruned(self) -> int:
        self.check_pruning_only("--prune", ("other_data", "samples", "score_test"))
        if self.pruning.tune:
            raise InputError("michel2019 trains nothing, so --tune has no effect. Leave it out.")
        keep, quantity = self.pruning.keep, self.quantity
        experiment = self.experiment(
            "michel2019_pruning.md", lambda given: papers.michel2019_curve(given, keep, quantity)
        )
        return replace(experiment, shown=partial(papers.timed_document, quantity=quantity)).run()


@dataclass(frozen=True)
class Voita2019(PaperArguments, PaperCommand["tuple[models.Loaded, tasks.Task]"]):
    """Reproduce "Analyzing Multi-Head Self-Attention": table 1, figures 1, 2, 3, 5; or table 2."""

    DOCUMENT = "voita2019.md"

    limit: int | None = None
    """Largest number of examples of each data set and of treebank sentences; all by default."""
    treebank: tuple[Path, ...] = ()
    """CoNLL-U files of the source language, or folders of them; required except for table 2."""
    as_words: bool = False
    """Read the treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""
    table: Literal[2] | None = None
    """Reproduce table 2 instead: prune, and train the same heads from scratch."""
    scratch: tuple[str, ...] = ()
    """Table 2: set fields of training from scratch, as NAME=VALUE, e.g. updates=9000 peak=1e-3."""
    sweep: int | None = None
    """Table 2: largest number of penalties tried for a budget, 8 by default; 0 trains once for each
    budget, with a penalty that grows until the budget is met."""
    frequencies: Path | None = None
    """File of `word count` lines that defines rare words; by default counted on the treebank."""

    def run(self) -> int:
        """Analyse the treebank and measure relevance, or prune."""
        return super().run() if self.table is None else self._table2()

    def check(self) -> None:
        """Check everything that needs no model, the treebank included."""
        self.check_no_pruning("--table 2")
        if self.scratch:
            raise InputError("--scratch only affects --table 2. Add --table 2, or leave it out.")
        if self.sweep is not None:
            raise InputError("--sweep only affects --table 2. Add --table 2, or leave it out.")
        self.check_not_given(("num_beams", "tokenize", "metric"), "maps and relevance")
        if not self.treebank:
            raise InputError("Expected a treebank, got none. Name CoNLL-U files with --treebank.")
        super().check()
        if self.frequencies is not None:
            check_data([self.frequencies])
            check_frequencies(self.frequencies)
        self.texts  # noqa: B018

    @cached_property
    def texts(self) -> Corpus:
        """The treebank."""
        files = papers.treebank_files(self.treebank)
        return Corpus(files, limit=self.limit, as_words=self.as_words)

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or holds a run that is resumed or replaced."""
        results.claim(self.out, policy)
        if policy is not ResumePolicy.OVERWRITE:
            papers.check_only_relevance(self.out)

    def prepare(self) -> "tuple[models.Loaded, tasks.Task]":
        """Load the model and the task; scores that stay in the folder are of the same model."""
        loaded = self.load()
        if self.resume:
            results.check_same_scores(self.out, models.revision(loaded.model))
        return loaded, self.task_on(loaded, self.data)

    def start_over(self) -> None:
        """Delete the sums of an earlier run."""
        results.start_over(self.out)

    def measure(self, read: "tuple[models.Loaded, tasks.Task]", progress: Report) -> Document:
        """Analyse the treebank and measure relevance."""
        loaded, task = read
        return papers.reproduce_voita2019(
            loaded,
            task,
            self.texts,
            self.out,
            options=analysis.Options(frequencies=self.frequencies, max_tokens=self.max_tokens),
            arguments=recorded(self),
            progress=progress,
            keep_scores=self.resume,
        )

    def show(self, read: "tuple[models.Loaded, tasks.Task]", found: Document) -> None:
        """Print the warnings and the scores; write and print the document."""
        console = plain_console(soft_wrap=False)
        print_warnings(results.RunRecord.read(self.out).warnings, console)
        _print_assessment(self.out, console)
        super().show(read, found)

    def _table2(self) -> int:
        self.check_pruning_only("--table 2", ("treebank", "as_words", "frequencies"))
        tune = field_values(FinetuneConfig, self.pruning.tune)
        scratch = field_values(FinetuneConfig, self.scratch)
        sweep = papers.SWEEP if self.sweep is None else self.sweep
        check_calibration(self.pruning.calibration, [pruning.voita2019((), self.task)])
        # Refused before the model is loaded.
        papers.table2_trainings(self.task, tune, scratch, sweep)
        keep = self.pruning.keep
        return self.experiment(
            "voita2019_table2.md",
            lambda given: papers.reproduce_voita2019_table2(given, keep, tune, scratch, sweep),
        ).run()


@dataclass(frozen=True)
class Li2021(ResumableArguments, Command):
    """Reproduce "Differentiable Subset Pruning of Transformer Heads": methods, equal budgets."""

    on: Flat[TrialArguments]
    keep: tuple[int, ...] = field(kw_only=True)
    """Numbers of kept heads among the prunable ones (see --site): one point each."""
    tune: tuple[str, ...] = ()
    """Set fields of the trainings with gates, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""

    def run(self) -> int:
        """Run every method under every budget."""
        tune = field_values(FinetuneConfig, self.tune)
        papers.li2021_methods(tune, self.on.task)  # refused before the model is loaded
        return Experiment(
            out=self.out,
            resume=self.resume,
            overwrite=self.overwrite,
            trial=self.on,
            arguments=recorded(self),
            document="li2021.md",
            prune=lambda given: papers.reproduce_li2021(given, self.keep, tune),
        ).run()


@dataclass(frozen=True)
class Reproduce(Command):
    """The arguments of `headcount reproduce`."""

    HAS_TABLES = True

    paper: tyro.conf.OmitArgPrefixes[
        tyro.conf.OmitSubcommandPrefixes[
            Annotated[Michel2019, tyro.conf.subcommand("michel2019")]
            | Annotated[Voita2019, tyro.conf.subcommand("voita2019")]
            | Annotated[Li2021, tyro.conf.subcommand("li2021")]
            | Annotated[Clark2019, tyro.conf.subcommand("clark2019")]
            | Annotated[Coenen2019, tyro.conf.subcommand("coenen2019")]
            | Annotated[Hewitt2019, tyro.conf.subcommand("hewitt2019")]
            | Annotated[Kobayashi2020, tyro.conf.subcommand("kobayashi2020")]
            | Annotated[Kovaleva2019, tyro.conf.subcommand("kovaleva2019")]
            | Annotated[Voita2019Evolution, tyro.conf.subcommand("voita2019evolution")]
        ]
    ]

    @property
    def out(self) -> Path:
        """Folder for the results."""
        return self.paper.out

    def run(self) -> int:
        """Run the paper's own command."""
        return self.paper.run()
