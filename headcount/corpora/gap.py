"""GAP: a pronoun and two names in a passage of Wikipedia, and which of them it means.

Reference: Mind the GAP (Webster et al., 2018), https://arxiv.org/abs/1810.05201
"""

import re
from collections.abc import Iterator
from pathlib import Path

from headcount.core import CorpusError
from headcount.corpora.text import numbered_lines

COLUMNS = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+|[^\w\s]")


def read_gap(path: Path) -> Iterator[tuple[str, tuple[str, ...], list[tuple[int, int, str]], str]]:
    """Yield name, words, mentions (first word, last word, entity) and origin of every passage.

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
        spans = []
        for column in ("Pronoun", "A", "B"):
            start, end = _span(row, column, words, origin)
            means = column == "Pronoun" or row[f"{column}-coref"].upper() == "TRUE"
            spans.append((start, end, "it" if means else column))
        yield row["ID"], tuple(word[0] for word in words), sorted(spans), origin


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
