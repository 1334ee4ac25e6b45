"""The command `headcount atlas`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headcount import atlas
from headcount.commands import Command, plain_console
from headcount.core import amount, check_is_folder
from headcount.results import check_is_run


@dataclass(frozen=True)
class AtlasCommand(Command):
    """The arguments of `headcount atlas`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Folders of analyses, of different models or of one on different texts."""
    out: Path = Path("headcount-atlas")
    """Folder for the site; an earlier one in it is replaced."""

    def run(self) -> int:
        """Write the site, and print what it holds."""
        for folder in self.runs:
            check_is_run(folder)
        check_is_folder(self.out)
        found = atlas.write_atlas(self.runs, self.out)
        heads = amount(sum(len(each.heads) for each in found.models), "head")
        shown = f"{heads} of {amount(len(found.models), 'run')}"
        plain_console(soft_wrap=True).print(f"Atlas: {self.out / 'index.html'}, {shown}")
        return 0
