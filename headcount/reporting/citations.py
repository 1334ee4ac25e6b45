r"""The methods of a run as LaTeX, and the papers that they are from, in `papers.bib`.

A source is a text such as "Voita et al., ACL 2019, arXiv:1905.09418, section 4; Clark et al., ...".
It names an entry if it holds the entry's number on arXiv or its address, and a section or a figure
may follow: `\citep[section 4]{voita2019analyzing}`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, final

from headcount.core import capital, imported, latex, with_variants
from headcount.numbers import listed
from headcount.pages import Note, model_and_data
from headcount.results import CURVE, Result, Signature

OWN = "headcount"
"""Key of our own entry."""
VERSIONS = ("headcount", "torch", "transformers")
"""Parts of signatures that are versions."""
_FIELD = r"^  {} = \{{(.+)\}},$"
_PART = re.compile(r", ((?:section|figure|equation)s? [\d.]+(?:(?:, | and | to )[\d.]+)*)")


@final
@dataclass(frozen=True)
class Entry:
    """An entry of a bibliography."""

    key: str
    bibtex: str
    """The entry as BibTeX reads it."""
    named: str
    """What a source holds that names it: its number on arXiv, or its address; empty for ours."""


@final
@dataclass(frozen=True)
class Cited:
    """Text for a paper."""

    methods: str
    """The methods, as LaTeX."""
    references: str
    """The papers that they cite, as BibTeX."""
    papers: int
    """Number of these, without headcount."""


@cache
def bibliography() -> dict[str, Entry]:
    """Every entry by its key."""
    text = (files("headcount.reporting") / "papers.bib").read_text(encoding="utf-8")
    return {entry.key: entry for entry in map(_entry, text.strip().split("\n\n"))}


def _entry(bibtex: str) -> Entry:
    number, address = (
        re.search(_FIELD.format(each), bibtex, re.MULTILINE) for each in ("eprint", "url")
    )
    named = f"arXiv:{number[1]}" if number else address[1].split("://")[1] if address else ""
    return Entry(bibtex[bibtex.index("{") + 1 : bibtex.index(",")], bibtex, named)


def entries_of(source: str) -> Iterator[tuple[Entry, str]]:
    """The entries that a source names, in its order, each with the section or figure it gives.

    >>> [(each.key, where) for each, where in entries_of("Nam, arXiv:2505.13737, section 3")]
    [('nam2025causal', 'section 3')]
    """
    found = {source.find(each.named): each for each in bibliography().values() if each.named}
    for start, entry in sorted(pair for pair in found.items() if pair[0] >= 0):
        where = _PART.match(source, start + len(entry.named))
        yield entry, where[1] if where else ""


def citing(folder: Path) -> Cited:
    """What a paper says of the results in a folder, and what it cites for that.

    Raises:
        InputError: If a file is damaged or of a newer version.
    """
    found = [
        (its.name, result, tuple(imported(its.notes)(result)))
        for its in with_variants()
        if its.notes
        for place in (folder, folder / CURVE)
        if (result := its.result_type.read_if_any(place)) is not None
    ]
    parts = [_measured(command, result, notes) for command, result, notes in found]
    used = {
        entry.key: entry
        for _, _, notes in found
        for note in notes
        for entry, _ in entries_of(note.source)
    }
    entries = [bibliography()[OWN], *(used[key] for key in sorted(used))]
    return Cited("\n".join(parts), "\n\n".join(each.bibtex for each in entries) + "\n", len(used))


def _measured(command: str, result: Result[Any], notes: Iterable[Note]) -> str:
    """One result in LaTeX: what measured it, how each number is defined, and its signature."""
    signed = Signature.parse(result.record.signature)
    versions = [f"{name} {latex(signed.parts[name])}" for name in VERSIONS if name in signed.parts]
    versions[0] += rf" \citep{{{OWN}}}"
    others = (
        f"{name.replace('_', ' ')} {value}"
        for name, value in signed.parts.items()
        if name not in (*VERSIONS, "model")
    )
    model, data = model_and_data(result.record)
    subject = (model or signed.parts.get("model", "")) + (f" on {data}" if data else "")
    lines = (
        rf"\paragraph{{{capital(command)}}}",
        rf"\texttt{{headcount {command}}} measured {latex(subject)} with "
        f"{listed(versions)}.",
        *(rf"\emph{{{latex(note.what)}.}} {_cites(note)}" for note in notes),
        latex(f"The signature is {', '.join(others)}."),
    )
    return "\n".join(lines) + "\n"


def _cites(note: Note) -> str:
    """How a number is measured, with what is cited for it; nothing for what no paper defines."""
    cited = [
        rf"\citep{f'[{latex(where)}]' if where else ''}{{{entry.key}}}"
        for entry, where in entries_of(note.source)
    ]
    if not cited and not note.source.startswith((OWN, "No paper")):
        cited = [f"({latex(note.source)})"]
    return " ".join([latex(note.how).removesuffix("."), *cited]) + "."
