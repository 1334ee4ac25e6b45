"""The store: a result is a record and tables, the same in memory and in the folder of a run.

A record is a dataclass that adds its facts to those of `Record`. A result is a dataclass with a
`record` and fields that `table` declares, each of which is one file beside the record. Reading,
writing, sealing, claiming and copying to CSV go by these declarations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, get_args, get_type_hints

from headcount.core import HeadTable, JsonObject, drawn_html, encoded
from headcount.results.sealing import Described, by_name, read_sealed, write_sealed
from headcount.results.tables import Table, csv_name, frame_of, is_needed, read_table
from headcount.vocabulary import ColumnEntry

if TYPE_CHECKING:
    import pandas as pd


One = TypeVar("One", bound="Stored")
Res = TypeVar("Res", bound="Result[Any]")


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
            if path.exists() or is_needed(each):
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
            if is_needed(each) or not (value is None or isinstance(value, tuple) and not value):
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


def _tables(kind: type) -> "Iterator[tuple[Field[Any], Table]]":
    for each in fields(kind):
        if (stored := each.metadata.get("table")) is not None:
            yield each, stored


def _hints(kind: type) -> dict[str, Any]:
    import pandas as pd  # only here: files are named and claimed without

    return get_type_hints(kind, localns={"pd": pd})


def _record_type(kind: "type[Result[R]]") -> type[R]:
    (generic,) = kind.__orig_bases__  # type: ignore[attr-defined]
    return get_args(generic)[0]
