"""The folder of a run's results, and what happens to an earlier run in it."""

from dataclasses import dataclass, field
from pathlib import Path

from headcount import papers
from headcount.cli.arguments import recorded
from headcount.cli.console import plain_console, print_warnings
from headcount.cli.data_arguments import TrialArguments
from headcount.core import ResumePolicy, claim, silent
from headcount.results import Curve


@dataclass(frozen=True)
class FolderArguments:
    """Arguments of commands that write into a folder and can be resumed."""

    out: Path = field(kw_only=True)
    """Folder for the results."""
    resume: bool = field(default=False, kw_only=True)
    """Resume an interrupted run in --out."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run in --out."""

    @property
    def policy(self) -> ResumePolicy:
        """What to do with an earlier run in --out."""
        return ResumePolicy.of(self.resume, self.overwrite)


@dataclass(frozen=True)
class ExperimentArguments(FolderArguments):
    """Arguments of a reproduction that prunes."""

    def experiment(self, on: TrialArguments) -> "papers.PruningExperiment":
        """Claim the folder, then load the model and its data."""
        on.check()
        claim(self.out, Curve.files(), self.out / "state", self.policy)
        loaded = on.loaded()
        splits = on.splits(loaded)
        print_warnings(splits.warnings, plain_console(soft_wrap=False))
        settings = on.settings(None, silent)
        return papers.PruningExperiment(loaded, splits, self.out, settings, recorded(self))
