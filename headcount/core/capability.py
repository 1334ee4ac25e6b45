"""The manifest of a capability: what its command is called, and where its parts are.

A capability is a folder: a command, its result, the document that shows it, and what it measures
with. The manifest says in text where these are, so that `--help`, pages, folders and docs list a
capability without importing it. Ours are listed in `headcount.capabilities`; those of plug-ins are
registered, or entry points of the group `headcount.commands`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, final

from headcount.core.errors import InputError
from headcount.core.registry import Registry, imported

LIST = "headcount.capabilities"
"""The module that lists our own capabilities; nothing in the core imports it before it is asked."""


@final
@dataclass(frozen=True)
class Section:
    """A section on the page of an analysis."""

    key: str
    """Id of the section, which links end in."""
    short: str
    """Name in the contents list."""
    place: int
    """Where it is: sections are in the order of their places."""
    document: str = ""
    """Function of the analysis that returns its document, or None without any, as
    "module:attribute"; by default the document of the capability's result beside the analysis."""


@final
@dataclass(frozen=True, kw_only=True)
class Capability:
    """A command, and where its parts are; a place is written as "module:attribute".

    >>> from headcount.core import Capability
    >>> Capability(
    ...     name="rhymes", group="More", sentence="List heads that rhyme.", command="rhyming:Rhymes"
    ... ).name
    'rhymes'
    """

    registry: ClassVar[str] = f"{LIST}:CAPABILITIES"

    name: str
    """Name of the command."""
    group: str
    """What `headcount --help` lists the command under."""
    sentence: str
    """What the command does, in a sentence of help."""
    docs: str = ""
    """Page about it in the folder `docs`, without its ending; empty for a plug-in's."""
    command: str
    """Place of the command's class."""
    result: str = ""
    """Place of the type of its result, if that is tables and a record."""
    document: str = ""
    """Place of the function that makes the result's document."""
    takes_roles: bool = False
    """Whether the document is also given the roles of heads, by head; None without an analysis."""
    beside: bool = False
    """Whether the result may lie beside an analysis, whose page then has its section."""
    sections: tuple[Section, ...] = ()
    """Sections on the page of an analysis."""
    page: str = ""
    """Place of what else it adds to that page: an instance of `PagePart`."""
    notes: str = ""
    """Place of the function that says how a result's numbers are measured: an iterable of `Note`,
    each with its source, for the page and for `headcount cite`."""
    files: tuple[str, ...] = ()
    """Files that the command may leave beside an analysis, besides those of its result."""
    shares_work: bool = False
    """Whether several processes share its work if torchrun starts them."""
    variants: tuple[str, ...] = ()
    """Places of manifests of the same command for models that read something else."""
    usual: tuple[str, ...] = ()
    """Fields of the command's options that help shows first, in this order. The others in a box
    with one of these come last, in a box called more."""

    def __post_init__(self) -> None:
        """Check that it has words.

        Raises:
            InputError: If some are missing.
        """
        if lacking := [name for name in ("name", "group", "sentence") if not getattr(self, name)]:
            raise InputError(
                f"Expected words of the command {self.name or self.command}, got no "
                f"{' and no '.join(lacking)}. Say what it does."
            )

    @property
    def result_type(self) -> Any:
        """The type of its result, imported now; None without one."""
        return imported(self.result) if self.result else None


def registries() -> Iterator[Registry[Any]]:
    """The registry of every family of things that plug-ins add; what needs torch is imported."""
    yield from map(imported, import_module(LIST).REGISTRIES)


def capability_registry() -> Registry["Capability"]:
    """All capabilities by the names of their commands."""
    return import_module(LIST).CAPABILITIES


def capabilities() -> Iterator[Capability]:
    """Every capability, ours first; a warning names each of a plug-in that can't be imported."""
    return capability_registry().usable()


def with_variants() -> Iterator[Capability]:
    """Every capability, each followed by those of the same command for other models."""
    for each in capabilities():
        yield each
        yield from map(imported, each.variants)


def capability_of(result: type) -> Capability | None:
    """The capability whose result is of a type; None for the result of a function alone."""
    place = f"{result.__module__}:{result.__qualname__}"
    return next((each for each in with_variants() if each.result == place), None)
