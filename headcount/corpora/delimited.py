"""Delimited files: `.tsv` and `.csv`, as spreadsheets, pandas and people write them.

They have a header if columns are named, and none if columns are numbered from 0. TSV has no quotes,
except those that a spreadsheet wrote; of a `.csv`, what separates its columns is found.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from headcount.core import CorpusError, amount
from headcount.corpora.lines import note, numbered_lines

LONGEST = min(sys.maxsize, 2**31 - 1)
"""Largest number of characters in a cell, e.g. a book; the `csv` module allows no more."""
SAMPLE = 100
"""Number of first rows that say how a file is written."""
DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What may separate the columns of a `.csv` in place of commas."""
_STATED = re.compile('"?sep=(.)"?')
"""First line with which spreadsheets say what separates the columns."""


def split_at_tabs(path: Path, as_is: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line, without the quotes of spreadsheets."""
    if is_quoted(path, as_is):
        note(f"{path}: quotes around cells are left out, as of a spreadsheet; --as-is keeps them")
        yield from _csv_rows(path, "\t")
        return
    for number, line in numbered_lines(path):
        yield number, line.split("\t")


def is_quoted(path: Path, as_is: bool) -> bool:
    """Whether a `.tsv` has quotes, as spreadsheets and pandas write them; TSV itself has none.

    Its first lines can be read in this way, and all cells of a column are in quotes, or some cell
    needs its quotes: it has tabs inside, or quotes, which are doubled.
    """
    if as_is:
        return False
    lines = [line for _, line in islice(numbered_lines(path), SAMPLE) if line.strip()]
    raw = "\n".join(lines)
    if '"' not in raw:
        return False
    rows = list[list[str]]()
    reader = csv.reader((f"{line}\n" for line in lines), delimiter="\t", strict=True)
    try:
        rows.extend(reader)
    except csv.Error:  # the last cell may go on beyond the first lines
        if reader.line_num < len(lines):
            return False
    in_all = any(
        map(all, zip(*(map(_in_quotes, line.split("\t")) for line in lines), strict=False))
    )
    cells = {cell for row in rows for cell in row}
    needed = any("\t" in cell or ('"' in cell and _quoted(cell) in raw) for cell in cells)
    return len({*map(len, rows)}) == 1 and (in_all or needed)


def _in_quotes(cell: str) -> bool:
    cell = cell.strip()
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


def _unquoted(cell: str) -> str:
    """A cell without the quotes around it; any other cell itself."""
    return cell[1:-1].replace('""', '"') if _in_quotes(cell) else cell


def delimiter_of(path: Path) -> str:
    """What separates the columns of a `.csv`: a comma, or what else its first rows agree on."""
    lines = [line for _, line in islice(numbered_lines(path), SAMPLE)]
    if lines and (stated := _STATED.fullmatch(lines[0])):
        return stated[1]
    if not lines or "," in lines[0]:
        return ","
    for delimiter in DELIMITERS:
        if delimiter in lines[0]:
            with suppress(csv.Error):
                rows = [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row]
                if len({*map(len, rows[:-1] or rows)}) == 1:
                    note(f"{path}: {DELIMITERS[delimiter]} separate its columns")
                    return delimiter
    return ","


def split_as_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row, without a first line that says `sep=;`."""
    is_stated = any(_STATED.fullmatch(line) for _, line in islice(numbered_lines(path), 1))
    for number, cells in _csv_rows(path, delimiter_of(path)):
        if not (number == 1 and is_stated):
            yield number, cells


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row's first line, and its cells without the quotes around them."""
    lines = (f"{line}\n" for _, line in numbered_lines(path))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    cells: list[str] | None = []
    while cells is not None:
        number = reader.line_num + 1
        longest = csv.field_size_limit(LONGEST)  # of all readers, so for no longer than a row
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise CorpusError(
                f"{path}:{number}: expected comma-separated columns, but {error}. Fix the quotes."
            ) from error
        finally:
            csv.field_size_limit(longest)
        if cells is not None:
            yield number, cells


def of_width(
    rows: Iterator[tuple[int, list[str]]], path: Path, least: int | None
) -> Iterator[tuple[str, dict[str | int, str]]]:
    """Rows with as many cells as the first one, which is the header if columns are named.

    A blank line is skipped; a row whose cells are all empty is kept. Empty cells beyond the others,
    which spreadsheets write, are dropped, and so are columns without a name.
    """
    header: list[str] | None = None
    width = first = 0
    for number, cells in rows:
        if len(cells) < 2 and not "".join(cells).strip():
            continue
        if not width:
            width, first = len(cells), number
            if least is None:
                header = [_unquoted(cell.strip()) for cell in cells]
                advice = "If the file has no header, number the columns from 0."
                check_distinct([*filter(None, header)], f"{path}:{number}", advice)
                continue
            if width < least:
                raise CorpusError(
                    f"{path}:{number}: expected a column {least - 1} (counted from 0), got "
                    f"{amount(width, 'column')}. Number the columns from 0 to {width - 1}."
                )
        if not "".join(cells[width:]).strip():
            cells = cells[:width]
        if len(cells) != width:
            raise CorpusError(
                f"{path}:{number}: expected {amount(width, 'column')} as in line {first}, got "
                f"{len(cells)}. Fix the line."
            )
        named = zip(header or range(width), cells, strict=True)
        yield f"{path}:{number}", {name: cell for name, cell in named if name != ""}


def check_distinct(names: list[str], origin: str, advice: str) -> None:
    """Check that no column has the name of another.

    Raises:
        CorpusError: if one does; says what to do.
    """
    if twice := [name for name, number in Counter(names).items() if number > 1]:
        raise CorpusError(
            f"{origin}: expected a header with distinct names, got {twice[0]!r} twice. {advice}"
        )
