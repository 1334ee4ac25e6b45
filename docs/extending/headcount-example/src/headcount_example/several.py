"""A command, and a section of the page: which heads have several roles?"""

from dataclasses import dataclass
from pathlib import Path

import headcount
from headcount.commands import Command, plain_console, print_document
from headcount.core import Capability, Document, Section, Table


@dataclass(frozen=True)
class Several(Command):
    out: Path
    """Folder of an analysis."""

    def run(self):
        print_document(document(headcount.Analysis.read(self.out)), plain_console())
        return 0


def document(run):
    rows = [(row.head, ", ".join(row.roles)) for row in run.rows if len(row.roles) > 1]
    return Document("Heads with several roles", (Table.of(("head", "roles"), rows),))


section = Section("several-roles", "several roles", 300, f"{__name__}:document")
about = {"group": "More", "sentence": "List the heads that have several roles."}
SEVERAL = headcount.register(
    Capability(name="several", **about, command=f"{__name__}:Several", sections=(section,))
)
