"""Read the result files of a run folder; missing or damaged files raise an error."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from headcount.core import InputError
from headcount.results.claiming import check_is_run
from headcount.results.examples import read_examples
from headcount.results.importance import ImportanceRecord
from headcount.results.roles import Role
from headcount.results.run import HeadRow, RelationResult, Run, RunRecord

T = TypeVar("T")

_HEAD_COLUMNS = ("head", "site", "layer", "index", "roles")
_RELATION_COLUMNS = (
    "head",
    "relation",
    "direction",
    "accuracy",
    "cases",
    "baseline",
    "baseline_offset",
)
_OFFSET_COLUMNS = ("head", "offset", "share")


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        InputError: if the folder or a file is missing, damaged or of another version.
    """
    check_is_run(folder)
    record = RunRecord.read(folder / "run.json")
    heads = _read_heads(folder / "heads.parquet")
    return Run(
        record=record,
        heads=heads,
        offsets=_read_offsets(folder / "offsets.parquet"),
        relations=_if_there(_read_relations, folder / "relations.parquet"),
        null_heads=_if_there(_read_heads, folder / "null_heads.parquet"),
        null_relations=_if_there(_read_relations, folder / "null_relations.parquet"),
        examples=read_examples(folder / "examples.json"),
        roles=_roles(record, heads, folder),
        importance=_if_there(ImportanceRecord.read, folder / "importance.json"),
    )


def _if_there(read: Callable[[Path], T], path: Path) -> T | None:
    return read(path) if path.exists() else None


def _read_heads(path: Path) -> tuple[HeadRow, ...]:
    rows = _read_table(path, _HEAD_COLUMNS)
    if not rows:
        raise InputError(f"{path} has no rows. Run `headcount analyze` again.")
    return tuple(
        HeadRow(
            head=str(row["head"]),
            site=str(row["site"]),
            layer=int(row["layer"]),
            index=int(row["index"]),
            roles=tuple(map(str, row["roles"])),
            values={key: _number(row[key]) for key in row if key not in _HEAD_COLUMNS},
        )
        for row in rows
    )


def _number(value: int | float | None) -> float:
    return math.nan if value is None else float(value)  # parquet keeps NaN as null


def _read_relations(path: Path) -> tuple[RelationResult, ...]:
    return tuple(
        RelationResult(
            head=str(row["head"]),
            relation=str(row["relation"]),
            direction=str(row["direction"]),
            accuracy=_number(row["accuracy"]),
            cases=int(row["cases"]),
            baseline=_number(row["baseline"]),
            baseline_offset=_number(row["baseline_offset"]),
        )
        for row in _read_table(path, _RELATION_COLUMNS)
    )


def _read_offsets(path: Path) -> dict[str, dict[int, float]]:
    offsets: dict[str, dict[int, float]] = {}
    for row in _read_table(path, _OFFSET_COLUMNS):
        offsets.setdefault(str(row["head"]), {})[int(row["offset"])] = float(row["share"])
    return offsets


def _roles(
    record: RunRecord, heads: tuple[HeadRow, ...], folder: Path
) -> dict[str, tuple[Role, ...]]:
    result = {}
    for row in heads:
        result[row.head] = found = record.roles.get(row.head, ())
        if tuple(role.role for role in found) != row.roles:
            raise InputError(
                f"{folder}: run.json says {row.head} is {[role.role for role in found]}, "
                f"heads.parquet says {list(row.roles)}; the files come from two runs, "
                f"run `headcount analyze` again"
            )
    return result


def _read_table(path: Path, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing. Run `headcount analyze` again.") from error
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise InputError(f"{path} is damaged: {error}. Run `headcount analyze` again.") from error
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise InputError(f"{path} lacks the columns {missing}. Run `headcount analyze` again.")
    return table.to_pylist()
