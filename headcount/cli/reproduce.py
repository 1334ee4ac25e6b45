"""`headcount reproduce PAPER`: a paper's tables and figures with our numbers beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from headcount import analysis, importance, models, papers, pruning, results
from headcount.cli.arguments import (
    TaskArguments,
    check_data,
    recorded,
)
from headcount.cli.console import Report, plain_console, print_warnings, show_document, shown
from headcount.cli.data_arguments import TrialArguments, check_calibration
from headcount.cli.evolve import Voita2019Evolution
from headcount.cli.folder_arguments import ExperimentArguments
from headcount.cli.importance import print_assessment
from headcount.cli.kobayashi2020 import Kobayashi2020
from headcount.cli.kovaleva2019 import Kovaleva2019
from headcount.cli.probe_papers import Clark2019, Coenen2019, Hewitt2019
from headcount.core import InputError, ResumePolicy
from headcount.corpora import Corpus, check_frequencies
from headcount.importance import DeltaOf, ScoreTest
from headcount.pruning import CALIBRATION

if TYPE_CHECKING:
    from headcount.tasks import Task


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
class PaperArguments(ExperimentArguments, TaskArguments):
    """Arguments of a paper that covers more than pruning."""

    pruning: Annotated[PruningArguments, tyro.conf.arg(name="")] = field(
        default_factory=PruningArguments
    )

    def trial(self) -> TrialArguments:
        """The arguments of the paper's pruning."""
        given = self.pruning
        return TrialArguments(
            **self.shared(),
            dev=given.dev,
            test=given.test,
            seed=given.seed,
            calibration=given.calibration,
        )

    def task_on(self, loaded: "models.Loaded", files: tuple[str, ...]) -> "Task":
        """The task on some files, after its warnings are printed."""
        task = self.built(loaded, files)
        print_warnings(task.warnings(), plain_console())
        return task

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
class Michel2019(PaperArguments):
    """Reproduce "Are Sixteen Heads Really Better than One?": section 3, or 4 and 5 with --prune."""

    other_data: tuple[str, ...] = ()
    """A second data set of the same task: for figure 2, and to measure the best single heads, which
    are chosen on --data."""
    quantity: DeltaOf = "score"
    """Quantity whose change is measured, also with --prune; the paper uses the score, which takes a
    beam search per head in translation."""
    samples: int | None = None
    """Number of swaps or resamples; at least 10,000 swaps by default."""
    score_test: ScoreTest = "randomization"
    """Test of a score's change; sacrebleu is the kind of bootstrap that the paper uses for BLEU."""
    prune: bool = False
    """Instead, prune heads tenth by tenth (section 4), and cut out half of them (table 4)."""

    def run(self) -> int:
        """Ablate on both data sets, or prune, and write the document."""
        if self.prune:
            return self._pruned()
        self.check_no_pruning("--prune")
        self.check()
        check_data(self.other_data)
        self.check_columns(self.other_data)
        folders = [self.out, *([self.out / "other"] if self.other_data else [])]
        for folder in folders:
            importance.claim_importance(folder, self.policy)
        loaded = self.loaded()
        other = self.task_on(loaded, self.other_data) if self.other_data else None
        task = self.task_on(loaded, self.data)
        for folder in folders if self.policy is ResumePolicy.OVERWRITE else ():
            importance.forget_sweep(folder)
        options = importance.Options(
            quantity=self.quantity, samples=self.samples, score_test=self.score_test
        )
        with shown() as progress:
            path = papers.reproduce_michel2019(
                loaded,
                task,
                self.out,
                other=other,
                options=options,
                arguments=recorded(self),
                progress=progress,
                max_tokens=self.max_tokens,
            )
        for folder in reversed(folders):
            print_assessment(folder, plain_console(soft_wrap=False))
        return show_document(path)

    def _pruned(self) -> int:
        self.check_pruning_only("--prune", ("other_data", "samples", "score_test"))
        if self.pruning.tune:
            raise InputError("michel2019 trains nothing, so --tune has no effect. Leave it out.")
        experiment = self.experiment(self.trial())
        with shown() as progress:
            points, facts = papers.michel2019_curve(
                reporting(experiment, progress), self.pruning.keep, self.quantity
            )
        return show_document(
            papers.write_michel2019_pruning(experiment, points, facts, self.quantity)
        )


