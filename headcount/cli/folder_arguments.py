"""The folder of a run's results, and what happens to an earlier run in it."""

from dataclasses import dataclass, field
from pathlib import Path

from headcount import importance, models
from headcount.cli.arguments import ModelArguments


@dataclass(frozen=True)
class OutArguments:
    """The folder of a run."""

    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --overwrite is given."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run in --out."""


@dataclass(frozen=True)
class ResumableArguments(OutArguments):
    """The folder of a run that can be resumed."""

    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --resume or --overwrite is given."""
    resume: bool = field(default=False, kw_only=True)
    """Resume an interrupted run in --out; nothing is measured twice."""


@dataclass(frozen=True)
class BesideArguments(ModelArguments):
    """A model, and a folder for results that may lie beside its analysis."""

    out: Path = field(kw_only=True)
    """Folder for the results: new, or the folder of an analysis of this model."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run of this command in --out."""

    def load(self) -> "models.Loaded":
        """Load the model, and check that any analysis in `out` is of exactly this model."""
        loaded = super().load()
        importance.check_same_model(self.out, loaded.heads, models.revision(loaded.model))
        return loaded
