"""Shared parts of pruning reproductions: their arguments, and a curve in a folder."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import tyro

from headcount import models, pruning, reports, tasks
from headcount.cli.console import plain_console, print_markdown, to_jsonable
from headcount.cli.data_arguments import TrialArguments
from headcount.cli.progress import Report, shown
from headcount.cli.task_arguments import TaskArguments, print_warnings
from headcount.core import Head, InputError, claim, write_text
from headcount.pruning import CALIBRATION
from headcount.reports import FILES

if TYPE_CHECKING:
    import pandas as pd

    from headcount.core import Plan


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
class FolderArguments:
    """Arguments of every reproduction."""

    out: Path = field(kw_only=True)
    """Folder for the results."""
    resume: bool = field(default=False, kw_only=True)
    """Resume an interrupted run in --out."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run in --out."""


@dataclass(frozen=True)
class PaperArguments(FolderArguments, TaskArguments):
    """Arguments of a paper that covers more than pruning."""

    pruning: tyro.conf.OmitArgPrefixes[PruningArguments] = field(default_factory=PruningArguments)

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


@final
@dataclass(frozen=True, eq=False)
class Experiment:
    """Pruned models under several budgets, with a folder for the results."""

    on: TrialArguments
    out: Path
    loaded: "models.Loaded"
    splits: "tasks.TaskSplits"
    """The task on all data sets."""
    made_by: str
    """Methods and trainings with their options."""
    arguments: dict[str, Any]
    """Arguments of the command."""

    @classmethod
    def claimed(cls, command: FolderArguments, on: TrialArguments, made_by: str) -> "Experiment":
        """The model and its tasks, once the folder is claimed.

        Args:
            command: Folder, and what to do with an earlier run there.
            on: Model and data.
            made_by: Methods and trainings with their options.
        """
        on.check()
        out = command.out
        claim(out, FILES, out / "state", command.resume, command.overwrite)
        loaded = on.loaded()
        splits = on.splits(loaded)
        print_warnings(splits.warnings, plain_console(soft_wrap=False))
        return cls(on, out, loaded, splits, made_by, to_jsonable(asdict(command)))

    @classmethod
    def of(cls, paper: PaperArguments, made_by: str) -> "Experiment":
        """The experiment of a paper's arguments, which name a development set."""
        pruning = paper.pruning
        on = TrialArguments(
            **paper.shared(),
            dev=pruning.dev,
            test=pruning.test,
            seed=pruning.seed,
            calibration=pruning.calibration,
        )
        return cls.claimed(paper, on, made_by)

    @cached_property
    def units(self) -> "pruning.Units":
        """The units that may be pruned."""
        return self.on.units(self.loaded)

    @cached_property
    def facts(self) -> "reports.CurveFacts":
        """The facts about all points; their signature covers everything they depend on."""
        dev = self.splits.dev
        return reports.CurveFacts(
            self.loaded.heads,
            dev.metric,
            dev.higher_is_better,
            self.splits.warnings,
            self.signed(self.made_by),
        )

    def signed(self, made_by: str) -> str:
        """The signature of points made this way; `arguments` holds the options in full."""
        by = hashlib.sha256(made_by.encode()).hexdigest()[:12]
        return f"{self.on.signature(self.loaded, self.splits)}|by:{by}"

    def trial(self, progress: Report) -> "pruning.Trial":
        """The setting in which every point is measured."""
        settings, splits = self.on.settings(self.out / "state", progress), self.splits
        context = settings.context(self.loaded, splits.train)
        return pruning.Trial(context, splits.dev, splits.test)

    def curve(
        self, methods: Mapping[str, "pruning.Method"], keeps: Sequence[int], seeds: Sequence[int]
    ) -> "pd.DataFrame":
        """All points, after writing them with their document and figures."""
        with shown() as progress:
            trial = self.trial(progress)
            frame = pruning.curve(trial, methods, keeps, seeds, self.facts.signature)
        self.write(frame, methods)
        return frame

    def write(self, frame: "pd.DataFrame", methods: Mapping[str, "pruning.Method"]) -> None:
        """Write the files of the curve."""
        updates = {name: tuning.updates for name, tuning in pruning.trained(methods).items()}
        facts = replace(self.facts, updates=updates)
        reports.write_curve(frame, facts, self.out, self.arguments)

    def reported(self, name: str, text: str) -> int:
        """Write the document and show it."""
        write_text(self.out / name, text)
        show_document(self.out / name)
        return 0


def show_document(path: Path) -> None:
    """Print a paper's tables with our numbers, and the path of the document."""
    console = plain_console(soft_wrap=False)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    print_markdown("".join(line for line in lines if not line.startswith("![")), console)
    console.print(f"Comparison with the paper: {path}", soft_wrap=True)


def plan_at(frame: "pd.DataFrame", method: str, keep: int, loaded: "models.Loaded") -> "Plan":
    """The plan of one point of a method that does not change the weights."""
    row = frame[(frame["method"] == method) & (frame["keep"] == keep)].iloc[0]
    stay = map(Head.parse, str(row["heads"]).split())
    return models.plan_for(loaded, stay)
