"""Sealing: a record is written last and holds hashes of the files that it describes, and its own.

A folder is then complete and of one run, or reading its record raises an error. Two records can
describe one table, as an assessment adds columns to the table of heads: each seals its own columns.
Seals tell of accidents: whoever changes a file on purpose can write its new hash, too.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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

SEALS = "files"
"""Field of a record with the hash of every file that it describes, by name."""

OWN = "sha256"
"""Last field of a record: the hash of all others."""


Described = Mapping[str, Sequence[str] | None]
"""Names of files that a record describes, each with the columns if it is not the entire file."""


def write_record(path: Path, record: Any) -> None:
    """Write a record, or its JSON, completely or not at all."""
    write_json(path, encoded(record))


def write_sealed(path: Path, record: Any, files: Described | Iterable[str] = ()) -> None:
    """Write a record with the hashes of all files that it describes.

    `read_sealed` reads it and checks these hashes, and the record's own, its last field.

    Args:
        path: File of the record, e.g. `OUT/curve.json`.
        record: The record, or its JSON.
        files: Names of the files beside it that were written before and that it describes; a
            mapping gives the columns of a table of which other records describe other columns.
    """
    found = encoded(record) | sealed(path.parent, files)
    write_json(path, found | {OWN: record_sha256(found)})


def read_sealed(path: Path, command: str, folder: str = "a run folder") -> JsonObject:
    """The object in a file that `write_sealed` wrote, once the files that it describes fit.

    Args:
        path: the file.
        command: the command that writes it.
        folder: the kind of folder that has such a file, for errors.

    Raises:
        InputError: as in `JsonObject.read`, and if a file that it describes is missing or another.
    """
    found = JsonObject.read(path, command, folder)
    check_sealed(path, found.values, command)
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


def record_sha256(record: Mapping[str, Any]) -> str:
    """Hash of all fields of a record but its own hash."""
    values = {name: each for name, each in record.items() if name != OWN}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def check_sealed(path: Path, record: Mapping[str, Any], command: str) -> None:
    """Check that a record, and the files that it describes, are as they were written.

    Args:
        path: File of the record.
        record: Contents of the record.
        command: Command that writes the record.

    Raises:
        InputError: If the record was changed, or a file is missing, was changed, or is of another
            run.
    """
    seals, again = record.get(SEALS), f"Run `{command}` again."
    if OWN in record and record[OWN] != record_sha256(record):
        raise InputError(
            f"Expected {path} as headcount wrote it, got other contents. It was changed or damaged "
            f"since. {again}"
        )
    if seals is None:
        warnings.warn(
            f"{path} has no hashes of the files that it describes, because an earlier version of "
            "headcount wrote it. Files of two runs would not be noticed",
            stacklevel=2,
        )
        return
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
        given = {name: frame[name].astype(object) for name in columns}
        known = {name: column.where(column.notna(), None) for name, column in given.items()}
        values = {name: [_plain(each) for each in column] for name, column in known.items()}
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
