"""Units are done once, whatever stopped the run, and what is kept of them is typed."""

import hashlib
import json
import os
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
    check_same_key,
    encoded,
    fill,
    forget,
    is_kept,
    latest,
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


def test_what_differs_in_another_key_is_named_and_an_older_release_is_the_way_out() -> None:
    """As of a run that read the lines of a book, before they were joined to paragraphs."""
    now = "model:bert|corpus:1f|headcount:0.3.0|seed:0"
    for made, message in [
        (now.replace("seed:0", "seed:1"), "They differ in seed. Give the same arguments, or start"),
        (
            "model:bert|corpus:2a|headcount:0.2.0|seed:0",
            "They differ in corpus, headcount. Resume with headcount 0.2.0, which made it, or",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            check_same_key(Path("state.json"), made, now)


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


def test_a_state_with_a_hash_of_its_results_only_is_resumed(tmp_path: Path) -> None:
    """So earlier versions wrote it."""
    done = {"one": encoded((ROW,))}
    sha256 = hashlib.sha256(json.dumps(done).encode()).hexdigest()
    held = {"key": "key", "seconds": {"one": 1.0}, "sha256": sha256, "done": done}
    (tmp_path / "done.json").write_text(json.dumps(held))
    assert kept(tmp_path / "done.json")["one"] == (ROW,)


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


def _one(path: Path) -> dict[str, tuple[Row, ...]] | None:
    """What a state holds; None if it is refused."""
    try:
        return dict(kept(path))
    except InputError:
        return None


def _two_states(path: Path) -> Callable[[], None]:
    """Keep one unit, then another; returns what puts both states back."""
    for done in (1, 2):
        results = kept(path).results(units([]))
        _ = [next(results) for _ in range(done)]
        results.close()
    contents = {file: file.read_bytes() for file in path.parent.iterdir()}
    assert len(contents) == 2

    def put_back() -> None:
        for file, content in contents.items():
            file.write_bytes(content)

    return put_back


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Expected")
def test_wherever_the_newest_state_is_damaged_no_number_changes_and_no_run_is_lost(
    tmp_path: Path,
) -> None:
    path = tmp_path / "done.json"
    put_back = _two_states(path)
    content, both = path.read_bytes(), dict(kept(path))
    one, seen = {"one": both["one"]}, list[bool]()
    damaged = [content[:n] for n in range(0, len(content), 7)]
    damaged += [
        content[:n] + bytes([content[n] ^ bit]) + content[n + 1 :]
        for n in range(len(content))
        for bit in (1, 128)
    ]
    for each in damaged:
        put_back()
        path.write_bytes(each)
        found = _one(path)
        assert found in (one, both), each
        seen.append(found == one)
    assert sum(seen) > 0.9 * len(damaged), "most damage must be noticed"


def test_a_damaged_state_says_what_is_done_again_and_ends_with_the_same_results(
    tmp_path: Path,
) -> None:
    path = tmp_path / "done.json"
    put_back = _two_states(path)
    whole = [*kept(tmp_path / "whole.json").results(units([]))]
    path.write_bytes(path.read_bytes()[:-9])
    says = r"rows in .*done\.json, but it can't be read: .* The state saved before it takes its "
    with pytest.warns(UserWarning, match=rf"{says}.* computed again: it holds 1 unit: one$"):
        again = kept(path)
    assert [*again.results(units(done := []))] == whole and done == ["two", "three"]
    put_back()
    for file in tmp_path.glob("done.json*"):
        file.write_text("torn")
    with pytest.raises(InputError, match=r"rows in .*done\.json, .* --overwrite instead of"):
        kept(path)


def test_no_state_of_another_run_takes_the_place_of_one(tmp_path: Path) -> None:
    path = tmp_path / "done.json"
    put_back = _two_states(path)
    for is_damaged in (False, True):
        put_back()
        if is_damaged:
            path.write_text("torn")
        before = {file: file.read_bytes() for file in tmp_path.iterdir()}
        with pytest.raises(InputError, match=r"(?s)--resume needs the same .*key\n.*other\n"):
            kept(path, "other")
        assert before == {file: file.read_bytes() for file in tmp_path.iterdir()}


def test_a_kill_between_any_two_moves_leaves_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move, moves = os.replace, list[int]()

    def killed(source: Path, target: Path) -> None:
        moves.append(1)
        if len(moves) == limit:
            raise KeyboardInterrupt
        move(source, target)

    for limit in range(1, 6):
        moves.clear()
        path = tmp_path / str(limit) / "done.json"
        monkeypatch.setattr(os, "replace", killed)
        run = kept(path)
        with pytest.raises(KeyboardInterrupt):
            for name in ("one", "two", "three"):
                run.keep({name: (replace(ROW, words=(name,)),)})
        monkeypatch.setattr(os, "replace", move)
        assert is_kept(path) == (limit > 1)
        assert [*kept(path)] == ["one", "two"][: limit // 2]
        left = [path, path.with_name("done.json.1")]
        assert {*path.parent.iterdir()} <= {*left}
        forget(path)
        assert not is_kept(path) and not any(path.parent.iterdir())


def test_a_state_that_was_put_back_is_kept_by_the_next_save(tmp_path: Path) -> None:
    """Otherwise a kill between the moves of the next save would leave the damaged one only."""
    path = tmp_path / "done.json"
    _two_states(path)
    path.write_text("torn")
    with pytest.warns(UserWarning, match="takes its place"):
        again = kept(path)
    again.keep({"two": ()})
    path.unlink()
    assert [*kept(path)] == ["one"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Expected")
def test_damaged_arrays_are_replaced_by_those_before(tmp_path: Path) -> None:
    path = tmp_path / "sums.safetensors"
    for number in (1, 2):
        write_arrays(path, {"sum": np.full(3, number)}, {"key": "a", "n": str(number)})
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def read(file: Path) -> list[object]:
        arrays, about = read_arrays(file, "sums")
        check_same_key(file, about["key"], "a")
        return [*arrays["sum"], about["n"]]

    for n in range(len(files[path])):
        for file, content in files.items():
            file.write_bytes(content)
        flipped = bytes([files[path][n] ^ 1])
        path.write_bytes(files[path][:n] + flipped + files[path][n + 1 :])
        assert latest(path, read, str) in ([1, 1, 1, "1"], [2, 2, 2, "2"]), n
