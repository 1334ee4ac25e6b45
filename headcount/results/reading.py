"""Read the result files of a run folder; missing or damaged files raise an error."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from headcount.core import Head, InputError, amount, reading
from headcount.results.alignment import read_alignment
from headcount.results.claiming import CURVE, check_is_run
from headcount.results.clusters import read_clusters
from headcount.results.coreference import read_coreference
from headcount.results.curve import read_curve
from headcount.results.examples import read_examples
from headcount.results.importance import ImportanceRecord
from headcount.results.probe import PROBES, read_probes
from headcount.results.profiles import PROFILE_COLUMNS, TraitStrength, from_row
from headcount.results.prune import PruneRecord
from headcount.results.roles import Role
from headcount.results.run import HeadRow, RelationResult, Run, RunRecord

T = TypeVar("T")

_AGAIN = "Run `headcount analyze` again."

_HEAD_COLUMNS = ("head", "site", "layer", "index", "roles")
_LISTS = ("tendencies",)
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


def read_run(folder: Path, pruned: Path | None = None) -> Run:
    """Read a run folder.

    Args:
        folder: folder of the run.
        pruned: folder of a model that was pruned from the run's model.

    Raises:
        InputError: if a folder or a file is missing, damaged or of another version, or the pruned
            model was made from one with other heads.
    """
    check_is_run(folder)
    record = RunRecord.read(folder / "run.json")
    heads = _read_heads(folder / "heads.parquet")
    return Run(
        record=record,
        heads=heads,
        profiles=_if_there(_read_profiles, folder / "profiles.parquet"),
        offsets=_read_offsets(folder / "offsets.parquet"),
        relations=_if_there(_read_relations, folder / "relations.parquet"),
        null_heads=_if_there(_read_heads, folder / "null_heads.parquet"),
        null_relations=_if_there(_read_relations, folder / "null_relations.parquet"),
        examples=read_examples(folder / "examples.json"),
        roles=_roles(record, heads, folder),
        importance=_if_there(ImportanceRecord.read, folder / "importance.json"),
        curve=_if_there(lambda path: read_curve(path.parent), folder / CURVE / "curve.json"),
        probes=_if_there(lambda path: read_probes(path.parent), folder / PROBES),
        coreference=_if_there(
            lambda path: read_coreference(path.parent), folder / "coreference.json"
        ),
        clusters=_if_there(lambda path: read_clusters(path.parent), folder / "clusters.json"),
        alignment=_if_there(lambda path: read_alignment(path.parent), folder / "alignment.json"),
        pruned=None if pruned is None else _read_pruned(pruned, heads),
    )


def _read_pruned(folder: Path, heads: tuple[HeadRow, ...]) -> PruneRecord:
    record = PruneRecord.read(folder)
    dense, analysed = {*record.kept, *record.pruned}, {row.head for row in heads}
    if dense != analysed:
        raise InputError(
            f"Expected a model pruned from the analysed one, with {amount(len(analysed), 'head')}, "
            f"got {folder}, pruned from {record.model} with {len(dense)}. Name another folder."
        )
    return record


def _if_there(read: Callable[[Path], T], path: Path) -> T | None:
    return read(path) if path.exists() else None


def _read_heads(path: Path) -> tuple[HeadRow, ...]:
    rows = _read_table(path, _HEAD_COLUMNS)
    if not rows:
        raise InputError(f"{path} has no rows. {_AGAIN}")
    with reading(path, "a row for each head", _AGAIN):
        found = tuple(map(_head_row, rows))
    _check_once(path, [row.head for row in found])
    return found


def _head_row(row: Mapping[str, Any]) -> HeadRow:
    head = Head.parse(row["head"])
    if (head.site, head.layer, head.index) != (row["site"], row["layer"], row["index"]):
        raise ValueError(f"{head} has site, layer and index of another head")
    return HeadRow(
        head=str(head),
        site=head.site,
        layer=head.layer,
        index=head.index,
        roles=tuple(map(str, row["roles"])),
        values={key: _number(row[key]) for key in row if key not in _HEAD_COLUMNS + _LISTS},
    )


def _check_once(path: Path, names: Sequence[Hashable]) -> None:
    """Check that no row of a table is doubled.

    Raises:
        InputError: if one is; names it.
    """
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"Expected every row of {path} once, got {twice[0]} twice. {_AGAIN}")


def _number(value: int | float | None) -> float:
    return math.nan if value is None else float(value)  # parquet keeps NaN as null


def _read_relations(path: Path) -> tuple[RelationResult, ...]:
    rows = _read_table(path, _RELATION_COLUMNS)
    with reading(path, "a row for each head, relation and direction", _AGAIN):
        found = tuple(
            RelationResult(
                head=str(row["head"]),
                relation=str(row["relation"]),
                direction=str(row["direction"]),
                accuracy=_number(row["accuracy"]),
                cases=int(row["cases"]),
                baseline=_number(row["baseline"]),
                baseline_offset=_number(row["baseline_offset"]),
            )
            for row in rows
        )
    _check_once(path, [(each.head, each.relation, each.direction) for each in found])
    return found


def _read_profiles(path: Path) -> dict[str, tuple[TraitStrength, ...]]:
    rows = _read_table(path, PROFILE_COLUMNS)
    with reading(path, "a row for each head and trait", _AGAIN):
        found = [from_row(row) for row in rows]
    _check_once(path, [(each.head, each.trait) for each in found])
    profiles: dict[str, list[TraitStrength]] = {}
    for each in found:
        profiles.setdefault(each.head, []).append(each)
    return {head: tuple(rows) for head, rows in profiles.items()}


def _read_offsets(path: Path) -> dict[str, dict[int, float]]:
    rows = _read_table(path, _OFFSET_COLUMNS)
    with reading(path, "a row for each head and offset", _AGAIN):
        found = [(str(row["head"]), int(row["offset"]), float(row["share"])) for row in rows]
    _check_once(path, [(head, offset) for head, offset, _ in found])
    offsets: dict[str, dict[int, float]] = {}
    for head, offset, share in found:
        offsets.setdefault(head, {})[offset] = share
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
    if not path.exists():
        raise InputError(f"{path} is missing. {_AGAIN}")
    with reading(path, "a table in parquet", _AGAIN):
        table = pq.ParquetFile(path).read()  # never a folder of tables
        rows = table.to_pylist()
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise InputError(f"{path} lacks the columns {missing}. {_AGAIN}")
    return rows
