"""Files of rows: `.tsv`, `.csv`, `.jsonl`, `.parquet`, `.txt` and other text; each is streamed.

`.tsv` and `.csv` are read as `delimited` says. `.jsonl` has one object per line, and `a.b` is
field b of object a, as in `.parquet`, which is read by row groups. In a `.txt`, each line, or
each paragraph of wrapped lines, is the column `text`. In a `.txt` or a file with any other
ending, numbered columns are separated by tabs if the first line has one, else by blanks, and the
last column takes the rest of the line (`0 a sad film .`). Blank lines are skipped. Any other line
that can't be used is an error with its number.

A format is a function that yields rows, and its line in `FORMATS`.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from headcount.core import OURS, CorpusError, InputError, Registry, amount, guarded_each, reason
from headcount.corpora.delimited import check_distinct, of_width, split_as_csv, split_at_tabs
from headcount.corpora.lines import (
    COMPRESSED,
    USUAL,
    HowRead,
    ending,
    json_of,
    numbered_lines,
    texts_of,
)
from headcount.corpora.messages import told
from headcount.corpora.picture_rows import near
from headcount.corpora.pictures import picture_of, tar_rows, with_its_folder
from headcount.corpora.table import Columns, is_numbered

PARQUET_ROWS = 1024
"""Number of rows of a `.parquet` in memory at once."""

Wanted = Callable[[Sequence[str]], Collection[str | int]]
"""Says which of a file's columns are read, in formats that need not read them all."""

Row = tuple[str, Mapping[Any, object]]
"""The origin of a row, and its cells by name or number."""


@final
@dataclass(frozen=True)
class File:
    """A file of rows."""

    path: Path
    how: HowRead = USUAL
    """How it is read where there is a choice."""

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """Its name, without the folder."""
        return self.path.resolve().name

    @property
    def ending(self) -> str:
        """Its ending that says what it holds."""
        return ending(self.path)

    @property
    def format(self) -> "Format":
        """How its rows are read, by its ending."""
        return FORMATS[self.ending] if self.ending in FORMATS else LINES

    def rows(
        self,
        columns: Columns | None = None,
        wanted: Wanted | None = None,
        expected: str = "a JSON object",
    ) -> Iterator[Row]:
        """Yield the origin and the cells of every row.

        Args:
            columns: the columns that will be read, with their names or numbers.
            wanted: chooses among columns that need not be read; all are read if None.
            expected: what a line of a `.jsonl` must be, for errors.

        Raises:
            CorpusError: if it can't be read, or for a bad line.
            InputError: if columns are numbered that have names only, or some are named and some are
                numbered.
        """
        form, path = self.format, self.path
        numbers = [int(each) for each in (columns or {}).values()] if is_numbered(columns) else []
        if numbers and not form.has_numbers:
            raise InputError(
                f"{path}: expected names for fields of a {self.ending}, got column {numbers[0]}"
            )
        check_ending(path)
        if form is LINES and self.ending != ".txt" and not numbers:
            raise CorpusError(
                f"{path}: expected a {', '.join(FORMATS)} or .txt file, got the ending "
                f"{path.suffix!r}. Rename the file, or, if one blank separates its columns, number "
                "them from 0: label=0 text=1, or text=0 if each line is a text."
            )
        if wanted is not None and form.some_rows is not None:
            found = form.some_rows(self, wanted)
        else:
            found = form.rows(self, max(numbers) + 1 if numbers else None)
        if form is not LINES and (plugin := FORMATS.origin(form)) != OURS:
            found = guarded_each(plugin, f"read {path}", map(_pair, found))
            found = ((f"{origin} (by the plug-in {plugin})", row) for origin, row in found)
        for origin, row in found:
            if not isinstance(row, Mapping):
                way = (
                    "a line for each: jq -c '.[]' FILE"
                    if isinstance(row, list)
                    else '{"text": ...}.'
                )
                raise CorpusError(
                    f"{origin}: expected {expected}, got a {type(row).__name__}. Write {way}"
                )
            row = near(with_its_folder(row, path), path.parent, columns)
            yield origin, cells_of(row, origin, columns, form.fills)

    def class_names(self, column: str | int) -> Sequence[str]:
        """Class names of a column that numbers its classes, which `datasets` writes in Parquet."""
        if self.ending != ".parquet":
            return ()
        from pyarrow import parquet

        held = (parquet.read_schema(self.path).metadata or {}).get(b"huggingface", b"{}")
        feature = json.loads(held).get("info", {}).get("features", {}).get(column) or {}
        return (feature.get("feature") or feature).get("names") or ()