@dataclass(frozen=True)
class Voita2019(PaperArguments):
    """Reproduce "Analyzing Multi-Head Self-Attention": table 1, figures 1, 2, 3, 5; or table 2."""

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
        """Analyse the treebank and measure relevance, or prune, and write the document."""
        if self.table is not None:
            return self._table2()
        treebank = self._checked_treebank()
        results.claim(self.out, self.policy)
        if not self.overwrite:
            papers.check_only_relevance(self.out)
        loaded = self.loaded()
        if self.resume:  # keeps the scores in the folder
            importance.check_same_scores(self.out, models.revision(loaded.model))
        task = self.task_on(loaded, self.data)
        if self.policy is ResumePolicy.OVERWRITE:
            results.start_over(self.out)
        options = analysis.Options(frequencies=self.frequencies, max_tokens=self.max_tokens)
        with shown() as progress:
            path = papers.reproduce_voita2019(
                loaded,
                task,
                treebank,
                self.out,
                options=options,
                arguments=recorded(self),
                progress=progress,
                keep_scores=self.resume,
            )
        console = plain_console(soft_wrap=False)
        print_warnings(results.read_run(self.out).record.warnings, console)
        print_assessment(self.out, console)
        return show_document(path)

    def _checked_treebank(self) -> Corpus:
        """The treebank, once all arguments are checked that need no model."""
        self.check_no_pruning("--table 2")
        if self.scratch:
            raise InputError("--scratch only affects --table 2. Add --table 2, or leave it out.")
        if self.sweep is not None:
            raise InputError("--sweep only affects --table 2. Add --table 2, or leave it out.")
        self.check_not_given(("num_beams", "tokenize", "metric"), "maps and relevance")
        if not self.treebank:
            raise InputError("Expected a treebank, got none. Name CoNLL-U files with --treebank.")
        self.check()
        if self.frequencies is not None:
            check_data([self.frequencies])
            check_frequencies(self.frequencies)
        return Corpus(
            papers.treebank_files(self.treebank), limit=self.limit, as_words=self.as_words
        )

    def _table2(self) -> int:
        self.check_pruning_only("--table 2", ("treebank", "as_words", "frequencies"))
        tune, scratch = self.pruning.tune, self.scratch
        sweep = papers.SWEEP if self.sweep is None else self.sweep
        check_calibration(self.pruning.calibration, [pruning.preset("voita2019").method])
        # Refused before the model is loaded.
        papers.table2_trainings(self.task, tune, scratch, sweep)
        experiment = self.experiment(self.trial())
        with shown() as progress:
            path = papers.reproduce_voita2019_table2(
                reporting(experiment, progress), self.pruning.keep, tune, scratch, sweep
            )
        return show_document(path)


@dataclass(frozen=True)
class Li2021(ExperimentArguments):
    """Reproduce "Differentiable Subset Pruning of Transformer Heads": methods, equal budgets."""

    on: Annotated[TrialArguments, tyro.conf.arg(name="")]
    keep: tuple[int, ...] = field(kw_only=True)
    """Numbers of kept heads among the prunable ones (see --site): one point each."""
    tune: tuple[str, ...] = ()
    """Set fields of the trainings with gates, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""

    def run(self) -> int:
        """Run every method under every budget."""
        papers.li2021_methods(self.tune, self.on.task)  # refused before the model is loaded
        experiment = self.experiment(self.on)
        with shown() as progress:
            path = papers.reproduce_li2021(reporting(experiment, progress), self.keep, self.tune)
        return show_document(path)


@dataclass(frozen=True)
class Reproduce:
    """Print a paper's tables and figures with our numbers beside the published ones."""

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


def reporting(
    experiment: "papers.PruningExperiment", progress: Report
) -> "papers.PruningExperiment":
    """The same experiment, which reports its progress."""
    return replace(experiment, settings=replace(experiment.settings, progress=progress))
