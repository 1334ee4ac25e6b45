"""Reading a task's data from `.tsv`, `.csv`, `.jsonl`, `.txt`, other text files, and `hf://`.

`.tsv` and `.csv` have a header if columns are named, and none if columns are numbered from 0; TSV
has no quotes. A `.tsv` of parallel text may have two columns and no header. `.jsonl` has one object
per line, and `a.b` is field b of object a. In a `.txt`, each line is the column `text`. In a `.txt`
or a file with any other ending, numbered columns are separated by tabs if the first line has one,
else by blanks, and the last column takes the rest of the line (`0 a sad film .`).
Blank lines are skipped, as are rows without any text if a row is one text. Any other line that
can't be used is an error with its number.
"""

import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headcount.core import CorpusError, InputError, amount
from headcount.corpora.held import HUB, Held, Row, flattened, is_held
from headcount.corpora.hub import hub_data
from headcount.corpora.parallel import read_pair
from headcount.corpora.table import (
    Columns,
    ColumnSpec,
    Data,
    Table,
    choose,
    is_numbered,
)
from headcount.corpora.text import json_of, numbered_lines

LONGEST = min(sys.maxsize, 2**31 - 1)
"""Largest number of characters in a cell, e.g. a book; the `csv` module allows no more."""

_NAME = re.compile(r"[a-z][a-z0-9]*([_.-]\w+)*|[A-Z]{2,3}")
"""Pattern of a cell that may name a column rather than be text, e.g. `de` or `deu_Latn`."""


