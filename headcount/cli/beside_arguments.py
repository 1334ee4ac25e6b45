"""Arguments of commands that write into a folder of their own or into that of an analysis."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headcount import importance, models, reports, results
from headcount.cli.arguments import ModelArguments
from headcount.cli.console import plain_console
from headcount.core import ResumePolicy


@dataclass(frozen=True)
class BesideArguments(ModelArguments):
    """The folder of a command whose results may lie beside an analysis."""

    out: Path = field(kw_only=True)
    """Folder for the results: new, or the folder of an analysis of this model."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run of this command in --out."""

    def claim(
        self, kind: "type[results.Result[Any]]", what: str, resume: bool | None = None
    ) -> None:
        """Check that the command may write into `out`.

        Args:
            kind: The command's result.
            what: What they hold, in one word.
            resume: Whether an interrupted run is resumed; None if the command starts over.
        """
        policy = ResumePolicy.of(resume or False, self.overwrite)
        results.claim_beside(self.out, kind, what, policy, resumes=resume is not None)

    def loaded_beside(self) -> "models.Loaded":
        """The model, after a check that any analysis in `out` is of exactly this model."""
        loaded = self.loaded()
        importance.check_same_model(self.out, loaded.heads, models.revision(loaded.model))
        return loaded

    def finish(self, document: Path) -> int:
        """Rewrite the report of an analysis in `out`, and print where the document is."""
        if (self.out / "run.json").exists():
            reports.write_report(self.out)
        plain_console().print(f"Tables and figures: {document}")
        return 0


@dataclass(frozen=True)
class ParallelArguments(BesideArguments):
    """Arguments of a command that also reads parallel text in two files."""

    source: Path | None = field(default=None, kw_only=True)
    """Source side of parallel text (.txt or .conllu)."""
    target: Path | None = field(default=None, kw_only=True)
    """Target side, line by line."""
