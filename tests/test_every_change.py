"""Whatever is changed in a file that a command reads again, its reader refuses the folder.

Each kind of result is written once, with made-up values of its types or from the folder of an
earlier version. Then every field of its JSON files is changed and removed, every column of its
tables is changed and removed, and every other file that its record describes is changed and
removed, one at a time.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pandas as pd
import pytest

from headcount import __version__
from headcount.alignment import Alignment
from headcount.cache import CachePlan, PlannedCache
from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.clusters import Clusters
from headcount.commands.command_line import command_class
from headcount.compare import Matching
from headcount.core import PLACE, VERSION, Head, HeadTable, InputError, Plan
from headcount.coreference import Coreference
from headcount.explanation import Explained
from headcount.importance import COLUMNS, Assessment, Sensitivity
from headcount.papers import ContributionTable, Evolution, Followed, TunedMaps
from headcount.probing import Probed
from headcount.results import (
    Analysis,
    Certificate,
    Curve,
    EvaluationRecord,
    FinetuneRecord,
    PruneRecord,
    read_run,
)
from headcount.skills import Skills
from tests.results.test_prune import RECORD as PRUNED

DATA = Path(__file__).parent / "results" / "data"
NOW = f"headcount:{__version__}|model:a"
"""A signature of this version, whose records all have a hash."""
MADE_UP: tuple[Any, ...] = (
    *(Alignment, Certificate, Clusters, ContributionTable, Coreference, EvaluationRecord),
    *(Evolution, Explained, FinetuneRecord, Followed, Matching, PlannedCache, Probed),
    *(Sensitivity, Skills, TunedMaps),
)
"""Kinds whose values need not fit each other."""
NOT_READ = ("speed.json", "result.json")
"""Records that no command reads again."""


def made_up(kind: Any, name: str = "") -> Any:
    """A value of a type; `name` is the field that holds it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return made_up(next(each for each in inner if each is not type(None)))
    if origin is Literal:
        return inner[0]
    if origin is tuple:
        return tuple(map(made_up, inner[:-1] if inner[-1] is Ellipsis else inner))
    if origin is not None and issubclass(origin, Mapping):
        return {made_up(inner[0]): made_up(inner[1])}
    if is_dataclass(kind):
        hints = get_type_hints(kind, localns={"pd": pd})
        made: Any = kind
        return made(
            **{
                each.name: _frame(each.metadata["table"].columns)
                if hints[each.name] is pd.DataFrame
                else made_up(hints[each.name], each.name)
                for each in fields(kind)
            }
        )
    given = {"signature": NOW, "version": VERSION}
    plain = {str: "a", int: 3, float: 0.5, bool: True, Head: Head("encoder.self", 0, 1), Any: "a"}
    return given.get(name, plain[kind])


def _frame(columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame({name: [0.5, 1.5] for name in columns})


def _write_made_up(kind: Any, folder: Path) -> None:
    if kind is PlannedCache:
        CachePlan(((True, False),), model="a").write(folder / "plan.json")
    if kind is FinetuneRecord:
        (folder / "model.safetensors").write_bytes(b"weights")
    made_up(kind).write(folder)


def _write_pruned(folder: Path) -> None:
    Plan({"encoder.self": {0: (0,)}}).write(folder / "plan.json")
    replace(PRUNED, signature=NOW).write(folder)


def _write_analysis(folder: Path) -> None:
    (folder / "targets.txt").write_text("Ein Hund\n")
    _as_of_now(Analysis.read(DATA / "0.2/analyze")).write(folder)


def _write_assessment(folder: Path) -> None:
    found = Assessment.read(DATA / "0.2/analyze")
    its = [name for name in (*PLACE, *COLUMNS) if name in found.heads.frame]
    _as_of_now(replace(found, heads=HeadTable(found.heads.frame.loc[:, its]))).write(folder)


def _write_both(folder: Path) -> None:
    _write_analysis(folder)
    _write_assessment(folder)


def _write_curve(folder: Path) -> None:
    _as_of_now(Curve.read(DATA / "curve")).write(folder)


def _as_of_now(found: Any) -> Any:
    """A result of an earlier version as this version would have made it."""
    return replace(found, record=replace(found.record, signature=NOW))


FOLDERS: Mapping[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    **{each.__name__: (partial(_write_made_up, each), each.read) for each in MADE_UP},
    "Analysis": (_write_analysis, Analysis.read),
    "Assessment": (_write_assessment, Assessment.read),
    "Analysis, Assessment": (_write_both, read_run),
    "Curve": (_write_curve, Curve.read),
    "PruneRecord": (_write_pruned, PruneRecord.read),
}
"""What writes a folder, and what reads it."""


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool | str) or value is None:
        return {True: False, False: True, None: "a"}.get(value, f"{value}a")
    if isinstance(value, int | float):
        return value + 1
    if hasattr(value, "tolist"):
        value = value.tolist()
    return {**value, "b": 1} if isinstance(value, dict) else [*value, "b"]