@final
@dataclass(frozen=True)
class Format:
    """How files of one kind are read.

    >>> from headcount.core import register
    >>> kept = Format(".kept", lambda file, _: ((f"{file}:1", {"text": "a text"}),))
    >>> register(kept).name  # doctest: +SKIP
    '.kept'
    """

    registry: ClassVar[str] = "headcount.corpora.formats:FORMATS"

    name: str
    """Ending of the files."""
    rows: Callable[[File, int | None], Iterator[tuple[str, Any]]]
    """Yields the origin and the cells of every row. Told how many columns there must be if columns
    are numbered, else None."""
    some_rows: Callable[[File, Wanted], Iterator[tuple[str, Any]]] | None = None
    """The same of some columns only; None if a file is read as a whole."""
    has_numbers: bool = True
    """Whether columns may be numbered."""
    has_types: bool = True
    """Whether a cell's type tells a text from a number or a list; otherwise all cells are texts."""
    fills: bool = False
    """Whether every object has all fields that another one has, empty ones included."""
    may_be_blank: bool = True
    """Whether a corpus skips a row whose text is blank, which is an error otherwise."""


def check_ending(path: Path) -> None:
    """Check that a file is not of a kind that another program turns into one that is read.

    Raises:
        CorpusError: if it is; says which program.
    """
    kind = "".join(path.suffixes[-2:]) if path.suffix in COMPRESSED else path.suffix
    if (way := _OTHERS.get(kind)) is not None:
        advice = way.format(path=path, stem=path.with_suffix(""))
        raise CorpusError(
            f"{path}: expected a {', '.join(FORMATS)}, .txt or .conllu file, got the ending "
            f"{kind}. {advice}"
        )


def is_blank(row: Mapping[Any, object], name: str | int) -> bool:
    """Whether a row has a cell of text without any."""
    cell = row.get(name)
    return isinstance(cell, str) and not cell.strip()


def cells_of(
    row: Mapping[Any, object], origin: str, columns: Columns | None, filled: bool = False
) -> dict[Any, object]:
    """The cells of a row: its chats, and its other fields with those of nested objects.

    Args:
        row: the row as its format has it.
        origin: file and line, for errors.
        columns: the columns that will be read.
        filled: whether the format fills in every field of an object that another row has.
    """
    plain = {name: _without_arrays(cell) for name, cell in row.items()}
    return flattened(told(plain, origin, (columns or {}).values(), filled))


def flattened(row: Mapping[Any, object]) -> dict[Any, object]:
    """Fields of nested objects, under `outer.inner`."""
    flat: dict[Any, object] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in flattened(value).items()}
        else:
            flat[name] = value
    return flat


def _without_arrays(cell: Any) -> Any:
    """A cell with lists and numbers in place of arrays, and files in place of pictures."""
    cell = picture_of(cell)
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    if isinstance(cell, Mapping):
        return {name: _without_arrays(each) for name, each in cell.items()}
    return [*map(_without_arrays, cell)] if isinstance(cell, list) else cell


def _tabs(file: File, width: int | None) -> Iterator[Row]:
    yield from of_width(split_at_tabs(file.path, file.how.as_is), file.path, width)


def _commas(file: File, width: int | None) -> Iterator[Row]:
    yield from of_width(split_as_csv(file.path), file.path, width)


