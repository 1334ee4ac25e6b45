"""The store: a result is a record and tables, the same in memory and in the folder of a run.

A record is a dataclass that adds its facts to those of `Record`. A result is a dataclass with a
`record` and fields that `table` declares, each of which is one file beside the record. Reading,
writing, sealing, claiming and copying to CSV go by these declarations.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

from headcount.core import HeadTable, InputError, JsonObject, drawn_html, encoded, parquet, reading
from headcount.results.sealing import Described, by_name, read_sealed, write_sealed
from headcount.vocabulary import ColumnEntry

if TYPE_CHECKING:
    import pandas as pd


One = TypeVar("One", bound="Stored")
Res = TypeVar("Res", bound="Result[Any]")
Row = TypeVar("Row")


@dataclass(frozen=True)
class Stored:
    """A dataclass that is one file."""

    FILE: ClassVar[str]
    """Name of its file."""
    COMMAND: ClassVar[str]
    """Command that writes it, e.g. `headcount cluster`."""
    FOLDER: ClassVar[str] = "a run folder"
    """Kind of folder that it lies in, for errors."""
    DESCRIBES: ClassVar[tuple[str, ...] | None] = None
    """Patterns of files beside it that it describes, besides those that `write` is given; None if
    it describes none."""

    @classmethod
    def read(cls: type[One], folder: str | Path) -> One:
        """What the file in a folder says.

        Raises:
            InputError: if there is none, it was changed, is damaged or of a newer version, or a
                file that it describes is missing or another.
        """
        path, describes = Path(folder) / cls.FILE, cls.DESCRIBES is not None
        return cls.from_json(read_sealed(path, cls.COMMAND, cls.FOLDER, describes))

    @classmethod
    def from_json(cls: type[One], found: JsonObject) -> One:
        """What the contents of its file say.

        Raises:
            InputError: if a field is missing or has another type; the error names it.
        """
        return found.decode(cls)

    def to_json(self) -> dict[str, Any]:
        """The contents of its file."""
        return encoded(self)

    def write(self, folder: Path, files: Described | Sequence[str] = ()) -> None:
        """Write the file with its own hash and those of the files that it describes, which exist.

        Args:
            folder: the folder.
            files: files in it that it describes, besides `DESCRIBES`.
        """
        described = None
        if self.DESCRIBES is not None:
            beside = [path.name for each in self.DESCRIBES for path in folder.glob(each)]
            described = {**dict.fromkeys(beside), **by_name(files)}
        write_sealed(folder / self.FILE, self.to_json(), described)


@dataclass(frozen=True, kw_only=True)
class Record(Stored):
    """Facts that the record of every command holds."""

    DESCRIBES = ()

    signature: str
    """Model, data, options and versions that the numbers depend on, in one text."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was left out, truncated or not measured."""
    timings: Mapping[str, float] = field(default_factory=dict, metadata={"omitted": True})
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if the result was made in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of its file: its own facts, then those that all records hold."""
        found, shared = encoded(self), [each.name for each in fields(Record)]
        last = {name: found.pop(name) for name in shared if name in found}
        return found | last


@dataclass(frozen=True, kw_only=True)
class ModelRecord(Record):
    """Facts that the record of a measurement of one model holds."""

    model: str
    """Name of the model, as given or without its folder."""


@dataclass(frozen=True, kw_only=True)
class CorpusRecord(ModelRecord):
    """Facts that the record of a measurement on files holds."""

    corpora: tuple[str, ...]
    """Names of the files."""


R = TypeVar("R", bound=Record)


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


class Result(Generic[R]):
    """A record, and tables beside it."""

    DOCUMENTS: ClassVar[tuple[str, ...]] = ()
    """Names of the documents that are written beside the tables."""

    record: R
    """Facts that the tables do not hold."""

    def _repr_html_(self) -> str:
        """What the result shows, for a notebook."""
        return drawn_html(self)

    @classmethod
    def files(cls) -> tuple[str, ...]:
        """Names of all files that the result leaves in a folder, the record last."""
        tables = (each.file for _, each in _tables(cls))
        return (*tables, *cls.DOCUMENTS, _record_type(cls).FILE)

    @classmethod
    def read(cls: type[Res], folder: str | Path) -> Res:
        """The result in a folder.

        Raises:
            InputError: if a file is missing, damaged or of a newer version.
        """
        kind, hints, folder = _record_type(cls), _hints(cls), Path(folder)
        record, found = kind.read(folder), dict[str, Any]()
        for each, stored in _tables(cls):
            path = folder / stored.file
            if path.exists() or _is_needed(each):
                advice = f"Run `{kind.COMMAND}` again."
                found[each.name] = read_table(path, hints[each.name], stored, advice)
        return cast("Any", cls)(record=record, **found)

    @classmethod
    def read_if_any(cls: type[Res], folder: Path) -> Res | None:
        """The result in a folder; None if the folder has no such record."""
        there = (folder / _record_type(cls).FILE).exists()
        return cls.read(folder) if there else None

    def write(self, folder: Path, files: Described | Sequence[str] = ()) -> None:
        """Write the tables and, last, the record.

        Args:
            folder: the folder, which exists.
            files: other files in it that the record describes, see `write_sealed`.
        """
        frames = self.frames()
        for _, stored in _tables(type(self)):
            if stored.file not in frames:  # of an earlier run, with its copy
                for name in (stored.file, csv_name(stored.file)):
                    (folder / name).unlink(missing_ok=True)
        for name, frame in frames.items():
            HeadTable(frame).write(folder / name)
        self.record.write(folder, {**dict.fromkeys(frames), **by_name(files)})

    def frames(self) -> "dict[str, pd.DataFrame]":
        """The data frame of every file."""
        hints, found = _hints(type(self)), {}
        for each, stored in _tables(type(self)):
            value = getattr(self, each.name)
            if _is_needed(each) or not (value is None or isinstance(value, tuple) and not value):
                found[stored.file] = frame_of(hints[each.name], value)
        return found

    def recorded(self: Res, arguments: Mapping[str, Any]) -> Res:
        """The same result, with the arguments of the command that made it."""
        return replace(cast("Any", self), record=replace(self.record, arguments=arguments))

    @property
    def of_heads(self) -> HeadTable | None:
        """A table of all heads, which a page shows whole; None if that says nothing more."""
        return None

    @property
    def stored_columns(self) -> tuple[ColumnEntry, ...]:
        """The words of the columns that plug-ins brought, which a record stores."""
        return ()

    def check_heads(self, folder: Path, heads: Sequence[str]) -> None:
        """Check that a result beside an analysis is of the model with the analysed heads.

        Raises:
            InputError: if it has a row for other heads.
        """

    @property
    def frame(self) -> "pd.DataFrame":
        """The first table as a data frame."""
        first, _ = next(_tables(type(self)))
        return frame_of(_hints(type(self))[first.name], getattr(self, first.name))


def csv_name(name: str) -> str:
    """Name of the CSV beside a table."""
    return name.removesuffix(".parquet") + ".csv"


def find(rows: Sequence[Row], **wanted: object) -> Row | None:
    """The first row with some fields; None if there is none."""
    return next(iter(select(rows, **wanted)), None)


def select(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows with some fields, in order."""
    return [row for row in rows if all(getattr(row, name) == each for name, each in wanted.items())]


