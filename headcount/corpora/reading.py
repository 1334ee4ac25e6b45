"""Reading a task's data: the columns of files, of data sets of the hub and of rows in memory.

A `.tsv` of parallel text may have two columns and no header. Rows without any text are skipped if a
row is one text.

Words with labels: the lists of a table, or a column of a treebank in CoNLL-U.

Of a treebank, the words are the syntactic ones. Their labels are `upos` (by default), `xpos`,
`deprel`, or the value of a key: `feats.Number`, `misc.NER`. A word without the key has the label
`_`, as the format writes an empty column.
Reference: https://universaldependencies.org/format.html
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headcount.core import CorpusError, InputError, amount
from headcount.corpora.conllu import check_word, is_treebank, sentence_lines
from headcount.corpora.delimited import split_at_tabs
from headcount.corpora.formats import FORMATS, File, Row, is_blank
from headcount.corpora.held import Source, is_data_set, is_held, named_files, sources_of
from headcount.corpora.lines import ending
from headcount.corpora.messages import CHAT_NAMES, PART_NAMES, media_in, without_media
from headcount.corpora.records import read_pair
from headcount.corpora.table import (
    LABELS,
    NO_LABEL,
    WORDS,
    Columns,
    ColumnSpec,
    Data,
    ReadAs,
    Table,
    choose,
)

_NAME = re.compile(r"[a-z][a-z0-9]*([_.-]\w+)*|[A-Z]{2,3}")
"""Pattern of a cell that may name a column rather than be text, e.g. `de` or `deu_Latn`."""


def read_data(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """Read all rows of one file or data set, of several in order, or of what is held in memory.

    Args:
        data: paths, `hf://dataset/config?split=validation`, or rows or columns in memory.
        columns: the task's name of a column, mapped to its name or number in the data; the
            others are looked up under the names that `roles` lists.
        roles: the columns that the task reads.

    Raises:
        CorpusError: if a file can't be read, lacks a column or has no row, or if a line can't
            be used (`file:line`).
        InputError: if `columns` are not the task's, or some are named and some numbered.
    """
    return table_of([(source, columns) for source in sources_of(data)], roles)


def read_rows_of(
    data: Data, columns: Columns | None, expected: str = "a JSON object"
) -> Iterator[Row]:
    """The origin and the cells of every row of data, whatever its format.

    Args:
        data: as in `read_data`.
        columns: the columns that will be read, with their names or numbers.
        expected: what a line of a `.jsonl` must be, for errors.

    Raises:
        CorpusError: as in `read_data`.
    """
    for source in sources_of(data):
        yield from _without_media(source, source.rows(columns, expected=expected))


def _without_media(source: Source, rows: Iterator[Row]) -> Iterator[Row]:
    return without_media(rows, lambda row: media_in([*row[1].values()]), source.how, source)


def table_of(sources: Sequence[tuple[Source, Columns | None]], roles: ColumnSpec) -> Table:
    """All rows of some sources, each with its columns, in order."""
    if not sources:
        raise CorpusError("Expected data, got no file. Give at least one.")
    table, classes = Table({}, []), list[dict[str, list[str]]]()
    for source, columns in sources:
        chosen: dict[str, str | int] | None = None
        where = str(source) or "the data"
        for origin, cells in _without_media(source, _rows(source, columns, roles)):
            if chosen is None:
                chosen = choose([str(name) for name in cells], columns, roles, where)
            is_text = len(chosen) == 1 and not roles[next(iter(chosen))].may_be_empty
            if is_text and is_blank(cells, *chosen.values()):
                continue
            for role, name in chosen.items():
                column, cell = roles[role], _cell(cells, name, origin)
                table.add(role, column, column.texts(cell, name, origin))
                if column.is_chat(cell):
                    table.chats.add(len(table))
            table.origins.append(origin)
        if chosen is None or not table.origins:
            raise _no_example(where)
        named = {role: [*source.class_names(name)] for role, name in chosen.items()}
        classes.append({role: names for role, names in named.items() if names})
    if all(each == classes[0] for each in classes):
        table.class_names.update(classes[0])
    if uneven := [role for role, cells in table.columns.items() if len(cells) < len(table)]:
        raise CorpusError(
            f"expected a column for {uneven[0]!r} in all files, got it in some only: "
            f"{', '.join(str(source) for source, _ in sources)}"
        )
    return table


def _rows(source: Source, columns: Columns | None, roles: ColumnSpec) -> Iterator[Row]:
    """Rows with the task's columns, of a source that need not be read as a whole with no others."""

    def wanted(found: Sequence[str]) -> Collection[str | int]:
        if any(role.may_be_chat for role in roles.values()) and {*PART_NAMES, *CHAT_NAMES} & {
            *found
        }:
            return found  # fields beside the messages, or in parts, count too
        tops = (name.partition(".")[0] for name in found)  # of pictures, which are objects
        return choose([*found, *tops], columns, roles, str(source)).values()

    return source.rows(columns, wanted)


def _cell(cells: Mapping[Any, object], name: str | int, origin: str) -> object:
    if name not in cells:
        found = ", ".join(map(repr, cells)) or "none"
        raise CorpusError(f"{origin}: expected a field {name!r}, got the fields: {found}.")
    return cells[name]