def _changed_json(text: str) -> Iterator[tuple[str, bytes]]:
    """A JSON file with each of its fields changed or removed."""

    def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        pairs = value.items() if isinstance(value, dict) else [*enumerate(value)][:1]
        for name, each in pairs:
            yield (*path, name)
            if isinstance(each, dict | list):
                yield from places(each, (*path, name))

    for *path, name in places(json.loads(text)):
        for what in ("changed", "removed"):
            inner = found = json.loads(text)
            for each in path:
                inner = inner[each]
            if what == "changed":
                inner[name] = _other(inner[name])
            else:
                del inner[name]
            yield f"{'.'.join(map(str, (*path, name)))} {what}", json.dumps(found).encode()


def _changed_table(path: Path) -> Iterator[tuple[str, bytes]]:
    """A table with each of its columns changed or removed, or a row less."""
    frame = pd.read_parquet(path)
    for name in frame:
        values = pd.Series(frame[name])
        others = values.astype(object).map(_other, na_action="ignore")
        others = others if values.notna().any() else 1.0
        yield f"{name} changed", frame.assign(**{str(name): others}).to_parquet()
        yield f"{name} removed", frame.drop(columns=name).to_parquet()
    yield "a row removed", frame.iloc[1:].to_parquet()


def _changes(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix == ".json":
        yield from _changed_json(path.read_text(encoding="utf-8"))
    elif path.suffix == ".parquet":
        yield from _changed_table(path)
    else:
        yield "changed", path.read_bytes() + b"a"


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:.* has no hashes of the files")  # of the earlier version
@pytest.mark.parametrize("name", FOLDERS)
def test_every_change_is_refused(name: str, tmp_path: Path) -> None:
    write, read = FOLDERS[name]
    write(tmp_path)
    read(tmp_path)  # as it was written
    is_shared = "," in name  # each record was changed alone, and here their table
    files = [tmp_path / "heads.parquet"] if is_shared else sorted(tmp_path.iterdir())
    accepted, tried = list[str](), 0
    for path in files:
        content = path.read_bytes()
        for what, changed in [*_changes(path), ("removed", None)]:
            path.unlink() if changed is None else path.write_bytes(changed)
            tried += 1
            try:
                read(tmp_path)
                accepted.append(f"{path.name}: {what}")
            except InputError:
                pass
            path.write_bytes(content)
    assert not accepted and tried > 2 * len(files), (accepted, tried)


def test_every_record_of_a_command_is_changed() -> None:
    """A command with a record of its own is named above."""
    written = {command_class(name).record_name() for name in COMMANDS} - {None, *NOT_READ}
    kinds: tuple[Any, ...] = (*MADE_UP, Analysis, Assessment, Curve, PruneRecord)
    assert written <= {each.FILE if hasattr(each, "FILE") else each.files()[-1] for each in kinds}
