"""`headcount sample`: our own texts, treebank, translations and prompts as files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headcount.cli.console import plain_console
from headcount.cli.frame import Command
from headcount.cli.next_steps import command
from headcount.core import DATA, InputError, amount, check_is_folder, write_text

PARTS = ("train.tsv", "dev.tsv", "test.tsv")
"""Data sets of which each gets every third pair of the translations."""


@dataclass(frozen=True)
class Sample(Command):
    """Write our own small data sets as files."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """A new folder, or one that holds these files already."""

    def run(self) -> int:
        """Write all files, or none if one is there with other contents."""
        check_is_folder(self.folder)
        written = {self.folder / name: text for name, text in data_sets().items()}
        for path, text in written.items():
            if path.exists() and path.read_bytes() != text.encode():
                raise InputError(
                    f"Expected a new folder, but {path} is there and is not the file that would "
                    "be written. Name another folder."
                )
        for path, text in written.items():
            write_text(path, text)
        console = plain_console()
        about = f"{self.folder / 'README.md'} says what they are"
        console.print(f"Wrote {amount(len(written), 'file')}; {about}")
        next_step = command("analyze", ["MODEL"], {}, self.folder / "sample.conllu", "--out", "OUT")
        console.print(f"Next: {next_step}")
        return 0


def data_sets() -> dict[str, str]:
    """The texts of our data sets, by the path of each in the folder of all."""
    models = {path.parent for path in DATA.rglob("config.json")}
    found = {
        path.relative_to(DATA).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(DATA.rglob("*.*"))
        if models.isdisjoint(path.parents)
    }
    pairs = found["sample.tsv"].splitlines(keepends=True)
    parts = ("".join(pairs[n :: len(PARTS)]) for n in range(len(PARTS)))
    return found | dict(zip(PARTS, parts, strict=True))