def _is_bare(file: Source, roles: ColumnSpec) -> bool:
    """Whether a file is a `.tsv` with two columns and no header.

    A first line with the name of a column, or of two words such as `en` and `de`, is a header.
    """
    if not isinstance(file, File) or file.ending != ".tsv":
        return False
    rows = (
        [cell.strip() for cell in cells] for _, cells in split_at_tabs(file.path, file.how.as_is)
    )
    first = next((cells for cells in rows if any(cells)), [])
    known = {name for role, column in roles.items() for name in (role, *column.names)}
    is_header = bool(known & {*first}) or all(map(_NAME.fullmatch, first))
    return len(first) == 2 and not is_header


def read_parallel(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table with both sides of a text, and further targets if there are any.

    Raises:
        CorpusError: as in `read_data`; or if two text files differ in their numbers of lines.
    """
    if columns or not are_two_texts(data):
        sides = dict(zip((role for role in roles if roles[role].needed), (0, 1), strict=True))
        each = ((source, not columns and _is_bare(source, roles)) for source in sources_of(data))
        return table_of(
            [(source, sides if is_bare else columns) for source, is_bare in each], roles
        )
    files = named_files(data)
    pairs = list(read_pair(Path(files[0]), Path(files[1])))
    if not pairs:
        raise _no_example(files[0])
    table = Table({}, [pair.origin for pair in pairs])
    for pair in pairs:
        for role, text in zip(("source", "target"), (pair.text, pair.target), strict=True):
            table.add(role, roles[role], (str(text),))
    return table


def are_two_texts(data: Data) -> bool:
    """Whether data are two files that are neither tables nor data sets of the hub."""
    files = [] if is_held(data) else named_files(data)
    tables = [is_data_set(file) or ending(file) in FORMATS for file in files]
    return len(tables) == 2 and not any(tables)


def check_columns(
    data: Data, columns: Columns | None, roles: ColumnSpec, pairs: bool = False
) -> None:
    """Check that files have the columns of a task, by their first rows; the hub is not asked.

    Args:
        data: existing files, or names of data sets on the hub.
        columns: as in `read_data`.
        roles: the columns that the task reads.
        pairs: whether the files are read by `read_parallel`.

    Raises:
        CorpusError: if a file has no row, or lacks a column; says which it has.
        InputError: if `columns` are not the task's, or some are named and some numbered.
    """
    if pairs and not columns and are_two_texts(data):
        return
    for file in _files(data):
        if not (pairs and not columns and _is_bare(file, roles)):
            _first(file, columns, roles)


def are_chats(data: Data, columns: Columns | None, roles: ColumnSpec) -> bool:
    """Whether some file holds chats by its first row, or is on the hub, which is not asked.

    Args:
        data: files that passed `check_columns`.
        columns: as in `read_data`.
        roles: the columns that the task reads.
    """
    if any(map(is_data_set, named_files(data))):
        return True
    for file in _files(data):
        (origin, cells), chosen = _first(file, columns, roles)
        if any(roles[role].is_chat(_cell(cells, name, origin)) for role, name in chosen.items()):
            return True
    return False


def _files(data: Data) -> Iterator[File]:
    """The files of data that are no data sets."""
    how = ReadAs.of(data).how
    yield from (File(Path(each), how) for each in named_files(data) if not is_data_set(each))


def _no_example(where: object) -> CorpusError:
    return CorpusError(f"{where}: expected at least one example, got none")


def _first(
    file: File, columns: Columns | None, roles: ColumnSpec
) -> tuple[Row, dict[str, str | int]]:
    """The first row of a file, and its column for each role."""
    first = next(_rows(file, columns, roles), None)
    if first is None:
        raise _no_example(file)
    return first, choose([str(name) for name in first[1]], columns, roles, str(file))


_COLUMNS = {"upos": 3, "xpos": 4, "deprel": 7}
_KEYED = {"feats": 5, "misc": 9}


def read_word_labels(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table with lists of words and of their labels, one row for each sentence.

    Raises:
        CorpusError: as in `read_data`; if treebanks are mixed with tables, a line of a treebank
            has other columns, or a sentence has more or fewer labels than words.
        InputError: for an unknown column.
    """
    sources = sources_of(data)
    files = [each.path for each in sources if isinstance(each, File) and is_treebank(each.path)]
    if files and len(files) < len(sources):
        raise CorpusError(
            f"Expected treebanks only or tables only, got {', '.join(map(str, sources))}. Give one "
            "kind."
        )
    if not files:
        table = table_of([(source, columns) for source in sources], roles)
    else:
        name = treebank_column(columns, roles)
        table = Table({}, [])
        for file in files:
            for lines in sentence_lines(file):
                if lines.error is not None:
                    raise lines.error
                for number, row in lines.rows:
                    check_word(file, number, row[1].strip())
                rows = [row for _, row in lines.rows]
                table.origins.append(f"{file}:{lines.rows[0][0]}")
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


def _label(row: Sequence[str], name: str) -> str:
    if name in _COLUMNS:
        return row[_COLUMNS[name]].strip() or NO_LABEL
    kind, _, key = name.partition(".")
    pairs = (pair.partition("=") for pair in row[_KEYED[kind]].split("|"))
    return next((value for found, _, value in pairs if found == key and value), NO_LABEL)