def _tables(kind: type) -> "Iterator[tuple[Field[Any], Table]]":
    for each in fields(kind):
        if (stored := each.metadata.get("table")) is not None:
            yield each, stored


def _is_needed(each: "Field[Any]") -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _hints(kind: type) -> dict[str, Any]:
    import pandas as pd  # only here: files are named and claimed without

    return get_type_hints(kind, localns={"pd": pd})


def _record_type(kind: "type[Result[R]]") -> type[R]:
    (generic,) = kind.__orig_bases__  # type: ignore[attr-defined]
    return get_args(generic)[0]


def frame_of(kind: Any, value: Any) -> "pd.DataFrame":
    """A table as a data frame, with a column for each field of its rows.

    Args:
        kind: type of the table: `tuple[ROW, ...]`, a data frame or a table of heads.
        value: the table.
    """
    import pandas as pd

    if get_origin(kind) is not tuple:
        return getattr(value, "frame", value)
    (row_type, _), hints = get_args(kind), _types(get_args(kind)[0])
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
        needed = [name for name, each in _columns(get_args(kind)[0]).items() if _is_needed(each)]
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
    hints, columns = _types(row_type), dict[str, list[Any]]()
    for name, each in _columns(row_type).items():
        if name in frame:
            columns[name] = _cells(hints[name], cast("Any", frame[name]), name)
        elif _is_needed(each) and len(frame):
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
    hints, found = _types(row_type), {}
    for name, each in _columns(row_type).items():
        if name in row:
            found[name] = _cell(hints[name], row[name], name)
        elif _is_needed(each):
            raise ValueError(f"it has no {name}")
    return row_type(**found)


@cache
def _types(row_type: Any) -> dict[str, Any]:
    """The types of the fields of a row, which are looked up once for all rows of a table."""
    return get_type_hints(row_type)


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
