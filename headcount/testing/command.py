"""The command that checks whatever a plug-in adds."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from headcount.commands import Command, plain_console, print_document
from headcount.core import (
    DATA,
    CheckRecord,
    InputError,
    Origin,
    PluginError,
    Registry,
    listing,
    origin_named,
    registries,
)

if TYPE_CHECKING:
    from headcount.testing.checks import Checked


TEMPLATES = DATA / "templates"
"""A file to begin with for each of `Template`."""
Template = Literal[
    "relation", "trait", "measure", "score", "effect", "task", "method", "skill", "command"
]


@dataclass(frozen=True)
class Check(Command):
    """The arguments of `headcount check`."""

    plugin: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PLUGIN")] = ""
    """A file (my.py), the name of an installed package, or a folder for an atlas."""
    template: Template | None = None
    """Print a file to begin with, which passes its checks, in place of checking one."""
    names: tuple[str, ...] = ()
    """Names of what to check; everything that the plug-in adds by default."""
    data: tuple[str, ...] = ()
    """Files in place of our English sample: texts that have the links of a relation, or the words
    of a trait; what a skill or a task reads."""
    expect: tuple[str, ...] = ()
    """Checks that may fail, as CHECK=REASON; if one of them passes, that counts as a failure."""

    def run(self) -> int:
        """Run every check and print what it saw; exit status 1 if one fails."""
        if self.template:
            print((TEMPLATES / f"{self.template}.py.txt").read_text(), end="")
            return 0
        if not self.plugin:
            raise InputError(
                "Expected a plug-in to check (my.py, or an installed package), got none. To write "
                "one, begin with `headcount check --template score > my.py`."
            )
        if Path(self.plugin).is_dir():
            return _check_run(Path(self.plugin))
        expected = dict(map(_reason, self.expect))
        with listing([self.plugin]):
            origin = origin_named(self.plugin)
            added = [
                (registry, name)
                for registry, name in _added(origin)
                if not self.names or name in self.names
            ]
            if lost := sorted({*self.names} - {name for _, name in added}):
                raise InputError(
                    f"Expected names of what {origin} adds, got {', '.join(lost)}. It adds "
                    f"{', '.join(name for _, name in _added(origin)) or 'nothing'}."
                )
            if not added:
                raise InputError(
                    f"Expected a plug-in that adds something, got {origin}, which registers "
                    "nothing. Write @headcount.register above its classes."
                )
            return self._check(origin, added, expected)

    def _check(
        self, origin: Origin, added: list[tuple[Registry[Any], str]], expected: dict[str, str]
    ) -> int:
        record, console = CheckRecord(str(origin)), plain_console(soft_wrap=False)
        unknown = {*expected}
        for registry, name in added:
            try:
                found = _checked(registry[name], expected, self.data)
            except PluginError as error:
                console.print(str(error), style="red", soft_wrap=True)
                record = record.plus(failed=1)
                continue
            if found is None:
                console.print(f"{registry.noun} has no checks: {name}")
                continue
            document = found.document()
            console.print(document.title, style="bold")
            print_document(document, console)
            states = [each.state for each in found.outcomes]
            unknown -= {each.name for each in found.outcomes}
            record = record.plus(
                passed=states.count("passed") + states.count("expected"),
                failed=states.count("failed"),
                left_out=states.count("left out"),
            )
        if unknown:
            raise InputError(
                f"Expected checks out of the tables above, got {', '.join(sorted(unknown))}. "
                "Correct --expect."
            )
        if not self.names:
            record.write()
        console.print(f"{origin}: {record.sentence}")
        return 1 if record.failed else 0


def _check_run(folder: Path) -> int:
    """Print what a folder lacks for an atlas; exit status 1 if that is anything."""
    from headcount.atlas import missing  # only here: it needs pandas

    console, found = plain_console(soft_wrap=True), missing(folder)
    for sentence in found:
        console.print(sentence, style="red")
    if not found:
        console.print(f"{folder} can be added to an atlas.")
    return 1 if found else 0


def _added(origin: Origin) -> Iterator[tuple[Registry[Any], str]]:
    """Everything that a plug-in adds: the registry, and the name."""
    for registry in registries():
        for name in registry:
            if registry.origin(name) == origin:
                yield registry, name


def _checked(thing: Any, expected: dict[str, str], data: tuple[str, ...]) -> "Checked | None":
    """What became of the checks of a thing; None if its family has none."""
    from headcount.testing.checking import FAMILIES, checked  # only here: it needs torch

    if (family := FAMILIES.get(thing.registry)) is None:
        return None
    names = {each.name for each in family.checks}
    expected = {name: why for name, why in expected.items() if name in names}
    if not data:
        return checked(thing, expected)
    if not family.takes_data:
        takes = ", ".join(each.noun for each in FAMILIES.values() if each.takes_data)
        raise InputError(
            f"Expected something that is checked on data ({takes}), got the {family.noun} "
            f"{thing.name}. Leave --data out, or name what it is for with --names."
        )
    return checked(thing, expected, data=[*data])


def _reason(given: str) -> tuple[str, str]:
    """The name of a check and why it fails."""
    name, equals, reason = given.partition("=")
    if not (name and equals and reason):
        raise InputError(f"Expected CHECK=REASON for --expect, got {given!r}.")
    return name, reason
