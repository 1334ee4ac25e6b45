"""Units are done once, whatever stopped the run, and what is kept of them is typed."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest

from headcount.core import (
    Head,
    InputError,
    JsonObject,
    Kept,
    encoded,
    fill,
    read_arrays,
    write_arrays,
)

HEAD = Head("encoder.self", 3, 7)


@dataclass(frozen=True)
class Row:
    head: Head
    value: float
    rank: int | None = None
    words: tuple[str, ...] = ()
    scores: Mapping[Head, float] | None = None
    losses: Mapping[int, float] | None = None


ROW = Row(HEAD, 1 / 3, None, ("a", "b"), {HEAD: 0.1}, {4: 2.5})


def kept(path: Path, key: str = "key", every: float = 0.0) -> Kept[tuple[Row, ...]]:
    return Kept(path, key, "rows", tuple[Row, ...], every)


def units(done: list[str]) -> Iterator[tuple[str, Callable[[], tuple[Row, ...]]]]:
    """Three units that note when they are done; the result of the second is empty."""

    def do(name: str, rows: int) -> tuple[Row, ...]:
        done.append(name)
        return rows * (replace(ROW, words=(name,)),)

    for name, rows in (("one", 1), ("two", 0), ("three", 2)):
        yield name, lambda name=name, rows=rows: do(name, rows)


def test_a_run_that_was_stopped_does_only_what_is_left(tmp_path: Path) -> None:
    path, first, second = tmp_path / "done.json", list[str](), list[str]()
    whole = [*kept(tmp_path / "whole.json").results(units([]))]
    results = kept(path).results(units(first))
    assert [next(results), next(results)] == whole[:2] and first == ["one", "two"]
    results.close()  # killed
    again = kept(path)
    assert [*again] == ["one", "two"] and set(again.seconds) == {"one", "two"}
    assert [*again.results(units(second))] == whole and second == ["three"]
    assert dict(kept(path)) == dict(zip(("one", "two", "three"), whole, strict=True))


def test_results_are_in_the_order_of_the_units(tmp_path: Path) -> None:
    """Whatever order they were done in."""
    early = kept(tmp_path / "done.json")
    early.keep({"three": (ROW,)})
    found = [*kept(tmp_path / "done.json").results(units(done := []))]
    assert done == ["one", "two"] and found[2] == (ROW,)


def test_a_unit_that_fails_loses_no_other(tmp_path: Path) -> None:
    def fail() -> tuple[Row, ...]:
        raise KeyboardInterrupt

    run = kept(tmp_path / "done.json", every=1e9)
    with pytest.raises(KeyboardInterrupt):
        list(run.results([*units([]), ("four", fail)]))
    assert [*kept(tmp_path / "done.json")] == ["one", "two", "three"]


def test_nothing_is_written_between_two_saves(tmp_path: Path) -> None:
    run = kept(tmp_path / "done.json", every=1e9)
    run.once("one", lambda: (ROW,))
    assert not (tmp_path / "done.json").exists()
    run.save()
    written = (tmp_path / "done.json").stat().st_mtime_ns
    run.save()
    assert (tmp_path / "done.json").stat().st_mtime_ns == written and [
        *kept(tmp_path / "done.json")
    ]


def test_without_a_file_results_are_kept_in_memory() -> None:
    run = Kept(None, "key", "numbers", float)
    assert [run.once("a", lambda: 1.5), run.once("a", lambda: 2.5)] == [1.5, 1.5]


def test_numbers_are_the_same_to_the_last_bit_or_missing(tmp_path: Path) -> None:
    run = kept(tmp_path / "done.json")
    run.keep({"a": (ROW, replace(ROW, value=nan))})
    row, other = kept(tmp_path / "done.json")["a"]
    assert row == ROW and isnan(other.value) and other.rank is None


def test_other_keys_contents_and_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "done.json"
    kept(path).keep({"a": (ROW,)})
    with pytest.raises(InputError, match=r"(?s)--resume needs the same .*key\n.*other\n"):
        kept(path, "other")
    text = path.read_text()
    path.write_text(text.replace("2.5", "2.75"))
    with pytest.raises(InputError, match=r"rows in .*done\.json.* was changed since it was"):
        kept(path)
    for broken, where in (
        ({"a": {"rows": []}}, r"done\.a in .*done\.json to be a list, got"),
        ({"a": [encoded(ROW) | {"head": "enc.3"}]}, r"done\.a\[0\]\.head .* a head such as enc"),
        ({"a": [{"head": "enc.3.7"}]}, r"done\.a\[0\]\.value in .*, got none"),
    ):
        path.write_text(json.dumps({"key": "key", "done": broken}))
        with pytest.raises(InputError, match=rf"Expected {where}.* Start again with --overwrite"):
            kept(path)


def test_a_state_without_seconds_is_resumed(tmp_path: Path) -> None:
    """Earlier versions kept them with the results, or not at all."""
    (tmp_path / "done.json").write_text(
        json.dumps({"key": "key", "done": {"one": [encoded(ROW) | {"seconds": 0.5}]}})
    )
    assert [*kept(tmp_path / "done.json").results(units(done := []))][0] == (ROW,)
    assert done == ["two", "three"]


def test_heads_are_read_by_name() -> None:
    found = JsonObject({"scores": {"enc.9": 1.0}}, "FILE", "Do it again.")
    with pytest.raises(InputError, match="Expected scores in FILE to be a head such as enc.3.7"):
        found.field("scores", Mapping[Head, float])


@pytest.mark.parametrize("stopped_after", [0, 49, 50, 73])
def test_files_are_filled_from_the_last_batch_on_disk(stopped_after: int, tmp_path: Path) -> None:
    batches, found, seen = [[number, number] for number in range(120)], list[int](), list[int]()

    def run(stop: int) -> None:
        def write(batch: object) -> None:
            if len(found) == stop:
                raise KeyboardInterrupt
            found.append(batches.index(batch))  # type: ignore[arg-type]

        progress = Kept(tmp_path / "batches.json", "key", "batches", int)
        fill(progress, batches, write, lambda: None, seen.append)

    with pytest.raises(KeyboardInterrupt):
        run(stopped_after)
    found.clear()
    run(-1)
    assert found == [*range(50 * (stopped_after // 50), 120)] and seen[-1] == 240
    found.clear()
    run(0)
    assert not found, "all are on disk"


def test_arrays_are_read_as_they_were_written_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "sums.safetensors"
    arrays = {"sum": np.array(1 / 3), "is_seen": np.array([True, False]), "n": np.arange(3)}
    write_arrays(path, arrays, {"key": "é"})
    found, about = read_arrays(path, "sums")
    assert about["key"] == "é" and found.keys() == arrays.keys()
    for name, each in arrays.items():
        assert found[name].dtype == each.dtype and np.array_equal(found[name], each)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(InputError, match=r"sums in .*sums\.safetensors.* was changed since"):
        read_arrays(path, "sums")