def read_data(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table of one file, of several, or of rows or columns held in memory."""
    if is_held(data):
        return _table([Held(data)], columns, roles)
    return read_table(named_files(data), columns, roles)


def named_files(data: Data) -> list[str | Path]:
    """The names of files, of data that are not held in memory."""
    return [data] if isinstance(data, str | Path) else list(data)


def read_table(files: Sequence[str | Path], columns: Columns | None, roles: ColumnSpec) -> Table:
    """Read all rows of some files, in order.

    Args:
        files: paths, or `hf://dataset/config?split=validation`.
        columns: the task's name of a column, mapped to its name or number in the files; the
            others are looked up under the names that `roles` lists.
        roles: the columns that the task reads.

    Raises:
        CorpusError: if a file can't be read, lacks a column or has no row, or if a line can't
            be used (`file:line`).
        InputError: if `columns` are not the task's, or some are named and some numbered.
    """
    if not files:
        raise CorpusError("Expected data, got no file. Give at least one.")
    return _table([_source(file, columns) for file in files], columns, roles)


def _source(file: str | Path, columns: Columns | None) -> "Held | _File":
    return hub_data(str(file)) if str(file).startswith(HUB) else _File(Path(file), columns)


@final
@dataclass(frozen=True)
class _File:
    """Rows of a file."""

    path: Path
    columns: Columns | None

    @property
    def name(self) -> str:
        return str(self.path)

    def rows(self) -> Iterator[Row]:
        return _rows(self.path, self.columns)

    def class_names(self, column: str | int) -> list[str]:
        return []


def _table(sources: "Sequence[Held | _File]", columns: Columns | None, roles: ColumnSpec) -> Table:
    """All rows of some sources, in order."""
    table = Table({}, [])
    for source in sources:
        chosen: dict[str, str | int] | None = None
        where = source.name or "the data"
        for origin, cells in source.rows():
            if chosen is None:
                chosen = choose([str(name) for name in cells], columns, roles, where)
            is_text = len(chosen) == 1 and not roles[next(iter(chosen))].may_be_empty
            if is_text and _is_blank(cells, *chosen.values()):
                continue
            for role, name in chosen.items():
                column, cell = roles[role], _cell(cells, name, origin)
                table.add(role, column, column.texts(cell, name, origin))
                if column.is_chat(cell):
                    table.chats.add(len(table))
            table.origins.append(origin)
        if chosen is None or not table.origins:
            raise CorpusError(f"{where}: expected at least one example, got none")
        if len(sources) == 1:
            named = {role: source.class_names(name) for role, name in chosen.items()}
            table.class_names.update({role: names for role, names in named.items() if names})
    _check_even(table, [source.name for source in sources])
    return table


def _check_even(table: Table, names: Sequence[str]) -> None:
    """Check that all sources have the same columns."""
    if uneven := [role for role, cells in table.columns.items() if len(cells) < len(table)]:
        raise CorpusError(
            f"expected a column for {uneven[0]!r} in all files, got it in some only: "
            f"{', '.join(names)}"
        )


def _rows(path: Path, columns: Columns | None) -> Iterator[Row]:
    numbers = [int(number) for number in (columns or {}).values()] if is_numbered(columns) else []
    width = max(numbers) + 1 if numbers else None
    if path.suffix in (".tsv", ".csv"):
        lines = _split_at_tabs(path) if path.suffix == ".tsv" else _split_as_csv(path)
        return _of_width(lines, width, path)
    if path.suffix == ".jsonl":
        if width is not None:
            raise InputError(
                f"{path}: expected names for fields of a .jsonl, got column {numbers[0]}"
            )
        return _objects(path)
    if width is None and path.suffix != ".txt":
        raise CorpusError(
            f"{path}: expected a .tsv, .csv, .jsonl or .txt file, got the ending {path.suffix!r}. "
            "Rename the file, or, if one blank separates its columns, number them from 0: label=0 "
            "text=1, or text=0 if each line is a text."
        )
    return _lines(path, width)


def _split_at_tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        yield number, line.split("\t")


def _split_as_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for _, line in numbered_lines(path)), strict=True)
    first = 1
    longest = csv.field_size_limit(LONGEST)
    try:
        for cells in reader:
            yield first, cells
            first = reader.line_num + 1
    except csv.Error as error:
        raise CorpusError(
            f"{path}:{first}: expected comma-separated columns, but {error}. Fix the quotes."
        ) from error
    finally:
        csv.field_size_limit(longest)


def _of_width(
    lines: Iterator[tuple[int, list[str]]], least: int | None, path: Path
) -> Iterator[Row]:
    """Rows with as many cells as the first one, which is the header if columns are named.

    A blank line is skipped; a row whose cells are all empty is kept.
    """
    header: list[str] | None = None
    width = first = 0
    for number, cells in lines:
        if len(cells) < 2 and not "".join(cells).strip():
            continue
        if not width:
            width, first = len(cells), number
            if least is None:
                header = _header(cells, f"{path}:{number}")
                continue
            if width < least:
                raise CorpusError(
                    f"{path}:{number}: expected a column {least - 1} (counted from 0), got "
                    f"{amount(width, 'column')}. Number the columns from 0 to {width - 1}."
                )
        if len(cells) != width:
            raise CorpusError(
                f"{path}:{number}: expected {amount(width, 'column')} as in line {first}, got "
                f"{len(cells)}. Fix the line."
            )
        yield f"{path}:{number}", dict(zip(header or range(width), cells, strict=True))


def _header(cells: list[str], origin: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    if twice := [name for name in names if names.count(name) > 1]:
        raise CorpusError(
            f"{origin}: expected a header with distinct names, got {twice[0]!r} twice. If the "
            "file has no header, number the columns from 0."
        )
    return names


def _lines(path: Path, width: int | None) -> Iterator[Row]:
    separator = None
    for number, line in numbered_lines(path):
        if not line.strip() and (width is None or "\t" not in line):
            continue
        origin = f"{path}:{number}"
        if width is None:
            yield origin, {"text": line.strip()}
            continue
        separator = separator or ("tab" if "\t" in line else "blank")
        cells = line.split("\t") if separator == "tab" else line.strip().split(None, width - 1)
        if len(cells) < width:
            raise CorpusError(
                f"{origin}: expected {amount(width, 'column')} separated by a {separator}, got "
                f"{len(cells)}. Complete the line."
            )
        yield origin, dict(enumerate(cells))


def _objects(path: Path) -> Iterator[Row]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        origin = f"{path}:{number}"
        row = json_of(line, origin)
        if not isinstance(row, dict):
            raise CorpusError(
                f"{origin}: expected a JSON object, got a {type(row).__name__}. Write "
                '{"text": ...}.'
            )
        yield origin, flattened(row)


def _is_blank(cells: Mapping[Any, object], name: str | int) -> bool:
    cell = cells.get(name)
    return isinstance(cell, str) and not cell.strip()


def _cell(cells: Mapping[Any, object], name: str | int, origin: str) -> object:
    if name not in cells:
        found = ", ".join(map(repr, cells)) or "none"
        raise CorpusError(f"{origin}: expected a field {name!r}, got the fields: {found}.")
    return cells[name]


TABLES = (".tsv", ".csv", ".jsonl")


def read_sides(files: Sequence[str | Path], columns: Columns | None, roles: ColumnSpec) -> Table:
    """`read_table` for two sides of a text, where a `.tsv` may be source<TAB>target only."""
    bare = [not columns and _is_bare(file, roles) for file in files]
    if not any(bare):
        return read_table(files, columns, roles)
    sides = [role for role, column in roles.items() if column.needed]
    by_number, table = dict(zip(sides, (0, 1), strict=True)), Table({}, [])
    for file, is_bare in zip(files, bare, strict=True):
        table.extend(read_table([file], by_number if is_bare else columns, roles))
    _check_even(table, [*map(str, files)])
    return table


def _is_bare(file: str | Path, roles: ColumnSpec) -> bool:
    """Whether a file is a `.tsv` with two columns and no header.

    A first line with the name of a column, or of two words such as `en` and `de`, is a header.
    """
    if str(file).startswith(HUB) or Path(file).suffix != ".tsv":
        return False
    rows = ([cell.strip() for cell in cells] for _, cells in _split_at_tabs(Path(file)))
    first = next((cells for cells in rows if any(cells)), [])
    known = {name for role, column in roles.items() for name in (role, *column.names)}
    is_header = bool(known & {*first}) or all(map(_NAME.fullmatch, first))
    return len(first) == 2 and not is_header


def read_parallel(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table with the columns `source` and `target`, and further targets if there are any.

    Raises:
        CorpusError: as in `read_data`; or if two text files differ in their numbers of lines.
    """
    if is_held(data):
        return read_data(data, columns, roles)
    files = named_files(data)
    if columns or not are_two_texts(files):
        return read_sides(files, columns, roles)
    pairs = list(read_pair(Path(files[0]), Path(files[1])))
    if not pairs:
        raise CorpusError(f"{files[0]}: expected at least one example, got none")
    table = Table({}, [pair.origin for pair in pairs])
    for pair in pairs:
        for role, text in zip(("source", "target"), (pair.text, pair.target), strict=True):
            table.add(role, roles[role], (str(text),))
    return table


def are_two_texts(files: Sequence[str | Path]) -> bool:
    """Whether files are two that are neither tables nor data sets of the hub."""
    tables = [str(file).startswith(HUB) or Path(file).suffix in TABLES for file in files]
    return len(tables) == 2 and not any(tables)


def check_columns(
    files: Sequence[str | Path], columns: Columns | None, roles: ColumnSpec, pairs: bool = False
) -> None:
    """Check that files have the columns of a task, by their first rows; the hub is not asked.

    Args:
        files: existing files, or names of data sets on the hub.
        columns: as in `read_table`.
        roles: the columns that the task reads.
        pairs: whether the files are read by `read_parallel`.

    Raises:
        CorpusError: if a file has no row, or lacks a column; says which it has.
        InputError: if `columns` are not the task's, or some are named and some numbered.
    """
    if pairs and not columns and are_two_texts(files):
        return
    for file in files:
        if str(file).startswith(HUB) or (pairs and not columns and _is_bare(file, roles)):
            continue
        _first(file, columns, roles)


def are_chats(files: Sequence[str | Path], columns: Columns | None, roles: ColumnSpec) -> bool:
    """Whether some file holds chats by its first row, or is on the hub, which is not asked.

    Args:
        files: files that passed `check_columns`.
        columns: as in `read_table`.
        roles: the columns that the task reads.
    """
    for file in files:
        if str(file).startswith(HUB):
            return True
        (origin, cells), chosen = _first(file, columns, roles)
        if any(roles[role].is_chat(_cell(cells, name, origin)) for role, name in chosen.items()):
            return True
    return False


def _first(
    file: str | Path, columns: Columns | None, roles: ColumnSpec
) -> tuple[Row, dict[str, str | int]]:
    """The first row of a file, and its column for each role."""
    first = next(iter(_rows(Path(file), columns)), None)
    if first is None:
        raise CorpusError(f"{file}: expected at least one example, got none")
    return first, choose([str(name) for name in first[1]], columns, roles, str(file))
