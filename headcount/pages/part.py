"""What capabilities add to the page of an analysis besides their sections: hooks with defaults.

A manifest names an instance under `page`; every method may be left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

from headcount.core import Block, Document, capabilities, imported
from headcount.results import Analysis
from headcount.vocabulary import TEXTS, ColumnEntry, Inputs


@final
@dataclass(frozen=True)
class Note:
    """One method with its source."""

    what: str
    how: str
    source: str
    inputs: tuple[Inputs, ...] = (TEXTS,)
    """Kinds of input that it holds for."""


@final
@dataclass(frozen=True)
class Score:
    """One score of a head: its importance, or a skill."""

    label: str
    about: str
    text: str
    rank: str
    """Rank of the head among all heads, the most important or the best first."""


@final
@dataclass(frozen=True)
class ProbeHead:
    """What a head adds to a probe, as text."""

    head: str
    from_dependent: str
    from_head: str
    contribution: str
    rank: str


@final
@dataclass(frozen=True)
class CardPart:
    """What a capability says on the card of a head."""

    does: Sequence[str] = ()
    """What the head does, as ends of sentences that begin with "It"."""
    scores: tuple[Score, ...] = ()
    """Its scores."""
    probe: ProbeHead | None = None
    """What it adds to a probe."""


class PagePart:
    """What a capability adds to the page; by default nothing."""

    def columns(self) -> Iterable[ColumnEntry]:
        """The columns that it adds to the table of heads."""
        return ()

    def notes(self, run: Analysis) -> Iterable[Note]:
        """How its numbers are measured."""
        del run
        return ()

    def headline(self, run: Analysis) -> str:
        """What the page says first, in place of what heads look at; empty for nothing."""
        del run
        return ""

    def first(self, run: Analysis) -> tuple[str, tuple[Block, ...]]:
        """A title before all others, and what stands below it; nothing for most runs."""
        del run
        return "", ()

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """Titled sentences for the opening; those without text are left out."""
        del run
        return ()

    def starts(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """Heads worth a look, the first of which that is not yet shown is; each with the reason."""
        del run
        return ()

    def step(self, run: Analysis, given: "Given") -> str:
        """What would show more, with the command in backticks; empty for nothing."""
        del run, given
        return ""

    def maps(self, run: Analysis) -> "Iterable[Map]":
        """Numbers that the map of heads can be coloured by."""
        del run
        return ()

    def keepings(self, run: Analysis) -> "Iterable[Keeping]":
        """Choices of heads that the map can show."""
        del run
        return ()

    def drawn(self, result: object) -> Document | None:
        """The document of what is no result of a command, for a notebook; None for others'."""
        del result

    def cards(self, run: Analysis) -> Mapping[str, CardPart]:
        """What it says of heads, by their names."""
        del run
        return {}


def page_parts() -> tuple[PagePart, ...]:
    """The parts of all capabilities, in the order of their sections on the page."""
    found = [each for each in capabilities() if each.page]
    found.sort(key=lambda each: min((section.place for section in each.sections), default=999))
    return tuple(imported(each.page) for each in found)


@final
@dataclass(frozen=True)
class Keeping:
    """One choice of heads that the map can show."""

    key: str
    label: str
    """Text of its button."""
    about: str
    """What chose the heads."""
    source: str
    """The text before its button; empty if the one before has it."""
    kept: tuple[str, ...]
    """Names of the kept heads."""
    method: str = ""
    """The curve's method; empty for the choice of the pruned model."""


@final
@dataclass(frozen=True)
class Map:
    """One number per head, with its colour scale."""

    key: str
    label: str
    group: str
    about: str
    scale: Literal["sequential", "diverging"]
    low: float | None
    """Smallest value, or minus the largest magnitude if diverging; None if all are NaN."""
    high: float | None
    low_text: str
    high_text: str
    values: tuple[float | None, ...]
    """Values in the order of the heads; None if not measured."""
    texts: tuple[str, ...]
    words: str
    """Everything that a search for it can name, in lower case."""
    sure: tuple[bool, ...] | None = None
    """Whether each head's number is beyond chance; None if that was not tested."""
    sure_about: str = ""
    """What a head is that is marked as sure."""


@final
@dataclass(frozen=True)
class Given:
    """What a command to paste names."""

    model: str
    """The model, as it is loaded."""
    out: str
    """Folder of the results."""

    @classmethod
    def of(cls, run: Analysis) -> "Given":
        """What the record says, which has the names of files and folders without their place."""
        return cls(run.record.model, str(run.record.arguments.get("out", "THIS_FOLDER")))
