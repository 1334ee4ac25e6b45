"""The report's names and colours for roles: a literal table, and a fallback for unknown roles.

The colours are those of Okabe and Ito (Color Universal Design, 2008), distinct for any colour
vision. Every cell also carries the abbreviation, so colour is never the only cue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class RoleName:
    """One role as the report shows it."""

    name: str
    abbreviation: str
    """Two letters for the cells of the grid."""
    colour: str
    ink: str
    """Text colour readable on `colour`."""
    one: str
    """Predicate of the headline for one head: "1 is positional"."""
    many: str
    """Predicate for several: "9 are positional"."""
    about: str
    """Meaning of the role, as the end of a sentence about a head."""


_DARK, _LIGHT = "#16191d", "#ffffff"

KNOWN: Mapping[str, RoleName] = {
    role.name: role
    for role in (
        RoleName(
            "positional",
            "Po",
            "#0072B2",
            _LIGHT,
            "is positional",
            "are positional",
            "its largest weight falls on one fixed offset",
        ),
        RoleName(
            "syntactic",
            "Sy",
            "#E69F00",
            _DARK,
            "is syntactic",
            "are syntactic",
            "it finds the other word of a dependency more often than the best fixed offset",
        ),
        RoleName(
            "rare",
            "Ra",
            "#CC79A7",
            _DARK,
            "points at rare words",
            "point at rare words",
            "it looks most at the rarest token of the sentence",
        ),
        RoleName(
            "sink",
            "Si",
            "#56B4E9",
            _DARK,
            "attends to a sink",
            "attend to a sink",
            "it puts its weight on the first token or a separator, where little is read",
        ),
        RoleName(
            "punctuation",
            "Pu",
            "#F0E442",
            _DARK,
            "attends to punctuation",
            "attend to punctuation",
            "it puts its weight on punctuation",
        ),
        RoleName(
            "block",
            "Bl",
            "#009E73",
            _DARK,
            "attends in blocks",
            "attend in blocks",
            "its weight stays inside segments",
        ),
    )
}
"""Every role this version of the report knows, in the order of the report."""

_FALLBACKS = (("#D55E00", _DARK), ("#5F4B8B", _LIGHT), ("#7A5230", _LIGHT), ("#3B4148", _LIGHT))


def role_names(names: Iterable[str]) -> dict[str, RoleName]:
    """The names that occur: known roles first and in their order, then the others as they occur.

    >>> list(role_names(["novel", "sink", "positional"]))
    ['positional', 'sink', 'novel']
    """
    occurring = list(dict.fromkeys(names))
    result = {name: role for name, role in KNOWN.items() if name in occurring}
    taken = {role.abbreviation for role in KNOWN.values()}
    for name in occurring:
        if name not in result:
            abbreviation = _abbreviation(name, taken)
            colour, ink = _FALLBACKS[(len(taken) - len(KNOWN)) % len(_FALLBACKS)]
            taken.add(abbreviation)
            predicate = f"“{name}”"
            result[name] = RoleName(
                name,
                abbreviation,
                colour,
                ink,
                f"has the role {predicate}",
                f"have the role {predicate}",
                "it has this role, which this report does not know",
            )
    return result


def _abbreviation(name: str, taken: set[str]) -> str:
    """Two letters of the name that no other role has; a number if the letters run out."""
    letters = [letter for letter in name if letter.isalnum()] or ["?"]
    pairs = [letters[0].upper() + letter.lower() for letter in letters[1:]]
    numbered = [f"{letters[0].upper()}{number}" for number in range(100)]
    return next(pair for pair in pairs + numbered if pair not in taken)
