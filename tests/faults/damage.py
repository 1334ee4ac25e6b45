"""Damage: what can be wrong with a file, as a value that a test can draw, keep and repeat."""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong with one file."""

    file: str
    """Path of the file in its folder."""
    kind: str
    """Kind of the damage, a key of `BYTES`, `FIELDS` or `TABLES`."""
    place: float = 0.5
    """Where in the file it is, from 0 to 1."""
    value: int = 0
    """Which of several values is put there."""

    def apply(self, folder: Path) -> None:
        """Damage the file in a folder."""
        path = folder / self.file
        if self.kind in BYTES:
            BYTES[self.kind](path, self)
        elif self.kind in TABLES:
            frame = TABLES[self.kind](pd.read_parquet(path), self)
            frame.to_parquet(path, index=False)
        else:
            found = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(FIELDS[self.kind](found, self), encoding="utf-8")


def _content(change: Callable[[bytes, Damage], bytes]) -> Callable[[Path, Damage], None]:
    return lambda path, damage: _write(path, change(path.read_bytes(), damage))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _cut(content: bytes, damage: Damage) -> bytes:
    return content[: int(damage.place * len(content))]


def _flip(content: bytes, damage: Damage) -> bytes:
    changed = bytearray(content or b"x")
    changed[min(int(damage.place * len(changed)), len(changed) - 1)] ^= damage.value or 1
    return bytes(changed)


def _insert(what: bytes) -> Callable[[bytes, Damage], bytes]:
    def insert(content: bytes, damage: Damage) -> bytes:
        at = int(damage.place * len(content))
        return content[:at] + what + content[at:]

    return insert


def _replaced(make: Callable[[Path], object]) -> Callable[[Path, Damage], None]:
    def replace(path: Path, _: Damage) -> None:
        path.unlink()
        make(path)

    return replace


def _to_another_file(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_text("{}")
    path.symlink_to(outside)


BYTES: dict[str, Callable[[Path, Damage], None]] = {
    "cut off": _content(_cut),
    "a changed byte": _content(_flip),
    "not UTF-8": _content(_insert(b"\xff\xfe\xc3")),
    "a null byte": _content(_insert(b"\0")),
    "an escape sequence": _content(_insert(b"\x1b[2J")),
    "twice": _content(lambda content, _: content + content),
    "empty": _content(lambda _, __: b""),
    "a folder": _replaced(lambda path: path.mkdir()),
    "missing": _replaced(lambda path: None),
    "a link in a circle": _replaced(lambda path: path.symlink_to(path.name)),
    "a link elsewhere": _replaced(_to_another_file),
    "nested deeply": _content(lambda _, __: b"[" * 100_000),
    "a number of 5,000 digits": _content(lambda _, __: b'{"version": ' + b"1" * 5000 + b"}"),
}
"""Damages of any file."""

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**70, 10**400, 0.5, 1e308, float("nan"), "", "x", "٠", "00"),
    *("\ud800", "\x1b]0;title\x07", "../../victim", "/etc/hostname", "a" * 5000),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, ["x"] * 50, "nan", "1e5", [1, 2, 3]),
)
"""Values of other types and sizes than a field should have."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """The path of every value in a JSON value, except the entire one."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else []
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for name, each in pairs:
        yield from _places(each, (*path, name))


def _field(change: Callable[[Any, Any, Damage], None]) -> Callable[[Any, Damage], str]:
    """A change of one place in a JSON value."""

    def damage(found: Any, damage: Damage) -> str:
        places = list(_places(found))
        if places:
            *path, name = places[min(int(damage.place * len(places)), len(places) - 1)]
            parent = found
            for each in path:
                parent = parent[each]
            change(parent, name, damage)
        return json.dumps(found)

    return damage


def _other_value(parent: Any, name: Any, damage: Damage) -> None:
    parent[name] = JUNK[damage.value % len(JUNK)]


def _other_name(parent: Any, name: Any, damage: Damage) -> None:
    if isinstance(parent, dict):
        names = [each for each in JUNK if isinstance(each, str)]
        parent[names[damage.value % len(names)]] = parent.pop(name)


def _without(parent: Any, name: Any, _: Damage) -> None:
    del parent[name]


def _twice(found: Any, damage: Damage) -> str:
    text = json.dumps(found)
    return f"{text[:-1]}, {text[1:]}" if text[:1] == "{" and len(text) > 2 else text


FIELDS: dict[str, Callable[[Any, Damage], str]] = {
    "another value": _field(_other_value),
    "another name": _field(_other_name),
    "a field less": _field(_without),
    "fields twice": _twice,
}
"""Damages of a JSON file, which stays JSON."""


def _column(frame: pd.DataFrame, damage: Damage) -> str:
    return frame.columns[min(int(damage.place * frame.shape[1]), frame.shape[1] - 1)]


TABLES: dict[str, Callable[[pd.DataFrame, Damage], pd.DataFrame]] = {
    "rows twice": lambda frame, _: pd.concat([frame, frame]),
    "no rows": lambda frame, _: frame.iloc[:0],
    "a row less": lambda frame, _: frame.iloc[1:],
    "a column less": lambda frame, damage: frame.drop(columns=_column(frame, damage)),
    "a column of text": lambda frame, damage: frame.assign(**{_column(frame, damage): "x\x1b[2J"}),
    "a column of nulls": lambda frame, damage: frame.assign(**{_column(frame, damage): None}),
    "a column of lists": lambda frame, damage: frame.assign(
        **{_column(frame, damage): [[1, 2]] * len(frame)}
    ),
    "a column of huge numbers": lambda frame, damage: frame.assign(
        **{_column(frame, damage): np.float64(1e300)}
    ),
}
"""Damages of a table, which stays a table."""


def damages(folder: Path, only: Iterable[str] = ()) -> st.SearchStrategy[Damage]:
    """A strategy for damages of the files in a folder."""
    names = list(only) or sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    kinds = {".json": [*BYTES, *FIELDS, *FIELDS], ".parquet": [*BYTES, *TABLES]}
    pairs = [(name, kind) for name in names for kind in kinds.get(Path(name).suffix, BYTES)]
    return st.builds(
        lambda pair, place, value: Damage(pair[0], pair[1], place, value),
        st.sampled_from(pairs),
        st.floats(0, 1),
        st.integers(0, 255),
    )


def damaged(folder: Path, damage: Damage, place: Path, sealed: bool = True) -> Path:
    """A copy of a folder with one damage.

    Args:
        folder: Folder to copy.
        damage: The damage.
        place: Folder for the copy.
        sealed: Whether records keep the hashes of their files; without, as in older folders, the
            damaged file itself is read.
    """
    copy = place / "copy"
    shutil.copytree(folder, copy)
    damage.apply(copy)
    for path in () if sealed else copy.glob("*.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            del found["files"]
            found.pop("sha256", None)
            path.write_text(json.dumps(found), encoding="utf-8")
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return copy


def number_of_tries(least: int) -> int:
    """How often each test tries: little in CI, more by hand with HEADCOUNT_FUZZ=1000."""
    return int(os.environ.get("HEADCOUNT_FUZZ", least))
