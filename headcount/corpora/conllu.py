"""Treebanks in CoNLL-U: words, heads, relations and tags, one sentence at a time.

Words are the syntactic words: multiword-token ranges (`3-4`) and empty nodes (`5.1`) are skipped.
Reference: https://universaldependencies.org/format.html

The columns are parsed here, not with the `conllu` library. That library reads UD_English-EWT at
3,500 sentences/s (4,700 without its field parsers); this module reads it at 16,000, and its errors
name the line. The tests compare with the library.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headcount.core import CorpusError, amount
from headcount.corpora.sentence import Sentence, Tree
from headcount.corpora.text import numbered_lines

NUM_COLUMNS = 10
RANGE_OR_EMPTY_NODE = re.compile(r"\d+[-.]\d+")

Row = tuple[int, list[str]]
"""Line number and columns of one syntactic word."""


def read_conllu(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file with their trees."""
    rows: list[Row] = []
    for number, line in numbered_lines(path):
        if not line.strip():
            if rows:
                yield _sentence(path, rows)
                rows = []
        elif not line.startswith("#"):
            columns = _columns(path, number, line)
            if columns[0].isdecimal():
                rows.append((number, columns))
            elif not RANGE_OR_EMPTY_NODE.fullmatch(columns[0]):
                raise CorpusError(
                    f"{path}:{number}: expected a word's number, a range like 3-4 or an empty "
                    f"node like 5.1 in column 1, got {columns[0]!r}. Fix the line."
                )
    if rows:
        yield _sentence(path, rows)


def _columns(path: Path, number: int, line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != NUM_COLUMNS:
        raise CorpusError(
            f"{path}:{number}: expected {NUM_COLUMNS} columns separated by tabs, "
            f"got {len(columns)}. Fix the line."
        )
    return columns


def _sentence(path: Path, rows: Sequence[Row]) -> Sentence:
    words = tuple(columns[1] for _, columns in rows)
    for index, (number, columns) in enumerate(rows):
        if int(columns[0]) != index + 1:
            raise CorpusError(
                f"{path}:{number}: expected word number {index + 1}, got {columns[0]}. "
                "Number the words of a sentence from 1, with a blank line after the sentence."
            )
        if not words[index]:
            raise CorpusError(
                f"{path}:{number}: expected a word in column 2, got nothing. "
                "Fix the line (an unknown form is written _)."
            )
    heads = tuple(_head(path, number, columns[6], len(rows)) for number, columns in rows)
    _check_tree(path, rows, heads)
    relations = tuple(columns[7] for _, columns in rows)
    tags = tuple(columns[3] for _, columns in rows)
    tree = Tree(heads, relations, tags)
    return Sentence(" ".join(words), words, tree, origin=f"{path}:{rows[0][0]}")


def _head(path: Path, number: int, column: str, num_words: int) -> int:
    """0-based head of a word, -1 for the root (the format counts from 1 and writes 0)."""
    if not (column.isascii() and column.isdigit()):
        raise CorpusError(
            f"{path}:{number}: expected the number of the word's head in column 7, "
            f"got {column!r}. A treebank needs a head for every word."
        )
    if int(column) > num_words:
        raise CorpusError(
            f"{path}:{number}: the head {column} points nowhere, since the sentence has "
            f"{amount(num_words, 'word')}. Fix column 7."
        )
    return int(column) - 1


def _check_tree(path: Path, rows: Sequence[Row], heads: Sequence[int]) -> None:
    """Refuse anything but a tree: a cycle, or several roots (no root implies a cycle)."""
    cycle = _find_cycle(heads)
    if cycle:
        around = " -> ".join(str(index + 1) for index in (*cycle, cycle[0]))
        raise CorpusError(
            f"{path}:{rows[cycle[0]][0]}: the heads form a cycle, {around}. Fix column 7."
        )
    roots = [index for index, head in enumerate(heads) if head < 0]
    if len(roots) > 1:
        lines = ", ".join(str(rows[index][0]) for index in roots)
        raise CorpusError(
            f"{path}:{rows[0][0]}: expected one root (head 0) in a sentence, got "
            f"{len(roots)}, on lines {lines}. Fix column 7."
        )


def _find_cycle(heads: Sequence[int]) -> list[int]:
    """Words on a cycle, in the order in which they point at each other; empty for a tree."""
    finished = [False] * len(heads)
    for start in range(len(heads)):
        path: list[int] = []
        word = start
        while word >= 0 and not finished[word]:
            if word in path:
                return path[path.index(word) :]
            path.append(word)
            word = heads[word]
        for word in path:
            finished[word] = True
    return []
