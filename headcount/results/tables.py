"""Tables of a result: typed rows in memory, and data frames in parquet files beside the record."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, cast, final, get_args, get_origin

from headcount.core import InputError, parquet, reading, types_of

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row")


@final
@dataclass(frozen=True)
class Table:
    """A file of a result."""

    file: str
    """Name of the file, which ends in `.parquet`."""
    holds: str
    """What the file holds, for errors."""
    columns: tuple[str, ...] = ()
    """Columns that a data frame has."""
    key: tuple[str, ...] = ()
    """Columns that name a row; no two rows may have the same name."""
    made: "Callable[[pd.DataFrame], Any] | None" = None
    """Makes the table from its data frame; None for typed rows, or the data frame itself."""


def table(file: str, holds: str, /, **more: Any) -> Any:
    """A field of a result that is one file: a tuple of rows, or a data frame.

    Args:
        file: name of the file.
        holds: what it holds, for errors.
        more: `columns`, `key` and `made` of a `Table`; `default`, with which no file is written, or
            `default_factory`.
    """
    default = {name: more.pop(name) for name in ("default", "default_factory") if name in more}
    return field(metadata={"table": Table(file, holds, **more)}, **default)


def csv_name(name: str) -> str:
    """Name of the CSV beside a table."""
    return name.removesuffix(".parquet") + ".csv"


def find(rows: Sequence[Row], **wanted: object) -> Row | None:
    """The first row with some fields; None if there is none."""
    return next(iter(select(rows, **wanted)), None)


def select(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows with some fields, in order."""
    return [row for row in rows if all(getattr(row, name) == each for name, each in wanted.items())]


def is_needed(each: "Field[Any]") -> bool:
    """Whether a field has no default."""
    return each.default is MISSING and each.default_factory is MISSING


def frame_of(kind: Any, value: Any) -> "pd.DataFrame":
    """A table as a data frame, with a column for each field of its rows.

    Args:
        kind: type of the table: `tuple[ROW, ...]`, a data frame or a table of heads.
        value: the table.
    """
    import pandas as pd  # only here: files are named and claimed without

    if get_origin(kind) is not tuple:
        return getattr(value, "frame", value)
    (row_type, _), hints = get_args(kind), types_of(get_args(kind)[0])
    columns = {name: [getattr(row, name) for row in value] for name in _columns(row_type)}
    numbers = {name: "Int64" for name in columns if hints[name] == int | None}
    return pd.DataFrame(columns).astype(numbers)


def read_table(path: Path, kind: Any, stored: Table, advice: str) -> Any:
    """A table that `frame_of` made.

    Args:
        path: the file.
        kind: type of the table.
        stored: what the file holds.
        advice: what to do if it can't be read.

    Raises:
        InputError: if the file is missing or damaged, lacks a column, or names a row twice.
    """
    if not path.exists():
        raise InputError(f"{path} is missing. {advice}")
    with reading(path, "a table in parquet", advice):
        found = parquet(path)
    needed = stored.columns
    if get_origin(kind) is tuple:
        needed = [name for name, each in _columns(get_args(kind)[0]).items() if is_needed(each)]
    if missing := [name for name in needed if name not in found.column_names]:
        raise InputError(f"{path} lacks the columns {missing}. {advice}")
    with reading(path, stored.holds, advice):
        named = Counter(zip(*(found[name].to_pylist() for name in stored.key), strict=True))
        twice = [name for name, times in named.items() if times > 1]
        if get_origin(kind) is tuple:
            rows = tuple(decoded(get_args(kind)[0], row) for row in found.to_pylist())
        else:
            rows = found.to_pandas()
            rows = rows if stored.made is None else stored.made(rows)
    if twice:
        words = " ".join(map(str, twice[0]))
        raise InputError(f"Expected every row of {path} once, got {words} twice. {advice}")
    return rows


def rows_of(frame: "pd.DataFrame", row_type: type[Row]) -> tuple[Row, ...]:
    """The typed rows of a data frame, column by column: a large table has many thousands.

    Raises:
        ValueError: for a missing value, or one of another type.
    """
    hints, columns = types_of(row_type), dict[str, list[Any]]()
    for name, each in _columns(row_type).items():
        if name in frame:
            columns[name] = _cells(hints[name], cast("Any", frame[name]), name)
        elif is_needed(each) and len(frame):
            raise ValueError(f"it has no {name}")
    rows = zip(*columns.values(), strict=True)
    return tuple(row_type(**dict(zip(columns, row, strict=True))) for row in rows)


def _cells(kind: Any, column: "pd.Series", name: str) -> list[Any]:
    """The values of a column as those of a kind."""
    stored = column.dtype.kind
    if (kind is float and stored in "fiu") or (kind is int and stored in "iu"):
        return column.astype(kind).tolist()
    values = column.tolist()
    if kind is str and all(type(value) is str for value in values):
        return values
    known = column.notna()
    return [
        _cell(kind, value if there else None, name)
        for value, there in zip(values, known, strict=True)
    ]


def decoded(row_type: type[Row], row: Mapping[str, Any]) -> Row:
    """A row by the types of its fields; a missing number is NaN.

    Raises:
        ValueError: for a missing value, or one of another type.
    """
    hints, found = types_of(row_type), {}
    for name, each in _columns(row_type).items():
        if name in row:
            found[name] = _cell(hints[name], row[name], name)
        elif is_needed(each):
            raise ValueError(f"it has no {name}")
    return row_type(**found)


@cache
def _columns(row_type: Any) -> "dict[str, Field[Any]]":
    return {each.name: each for each in fields(row_type)}


def _cell(kind: Any, value: Any, name: str) -> Any:
    """A value of a row as one of a kind; `name` is for errors."""
    is_missing = value is None or (isinstance(value, float) and math.isnan(value))
    if get_origin(kind) is UnionType:
        return None if is_missing else _cell(get_args(kind)[0], value, name)
    if get_origin(kind) is tuple:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError(f"expected a list as {name}, got {value!r}")
        return tuple(_cell(get_args(kind)[0], each, name) for each in value)
    if kind is float and is_missing:
        return math.nan
    allowed = {float: (int, float), int: (int, float)}.get(kind, kind)
    is_other = isinstance(value, bool) and kind is not bool
    is_broken = kind is int and isinstance(value, float) and not value.is_integer()
    if not isinstance(value, allowed) or is_other or is_broken:
        raise ValueError(f"expected {kind.__name__} as {name}, got {value!r}")
    return cast("Any", kind)(value)
