"""Read the result files of a run folder; missing or damaged files raise an error."""

import base64
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq

from headcount.core import InputError
from headcount.results.importance import ImportanceRecord
from headcount.results.run import Evidence, Example, HeadRow, RelationResult, Run

T = TypeVar("T")

VERSION = 1
"""The version of `run.json` that this module reads."""

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
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder written by `headcount analyze ... --out`, but {folder} "
            f"{'is a file' if folder.exists() else 'does not exist'}"
        )
    info = _read_info(folder / "run.json")
    heads = _read_heads(folder / "heads.parquet")
    return Run(
        info=info,
        heads=heads,
        offsets=_read_offsets(folder / "offsets.parquet"),
        relations=_if_there(_read_relations, folder / "relations.parquet"),
        null_heads=_if_there(_read_heads, folder / "null_heads.parquet"),
        null_relations=_if_there(_read_relations, folder / "null_relations.parquet"),
        examples=_read_examples(folder / "examples.json"),
        roles=_roles(info, heads, folder),
        importance=_if_there(_read_importance, folder / "importance.json"),
    )


def _if_there(read: Callable[[Path], T], path: Path) -> T | None:
    return read(path) if path.exists() else None


def _read_heads(path: Path) -> tuple[HeadRow, ...]:
    rows = _read_table(path, _HEAD_COLUMNS)
    if not rows:
        raise InputError(f"{path} has no rows; run `headcount analyze` again")
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
    info: Mapping[str, Any], heads: tuple[HeadRow, ...], folder: Path
) -> dict[str, tuple[Evidence, ...]]:
    result = {}
    for row in heads:
        found = tuple(
            Evidence(str(role["role"]), str(role.get("evidence", "")), float(role.get("score", 0)))
            for role in info["roles"].get(row.head, ())
        )
        if tuple(role.role for role in found) != row.roles:
            raise InputError(
                f"{folder}: run.json says {row.head} is {[role.role for role in found]}, "
                f"heads.parquet says {list(row.roles)}; the files come from two runs, "
                f"run `headcount analyze` again"
            )
        result[row.head] = found
    return result


def _read_info(path: Path) -> dict[str, Any]:
    info = _read_json(path)
    version = info.get("version")
    if version != VERSION:
        raise InputError(
            f"{path}: expected version {VERSION}, got {version!r}. "
            f"Run `headcount analyze` again with this version of headcount"
        )
    kinds = {
        "signature": str,
        "model": str,
        "corpora": list,
        "counts": dict,
        "sites": dict,
        "roles": dict,
    }
    for name, kind in kinds.items():
        if not isinstance(info.get(name), kind):
            raise InputError(
                f"{path}: expected {name!r} to be a {kind.__name__}, got {info.get(name)!r}. "
                f"Run `headcount analyze` again"
            )
    return info


def _read_json(path: Path, again: str = "run `headcount analyze` again") -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Is this a run folder?") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}; {again}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, got a {type(value).__name__}")
    return value


def _read_table(path: Path, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing; run `headcount analyze` again") from error
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise InputError(f"{path} is damaged: {error}; run `headcount analyze` again") from error
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise InputError(f"{path} lacks the columns {missing}; run `headcount analyze` again")
    return table.to_pylist()


def _read_examples(path: Path) -> dict[str, tuple[Example, ...]]:
    if not path.exists():
        return {}
    try:
        return {
            head: tuple(_example(example) for example in examples)
            for head, examples in _read_json(path).items()
        }
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:  # binascii's error is a ValueError
        raise InputError(f"{path} is damaged: {error!r}; run `headcount analyze` again") from error


def _read_importance(path: Path) -> ImportanceRecord:
    again = "run `headcount importance` again"
    found = _read_json(path, again)
    try:
        return ImportanceRecord.of(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {error!r}; {again}") from error


def _example(example: Mapping[str, Any]) -> Example:
    queries, keys = tuple(map(str, example["queries"])), tuple(map(str, example["keys"]))
    flat = np.frombuffer(base64.b64decode(example["weights"], validate=True), dtype=np.uint8)
    arcs = tuple((int(query), int(key)) for query, key in example["arcs"])
    if any(not (0 <= q < len(queries) and 0 <= k < len(keys)) for q, k in arcs):
        raise ValueError(f"expected arcs inside {len(queries)} x {len(keys)} words, got {arcs}")
    return Example(
        role=str(example["role"]),
        caption=str(example["caption"]),
        queries=queries,
        keys=keys,
        weights_QK=flat.reshape(len(queries), len(keys)),
        arcs=arcs,
    )
