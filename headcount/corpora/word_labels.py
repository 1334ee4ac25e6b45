"""Words with labels: the lists of a table, or a column of a treebank in CoNLL-U.

Of a treebank, the words are the syntactic ones. Their labels are `upos` (by default), `xpos`,
`deprel`, or the value of a key: `feats.Number`, `misc.NER`. A word without the key has the label
`_`, as the format writes an empty column.
Reference: https://universaldependencies.org/format.html
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

from headcount.core import CorpusError, InputError, amount
from headcount.corpora.reading import read_data
from headcount.corpora.table import Columns, ColumnSpec, Data, Table
from headcount.corpora.text import numbered_lines

NO_LABEL = "_"
"""Label of a word that has none, as in CoNLL-U."""
WORDS, LABELS = "words", "labels"
"""The columns of words and their labels, by the task's names."""

_COLUMNS = {"upos": 3, "xpos": 4, "deprel": 7}
_KEYED = {"feats": 5, "misc": 9}
_NUM_COLUMNS = 10


def read_word_labels(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table with lists of words and of their labels, one row for each sentence.

    Raises:
        CorpusError: as in `read_data`; if treebanks are mixed with tables, a line of a treebank
            has other columns, or a sentence has more or fewer labels than words.
        InputError: for an unknown column.
    """
    if not _are_treebanks(data):
        table = read_data(data, columns, roles)
    else:
        name = treebank_column(columns, roles)
        table = Table({}, [])
        for file in [data] if isinstance(data, str | Path) else data:
            for number, rows in _sentences(Path(file)):
                table.origins.append(f"{file}:{number}")
                table.add(WORDS, roles[WORDS], tuple(row[1] for row in rows))
                table.add(LABELS, roles[LABELS], tuple(_label(row, name) for row in rows))
        if not table.origins:
            raise CorpusError(f"Expected at least one sentence, got none in {data}.")
    for words, labels, origin in zip(
        table.lists[WORDS], table.lists[LABELS], table.origins, strict=True
    ):
        if len(words) != len(labels):
            raise CorpusError(
                f"{origin}: expected a label for each of {amount(len(words), 'word')}, got "
                f"{len(labels)}. Fix the line."
            )
    return table


def treebank_column(columns: Columns | None, roles: ColumnSpec) -> str:
    """The column of a treebank that the user named for labels; `upos` if none.

    Raises:
        InputError: for a column that treebanks do not have.
    """
    given = dict(columns or {})
    name = str(given.pop(LABELS, "upos"))
    kind, _, key = name.partition(".")
    if given or not (name in _COLUMNS or (kind in _KEYED and key)):
        wrong = next((f"{role}={column}" for role, column in given.items()), f"{LABELS}={name}")
        raise InputError(
            f"Expected {LABELS}=upos, xpos, deprel, feats.KEY or misc.KEY as the only column of a "
            f"treebank, got {wrong}. The words are those of the treebank."
        )
    return name


def is_treebank(file: str | Path) -> bool:
    """Whether a file is a treebank, by its ending."""
    return Path(file).suffix == ".conllu"


def _are_treebanks(data: Data) -> TypeGuard[str | Path | Sequence[str | Path]]:
    if isinstance(data, Mapping):
        return False
    files = [data] if isinstance(data, str | Path) else data
    are = [isinstance(file, str | Path) and is_treebank(file) for file in files]
    if any(are) and not all(are):
        raise CorpusError(
            f"Expected treebanks only or tables only, got {', '.join(map(str, files))}. Give one "
            "kind."
        )
    return bool(are) and all(are)


def _sentences(path: Path) -> Iterator[tuple[int, list[list[str]]]]:
    """First line and rows of every sentence's syntactic words."""
    first, rows = 0, []
    for number, line in numbered_lines(path):
        if not line.strip():
            if rows:
                yield first, rows
            first, rows = 0, []
        elif not line.startswith("#"):
            row = line.split("\t")
            if len(row) != _NUM_COLUMNS or not row[1].strip():
                raise CorpusError(
                    f"{path}:{number}: expected {_NUM_COLUMNS} columns separated by tabs with a "
                    f"word in the second, got {len(row)}. Fix the line."
                )
            if row[0].isdecimal():
                first = first or number
                rows.append(row)
    if rows:
        yield first, rows


def _label(row: Sequence[str], name: str) -> str:
    if name in _COLUMNS:
        return row[_COLUMNS[name]].strip() or NO_LABEL
    kind, _, key = name.partition(".")
    pairs = (pair.partition("=") for pair in row[_KEYED[kind]].split("|"))
    return next((value for found, _, value in pairs if found == key and value), NO_LABEL)
