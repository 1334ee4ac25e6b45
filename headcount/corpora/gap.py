"""GAP: a pronoun and two names in a passage of Wikipedia, and which of them it means.

Reference: Mind the GAP (Webster et al., 2018), https://arxiv.org/abs/1810.05201
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headcount.core import CorpusError
from headcount.corpora.sentence import Span
from headcount.corpora.text import numbered_lines

COLUMNS = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+|[^\w\s]")


@final
@dataclass(frozen=True)
class Passage:
    """One line of GAP."""

    name: str
    words: tuple[str, ...]
    pronoun: tuple[int, int]
    """First and last word of the pronoun."""
    names: tuple[tuple[int, int], tuple[int, int]]
    """First and last word of the names A and B."""
    is_right: tuple[bool, bool]
    """Whether the pronoun means A, and whether it means B."""
    origin: str
    """File and line."""
    text: str
    spans: tuple[Span, ...]
    """Where each word stands in the text."""


def read_gap(path: Path) -> Iterator[Passage]:
    """Yield every passage.

    Raises:
        CorpusError: for another header, a line with other columns, or text that is not at its
            offset.
    """
    lines = numbered_lines(path)
    header = next(lines, (1, ""))[1].split("\t")
    if header != COLUMNS:
        raise CorpusError(
            f"{path}:1: expected GAP's header, {' '.join(COLUMNS)}, got "
            f"{' '.join(header)[:60]!r}. Give GAP's .tsv, a .conllu or a .conll."
        )
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise CorpusError(
                f"{path}:{number}: expected {len(COLUMNS)} columns separated by tabs, got "
                f"{len(cells)}. Fix the line."
            )
        row: dict[str, str] = dict(zip(COLUMNS, cells, strict=True))
        origin = f"{path}:{number}"
        words = list(WORD.finditer(row["Text"]))
        pronoun, first, second = (
            _span(row, column, words, origin) for column in ("Pronoun", "A", "B")
        )
        yield Passage(
            row["ID"],
            tuple(word[0] for word in words),
            pronoun,
            (first, second),
            (row["A-coref"].upper() == "TRUE", row["B-coref"].upper() == "TRUE"),
            origin,
            row["Text"],
            tuple(word.span() for word in words),
        )


def _span(
    row: dict[str, str], column: str, words: list[re.Match[str]], origin: str
) -> tuple[int, int]:
    """First and last word of a pronoun or name."""
    text, offset = row[column], row[f"{column}-offset"]
    if not offset.isdecimal() or not row["Text"].startswith(text, int(offset)):
        raise CorpusError(
            f"{origin}: expected {text!r} at offset {offset} of the text, got something else. Fix "
            "the line."
        )
    first, last = int(offset), int(offset) + len(text)
    its = [place for place, word in enumerate(words) if word.start() < last and word.end() > first]
    return its[0], its[-1]
