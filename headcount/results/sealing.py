"""Sealing: a record is written last and holds hashes of the files that it describes, and its own.

A folder is then complete and of one run, or reading its record raises an error. Two records can
describe one table, as an assessment adds columns to the table of heads: each seals its own columns.
Seals tell of accidents: whoever changes a file on purpose can write its new hash, too.
"""

import hashlib
import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headcount import __version__
from headcount.core import (
    HeadTable,
    InputError,
    JsonObject,
    encoded,
    inside,
    reading,
    sha256_of,
    write_json,
)
from headcount.results.signature import Signature

SEALS = "files"
"""Field of a record with the hash of every file that it describes, by name."""

OWN = "sha256"
"""Last field of a record: the hash of all others."""

WRITER = "headcount"
"""Field with the version that wrote a record without a signature, and part of a signature."""

HASHED = (0, 3)
"""The first version whose records hold their own hash."""


Described = Mapping[str, Sequence[str] | None]
"""Names of files that a record describes, each with the columns if it is not the entire file."""


def write_record(path: Path, record: Any) -> None:
    """Write a record, or its JSON, completely or not at all."""
    write_json(path, encoded(record))


def write_sealed(path: Path, record: Any, files: Described | Iterable[str] | None = ()) -> None:
    """Write a record with the hashes of all files that it describes.

    `read_sealed` reads it and checks these hashes, and the record's own, its last field.

    Args:
        path: File of the record, e.g. `OUT/curve.json`.
        record: The record, or its JSON.
        files: Names of the files beside it that were written before and that it describes; a
            mapping gives the columns of a table of which other records describe other columns. None
            for a record that never describes any.
    """
    found = encoded(record)
    found |= {} if found.get("signature") else {WRITER: __version__}
    found |= {} if files is None else sealed(path.parent, files)
    write_json(path, found | {OWN: record_sha256(found)})


def read_sealed(
    path: Path, command: str, folder: str = "a run folder", describes: bool = True
) -> JsonObject:
    """The object in a file that `write_sealed` wrote, once the files that it describes fit.

    Args:
        path: the file.
        command: the command that writes it.
        folder: the kind of folder that has such a file, for errors.
        describes: whether records of its kind describe files.

    Raises:
        InputError: as in `JsonObject.read`, if the record was changed, or if a file that it
            describes is missing, was changed, or is of another run.
    """
    found = JsonObject.read(path, command, folder)
    again = f"Run `{command}` again."
    _check_own(path, found.values, again)
    if SEALS in found.values:
        _check_files(path, found.values[SEALS], again)
    elif describes:
        warnings.warn(
            f"{path} has no hashes of the files that it describes, because an earlier version of "
            "headcount wrote it. Files of two runs would not be noticed",
            stacklevel=2,
        )
    return found


def by_name(files: Described | Iterable[str]) -> Described:
    """Files that a record describes, entirely unless it says which columns."""
    return files if isinstance(files, Mapping) else dict.fromkeys(files)


def sealed(folder: Path, files: Described | Iterable[str]) -> dict[str, Any]:
    """The field of a record that holds the hashes of the files that it describes."""
    described = by_name(files)
    return {SEALS: {name: _seal(folder / name, described[name]) for name in sorted(described)}}


def _seal(file: Path, columns: Sequence[str] | None) -> Any:
    if columns is None:
        return sha256_of(file)
    return {"columns": list(columns), "sha256": columns_sha256(file, columns)}


def sealed_columns(path: Path, table: str) -> frozenset[str]:
    """The columns of a table that a record describes; none if it is not there or is damaged.

    Args:
        path: the record's file.
        table: name of the table beside it.
    """
    seal: Any = None
    with suppress(InputError):
        seals = JsonObject.read(path, "headcount", "a folder").values.get(SEALS)
        seal = seals.get(table) if isinstance(seals, dict) else None
    return frozenset(seal["columns"]) if isinstance(seal, dict) else frozenset()


def record_sha256(record: Mapping[str, Any]) -> str:
    """Hash of all fields of a record but its own hash."""
    values = {name: each for name, each in record.items() if name != OWN}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _check_own(path: Path, record: Mapping[str, Any], again: str) -> None:
    """Check that a record is as it was written; one of an earlier version has no hash."""
    if OWN not in record and _writer(record) < HASHED:
        return
    if record.get(OWN) != record_sha256(record):
        raise InputError(
            f"Expected {path} as headcount wrote it, got other contents. It was changed or damaged "
            f"since. {again}"
        )


def _writer(record: Mapping[str, Any]) -> tuple[int, ...]:
    """The first two numbers of the version that wrote a record; none if it is not stated."""
    signature = str(record.get("signature") or "")
    stated = record.get(WRITER) if not signature else Signature.parse(signature).get(WRITER)
    found = re.match(r"(\d+)\.(\d+)", str(stated))
    return () if found is None else (int(found[1]), int(found[2]))


def _check_files(path: Path, seals: Any, again: str) -> None:
    """Check that the files that a record describes are as they were when it was written."""
    with reading(path, "hashes by file name", again):
        expected = [(inside(path.parent, name), seal) for name, seal in seals.items()]
        found = [(file, *_parts(seal)) for file, seal in expected]
    for file, columns, sha256 in found:
        if not file.is_file():
            raise InputError(f"{path} describes {file.name}, which is missing. {again}")
        now = sha256_of(file) if columns is None else columns_sha256(file, columns, again)
        if now != sha256:
            raise InputError(
                f"Expected {file} as {path.name} describes it, got other contents. It "
                f"belongs to another, interrupted run, or it was changed. {again}"
            )


def _parts(seal: Any) -> tuple[list[str] | None, str]:
    """The columns that a seal covers, None for an entire file, and the hash."""
    if isinstance(seal, str):
        return None, seal
    return [str(name) for name in seal["columns"]], str(seal["sha256"])


def columns_sha256(file: Path, columns: Sequence[str], advice: str = "") -> str:
    """Hash of some columns of a table, independent of its other columns.

    Args:
        file: the table.
        columns: names of the columns.
        advice: what to do if the table can't be read.

    Raises:
        InputError: If the table can't be read, or lacks a column.
    """
    with reading(file, f"a table with the columns {', '.join(map(str, columns))}", advice):
        frame = HeadTable.read(file).frame
        given = {name: frame[name].to_numpy(dtype=object, na_value=None) for name in columns}
        values = {name: [_plain(each) for each in column] for name, column in given.items()}
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value of a table as JSON, the same after the table is written and read again."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # an array, or a number of numpy
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bool | str):
        return str(value)
    if value is None or not math.isfinite(value):
        return str(float("nan") if value is None else float(value))
    return float(value)