def _lines(file: File, width: int | None) -> Iterator[Row]:
    """Texts, each a line or a paragraph, or the cells of every line."""
    path = file.path
    if width is None:
        for number, text in texts_of(path, file.how):
            yield f"{path}:{number}", {"text": text}
        return
    separator = None
    for number, line in numbered_lines(path):
        if not line.strip() and "\t" not in line:
            continue
        separator = separator or ("tab" if "\t" in line else "blank")
        cells = line.split("\t") if separator == "tab" else line.strip().split(None, width - 1)
        if len(cells) < width:
            raise CorpusError(
                f"{path}:{number}: expected {amount(width, 'column')} separated by a {separator}, "
                f"got {len(cells)}. Complete the line."
            )
        yield f"{path}:{number}", dict(enumerate(cells))


def _objects(file: File, _: int | None) -> Iterator[tuple[str, Any]]:
    for number, line in numbered_lines(file.path):
        if line.strip():
            yield f"{file}:{number}", json_of(line, f"{file}:{number}")


def _parquet(file: File, wanted: Wanted = lambda names: names) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet

    number, path = 0, file.path
    try:
        with parquet.ParquetFile(path) as opened:
            check_distinct(opened.schema_arrow.names, str(path), "Rename a column.")
            leaves = [*_leaves(opened.schema_arrow)]
            chosen = [str(each) for each in wanted(leaves)]
            chosen = None if chosen == leaves else chosen  # looking up thousands takes long
            for group in range(opened.num_row_groups):
                for batch in opened.iter_batches(PARQUET_ROWS, [group], chosen or None):
                    for row in batch.to_pylist():
                        number += 1
                        yield f"{path} row {number}", row
    except InputError:
        raise
    except (
        ArrowException,
        OSError,
        ValueError,
        OverflowError,
    ) as error:  # damaged files raise many kinds
        raise CorpusError(
            f"{path}: expected a Parquet file, but it can't be read after row {number}: "
            f"{reason(error).rstrip('.')}. Replace it."
        ) from error


def _leaves(fields: Any, outer: str = "") -> Iterator[str]:
    """Names of columns, those of nested objects as `outer.inner`."""
    for each in fields:
        name = f"{outer}{each.name}"
        if each.type.num_fields and "struct" in str(each.type)[:6]:
            yield from _leaves(each.type, f"{name}.")
        else:
            yield name


_OTHERS: Mapping[str, str] = {
    ".json": "Write a row on each line: jq -c '.[]' {path} > {stem}.jsonl",
    ".zip": "Unpack it: unzip {path}",
    ".7z": "Unpack it: 7z x {path}",
    ".xlsx": "Save it as .csv in the spreadsheet.",
    ".xls": "Save it as .csv in the spreadsheet.",
    ".ods": "Save it as .csv in the spreadsheet.",
    ".arrow": "Name the folder that it is in, which datasets has saved.",
    **{f".parquet{each}": "Parquet is compressed inside: unpack the file." for each in COMPRESSED},
}
"""What to do with files of other kinds, by their endings."""
LINES = Format(".txt", _lines, has_types=False)
"""Lines of text, in a `.txt` or, with numbered columns, in a file with any other ending."""
TSV = Format(".tsv", _tabs, has_types=False)
CSV = Format(".csv", _commas, has_types=False)
JSONL = Format(".jsonl", _objects, has_numbers=False, may_be_blank=False)
PARQUET = Format(
    ".parquet", lambda file, _: _parquet(file), _parquet, has_numbers=False, fills=True
)
TAR = Format(".tar", lambda file, _: tar_rows(file.path), has_numbers=False)
FORMATS: Registry[Format] = Registry(
    "formats",
    "a format",
    {
        f".{name.lower()}": f"headcount.corpora.formats:{name}"
        for name in ("TSV", "CSV", "JSONL", "PARQUET", "TAR")
    },
)
"""Tables, by their endings."""


def _pair(found: Any) -> Row:
    """What a plug-in's format yields, if that is where a row is from and its cells.

    Raises:
        InputError: if it is not.
    """
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)):
        raise InputError(f"Expected pairs of an origin and a dict of cells, got {found!r:.80}")
    return str(found[0]), found[1]
