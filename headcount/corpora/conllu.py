"""Treebanks in CoNLL-U: text, words, heads, relations and tags, one sentence at a time.

Words are the syntactic words; empty nodes (`5.1`) are skipped. The text is that of `# text`. If
there is none, or if it has other letters than the words, it is put together from the words' forms,
those of multiword tokens (`3-4`), and `SpaceAfter=No` in column 10.
Reference: https://universaldependencies.org/format.html

The columns are parsed here, not with the `conllu` library. That library reads UD_English-EWT at
3,500 sentences/s (4,700 without its field parsers); this module reads it at 16,000, and its errors
name the line. The tests compare with the library.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headcount.core import CorpusError, amount
from headcount.corpora.layout import located
from headcount.corpora.lines import ending, note, numbered_lines
from headcount.corpora.mentions import head_by_parse
from headcount.corpora.sentence import Link, Sentence, Span, Tree

NUM_COLUMNS = 10
RANGE = re.compile(r"(\d+)-(\d+)")
EMPTY_NODE = re.compile(r"\d+\.\d+")
TEXT = re.compile(r"#\s*text\s*=(.*)")
NO_SPACE = "SpaceAfter=No"
MOST_LEFT = 0.01
"""Largest share of sentences that can't be read and are left out."""

Row = tuple[int, list[str]]
"""Line number and columns of one syntactic word, or of a multiword token."""


def is_treebank(file: str | Path) -> bool:
    """Whether a file is a treebank, by its ending."""
    return ending(file) == ".conllu"


def read_conllu(path: Path, strict: bool = False, links: Sequence[str] = ()) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file with their trees.

    Sentences that can't be read, as where a file breaks off, are left out and counted.

    Args:
        path: the file.
        strict: whether to refuse the file at the first of them.
        links: keys of column 10 whose values are numbers of the words that a word is linked to:
            `Antecedent=3`, `Antecedent=3,5` or, for a span, `Antecedent=3-5`.

    Raises:
        CorpusError: if more than one sentence in a hundred can't be read; the first one's error.
    """
    num_read = num_left = 0
    first: CorpusError | None = None
    for lines in sentence_lines(path):
        try:
            sentence = _sentence(path, lines, links)
        except CorpusError as error:
            if strict:
                raise
            first, num_left = first or error, num_left + 1
            continue
        num_read += 1
        yield sentence
    if first is not None:
        if num_left > MOST_LEFT * (num_read + num_left):
            raise first
        note(f"{amount(num_left, 'sentence')} of {path} can't be read and is left out: {first}")


def sentence_lines(path: Path) -> Iterator["SentenceLines"]:
    """Yield the lines of each sentence that has words, or a line that can't be read."""
    lines = SentenceLines()
    for number, line in numbered_lines(path):
        if not line.strip():
            if lines.rows or lines.error:
                yield lines
            lines = SentenceLines()
        elif line.startswith("#"):
            written = TEXT.match(line)
            lines.text = written[1].strip() if written else lines.text
        elif lines.error is None:
            try:
                lines.add(path, number, line)
            except CorpusError as error:
                lines.error = error
    if lines.rows or lines.error:
        yield lines


@final
@dataclass
class SentenceLines:
    """The lines of one sentence."""

    rows: list[Row] = field(default_factory=list)
    """The syntactic words."""
    ranges: list[Row] = field(default_factory=list)
    """The multiword tokens."""
    text: str | None = None
    """The text after `# text =`."""
    error: CorpusError | None = None
    """Why a line can't be read."""

    def add(self, path: Path, number: int, line: str) -> None:
        """Add the line of a word or a multiword token; empty nodes are skipped."""
        columns = columns_of_line(path, number, line)
        if columns[0].isdecimal():
            self.rows.append((number, columns))
        elif RANGE.fullmatch(columns[0]):
            self.ranges.append((number, columns))
        elif not EMPTY_NODE.fullmatch(columns[0]):
            raise CorpusError(
                f"{path}:{number}: expected a word's number, a range like 3-4 or an empty node "
                f"like 5.1 in column 1, got {columns[0]!r}. Fix the line."
            )


def check_word(path: Path, number: int, column: str) -> None:
    """Check that there is a word in column 2 of a line.

    Raises:
        CorpusError: if there is none.
    """
    if not column:
        raise CorpusError(
            f"{path}:{number}: expected a word in column 2, got nothing. "
            "Fix the line (an unknown form is written _)."
        )


