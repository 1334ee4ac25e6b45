"""`headcount report`: the report and figures of a finished run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from headcount import models, reports, results
from headcount.cli.command import COMMANDS, command_class
from headcount.cli.console import plain_console, print_document
from headcount.cli.documents import FORMATS, FigureFormat, document_of
from headcount.cli.frame import Command, ResultCommand
from headcount.cli.importance import rewrite_page
from headcount.core import amount, check_is_folder
from headcount.results import check_is_run


@dataclass(frozen=True)
class Report(Command):
    """Rewrite the report of a finished run, and its figures."""

    HAS_TABLES = True

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder of the run."""
    formats: tuple[FigureFormat, ...] = FORMATS
    """Formats of the figures, which are written into `figures/`."""
    pruned: Path | None = None
    """Model pruned from this one, a folder or headcount:en-de-36, to show before and after."""
    confirm: Path | None = None
    """Folder of an analysis of the same model on other texts, to show which roles are found again;
    writes confirmation.md."""

    def run(self) -> int:
        """Write the report and figures, and print where they are."""
        check_is_folder(self.out)
        console = plain_console(soft_wrap=False)
        written = [
            command.RESULT
            for command in map(command_class, COMMANDS)
            if issubclass(command, ResultCommand)
            and command.RESULT is not None
            and (self.out / command.RESULT.files()[-1]).exists()
        ]
        has_analysis = (self.out / results.RunRecord.FILE).exists()
        has_scores = (self.out / results.ImportanceRecord.FILE).exists()
        if has_scores and not has_analysis:
            console.print(f"Page: {rewrite_page(self.out)}", soft_wrap=True)
        if has_analysis or not (written or has_scores) or self.pruned or self.confirm:
            check_is_run(self.out)
            self._confirm(console)
            pruned = None if self.pruned is None else Path(models.place_of(str(self.pruned)))
            page = reports.write_report(self.out, pruned, self.confirm)
            console.print(f"Report: {page}", soft_wrap=True)
            reports.write_figures(self.out, self.formats)
        for kind in written:
            found = kind.read(self.out)
            shown, page = document_of(found, self.out), self.out / kind.DOCUMENTS[1]
            if isinstance(found, results.Explained) and found.shows_text and page.exists():
                shown.write(self.out / kind.DOCUMENTS[0], self.formats)  # its page needs the model
            else:
                reports.write_documents(found, shown, self.out, self.formats)
            console.print(f"Page: {page}", soft_wrap=True)
        if drawn := [*(self.out / "figures").glob("*")]:
            number = amount(len(drawn), "figure")
            console.print(f"{number} in {self.out / 'figures'}", soft_wrap=True)
        return 0

    def _confirm(self, console: Console) -> None:
        """Print and write which roles the analysis in --confirm finds again."""
        if self.confirm is None:
            return
        check_is_run(self.confirm)
        runs = [results.Analysis.read(folder) for folder in (self.out, self.confirm)]
        shown, path = (
            reports.confirmation_document(results.confirm(*runs)),
            self.out / results.CONFIRMATION,
        )
        print_document(shown, console)
        shown.write(path, self.formats)
        console.print(f"Document: {path}", soft_wrap=True)
