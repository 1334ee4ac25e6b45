"""Read the result files of a run folder; whatever is missing or damaged is said, never skipped."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from headcount.errors import InputError

VERSION = 1
"""The version of `run.json` that this module reads."""

_HEAD_COLUMNS = ("head", "site", "layer", "index", "roles")
_RELATION_COLUMNS = ("head", "relation", "direction", "accuracy", "cases", "baseline",
                     "baseline_offset")  # fmt: skip
_OFFSET_COLUMNS = ("head", "offset", "share")


@final
@dataclass(frozen=True)
class Evidence:
    """One role of one head, with the reason."""

    role: str
    evidence: str
    score: float


@final
@dataclass(frozen=True)
class Example:
    """One sentence as one head sees it."""

    role: str
    caption: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights_QK: np.ndarray
    """uint8; 255 is the weight 1."""
    arcs: tuple[tuple[int, int], ...]
    """Pairs (query, key) that the role is about."""


@final
@dataclass(frozen=True)
class Run:
    """All results of one run."""

    info: Mapping[str, Any]
    """`run.json`."""
    heads: pd.DataFrame
    offsets: pd.DataFrame
    relations: pd.DataFrame | None
    """None when the corpus has no trees."""
    null_heads: pd.DataFrame | None
    """The same measured on random weights; None without `--null`."""
    null_relations: pd.DataFrame | None
    examples: Mapping[str, tuple[Example, ...]]
    roles: Mapping[str, tuple[Evidence, ...]]
    """Roles of every head in the order of `heads`, the main role first; empty when none was found."""


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        InputError: when the folder or a file is missing, damaged or of another version.
    """
    if not folder.is_dir():
        raise InputError(
            f"expected a folder written by `headcount analyze ... --out`, but {folder} "
            f"{'is a file' if folder.exists() else 'does not exist'}"
        )
    info = _read_info(folder / "run.json")
    heads = _read_table(folder / "heads.parquet", _HEAD_COLUMNS)
    if heads.empty:
        raise InputError(f"{folder / 'heads.parquet'} has no rows; run `headcount analyze` again")
    return Run(
        info=info,
        heads=heads,
        offsets=_read_table(folder / "offsets.parquet", _OFFSET_COLUMNS),
        relations=_read_optional(folder / "relations.parquet", _RELATION_COLUMNS),
        null_heads=_read_optional(folder / "null_heads.parquet", _HEAD_COLUMNS),
        null_relations=_read_optional(folder / "null_relations.parquet", _RELATION_COLUMNS),
        examples=_read_examples(folder / "examples.json"),
        roles=_roles(info, heads, folder),
    )


def _roles(
    info: Mapping[str, Any], heads: pd.DataFrame, folder: Path
) -> dict[str, tuple[Evidence, ...]]:
    result = {}
    for head, names in zip(heads["head"], heads["roles"], strict=True):
        found = tuple(
            Evidence(str(role["role"]), str(role.get("evidence", "")), float(role.get("score", 0)))
            for role in info["roles"].get(head, ())
        )
        if [role.role for role in found] != list(names):
            raise InputError(
                f"{folder}: run.json says {head} is {[role.role for role in found]}, heads.parquet "
                f"says {list(names)}; the files are of two runs, run `headcount analyze` again"
            )
        result[head] = found
    return result


def _read_info(path: Path) -> dict[str, Any]:
    info = _read_json(path)
    version = info.get("version")
    if version != VERSION:
        raise InputError(
            f"{path}: expected version {VERSION}, found {version!r}; "
            f"write the results again with this headcount"
        )
    kinds = {"signature": str, "model": str, "corpora": list, "counts": dict, "sites": dict,
             "roles": dict}  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(info.get(name), kind):
            raise InputError(
                f"{path}: expected {name!r} to be a {kind.__name__}, found {info.get(name)!r}; "
                f"run `headcount analyze` again"
            )
    return info


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; is this a run folder?") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}; run `headcount analyze` again") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found a {type(value).__name__}")
    return value


def _read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing; run `headcount analyze` again") from error
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise InputError(f"{path} is damaged: {error}; run `headcount analyze` again") from error
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(f"{path} lacks the columns {missing}; run `headcount analyze` again")
    return table


def _read_optional(path: Path, columns: tuple[str, ...]) -> pd.DataFrame | None:
    return _read_table(path, columns) if path.exists() else None


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


def _example(example: Mapping[str, Any]) -> Example:
    queries, keys = tuple(map(str, example["queries"])), tuple(map(str, example["keys"]))
    flat = np.frombuffer(base64.b64decode(example["weights"], validate=True), dtype=np.uint8)
    arcs = tuple((int(query), int(key)) for query, key in example["arcs"])
    if any(not (0 <= q < len(queries) and 0 <= k < len(keys)) for q, k in arcs):
        raise ValueError(f"an arc of {arcs} points outside {len(queries)} x {len(keys)} words")
    return Example(
        role=str(example["role"]),
        caption=str(example["caption"]),
        queries=queries,
        keys=keys,
        weights_QK=flat.reshape(len(queries), len(keys)),
        arcs=arcs,
    )
