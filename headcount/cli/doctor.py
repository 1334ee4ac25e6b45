"""`headcount doctor`: what works for a model and what does not."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Column, Table
from rich.text import Text

from headcount.cli.arguments import DeviceArguments
from headcount.cli.console import plain_console
from headcount.cli.frame import Command


@dataclass(frozen=True)
class Doctor(DeviceArguments, Command):
    """Report what works for a model, before anything runs."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A Hugging Face name, a folder, or headcount:en-de."""

    def run(self) -> int:
        """Print the findings; exit status 1 if the model can't be analysed."""
        from headcount.doctor import diagnose  # a module, not an index: importing it is slow

        findings = diagnose(self.model, self.device, self.dtype, self.trust_remote_code)
        table = Table("", "", Column(overflow="fold"), box=None, pad_edge=False, show_header=False)
        for finding in findings:
            mark = Text("works", "green") if finding.works else Text("does not", "red")
            table.add_row(mark, finding.subject, finding.text)
        plain_console(soft_wrap=False).print(table)
        return 0 if all(each.works or not each.is_required for each in findings) else 1