def columns_of_line(path: Path, number: int, line: str, count: int = NUM_COLUMNS) -> list[str]:
    """The cells of a line with tabs between.

    Raises:
        CorpusError: if they are not as many as there are columns.
    """
    columns = line.split("\t")
    if len(columns) != count:
        raise CorpusError(
            f"{path}:{number}: expected {amount(count, 'column')} separated by tabs, got "
            f"{len(columns)}. Fix the line."
        )
    return columns


def _sentence(path: Path, lines: SentenceLines, links: Sequence[str] = ()) -> Sentence:
    if lines.error is not None:
        raise lines.error
    rows = lines.rows
    for index, (number, columns) in enumerate(rows):
        if int(columns[0]) != index + 1:
            raise CorpusError(
                f"{path}:{number}: expected word number {index + 1}, got {columns[0]}. "
                "Number the words of a sentence from 1, with a blank line after the sentence."
            )
        check_word(path, number, columns[1])
    heads = tuple(_head(path, number, columns[6], len(rows)) for number, columns in rows)
    _check_tree(path, rows, heads)
    relations = tuple(columns[7] for _, columns in rows)
    tags = tuple(columns[3] for _, columns in rows)
    text, spans, differs = _written(path, lines)
    tree = Tree(heads, relations, tags)
    return Sentence(
        text,
        tuple(columns[1] for _, columns in rows),
        tree,
        origin=f"{path}:{rows[0][0]}",
        spans=spans,
        differs=differs,
        links=tuple(_links(path, rows, tree, links)),
    )


def _links(path: Path, rows: Sequence[Row], tree: Tree, names: Sequence[str]) -> Iterator[Link]:
    """The links that column 10 names by some keys; a span counts by its head word."""
    for word, (number, columns) in enumerate(rows if names else ()):
        pairs = (each.partition("=") for each in columns[9].split("|"))
        given = {key: value for key, _, value in pairs}
        for name in names:
            if not (value := given.get(name, "")):
                continue
            spans = [_numbers(each) for each in value.split(",")]
            if not all(1 <= first <= last <= len(rows) for first, last in spans):
                raise CorpusError(
                    f"{path}:{number}: expected {name}= in column 10 to be numbers of words up to "
                    f"{len(rows)}, such as 3, 3,5 or 3-5 for a span, got {value!r}. Fix the line."
                )
            keys = (head_by_parse(tree, first - 1, last - 1) for first, last in spans)
            if others := tuple(key for key in dict.fromkeys(keys) if key != word):
                yield Link(name, word, others)


def _numbers(text: str) -> Span:
    """The first and the last number of `3` or `3-5`; (0, 0) for anything else."""
    first, dash, last = text.strip().partition("-")
    is_number = first.isdecimal() and (last.isdecimal() if dash else True)
    return (int(first), int(last if dash else first)) if is_number else (0, 0)


@final
@dataclass(frozen=True)
class _Token:
    """A token as it is written: a word, or a multiword token that is not its words in a row."""

    form: str
    num_words: int
    end: str
    """The space after it, or nothing."""


def _written(path: Path, lines: SentenceLines) -> tuple[str, tuple[Span, ...], bool]:
    """The text, where each word stands in it, and whether the treebank's own text was not used."""
    tokens = _tokens(path, lines)
    forms = [token.form for token in tokens]
    text, spans = lines.text or "", None if lines.text is None else located(lines.text, forms)
    differs = lines.text is not None and spans is None
    if spans is None:
        text = "".join(token.form + token.end for token in tokens).strip()
        spans = located(text, forms)
        assert spans is not None
    each = zip(spans, tokens, strict=True)
    return text, tuple(span for span, token in each for _ in range(token.num_words)), differs


def _tokens(path: Path, lines: SentenceLines) -> list[_Token]:
    found = [_token(columns) for _, columns in lines.rows]
    later = len(found)
    for number, columns in reversed(lines.ranges):
        first, last = map(int, columns[0].split("-"))
        if not 1 <= first <= last <= later:
            raise CorpusError(
                f"{path}:{number}: expected a range of the words up to {later}, got {columns[0]}. "
                "Fix column 1."
            )
        token, parts = _token(columns, last - first + 1), found[first - 1 : last]
        if "".join(part.form for part in parts) == token.form:  # "did" and "n't" in "didn't"
            parts = [_Token(part.form, 1, "") for part in parts]
            found[first - 1 : last] = [*parts[:-1], _Token(parts[-1].form, 1, token.end)]
        else:
            found[first - 1 : last] = [token]
        later = first - 1
    return found


def _token(columns: Sequence[str], num_words: int = 1) -> _Token:
    return _Token(columns[1], num_words, "" if NO_SPACE in columns[9].split("|") else " ")


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
