"""A file is written completely or not at all."""

import os
import pickle
import re
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

import headcount
from headcount.core import (
    InputError,
    Kept,
    put,
    read_json,
    reason,
    visible,
    write_json,
    write_readable,
    write_text,
)
from headcount.core.files import write_atomically
from tests.flushed import flushed


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "table"
    write_text(path, "old")

    def half(file: Path) -> None:
        file.write_text("ha")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, half)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_on_disk_before_and_after_it_gets_its_name(tmp_path: Path) -> None:
    with flushed() as seen:
        write_text(tmp_path / "table", "new")
    whole = [("flush", ".table.part"), ("move", "table"), ("flush", tmp_path.name)]
    assert seen == whole
    with flushed() as seen:  # the names of new folders, too
        write_text(tmp_path / "a" / "b" / "table", "new")
    assert seen == [("flush", "a"), ("flush", tmp_path.name), *whole[:2], ("flush", "b")]


def test_a_folder_is_on_disk_with_all_its_files_before_it_gets_its_name(tmp_path: Path) -> None:
    (tmp_path / "new" / "deep").mkdir(parents=True)
    (tmp_path / "new" / "deep" / "weights").write_text("1")
    (tmp_path / "new" / "config").write_text("1")
    (tmp_path / "new" / "link").symlink_to("config")
    os.mkfifo(tmp_path / "new" / "pipe")  # opening it would wait for a writer
    with flushed() as seen:
        put(tmp_path / "new", tmp_path / "model")
    names = ("config", "weights", "deep", "new")
    assert seen[:4] == [("flush", name) for name in names]
    assert seen[4:] == [("move", "model"), ("flush", tmp_path.name)]


@pytest.mark.parametrize(
    ("number", "is_folder", "is_shown"),
    [(22, True, False), (95, True, False), (5, True, True), (22, False, True), (28, False, True)],
)
def test_only_a_file_system_that_cannot_flush_folders_is_let_pass(
    number: int, is_folder: bool, is_shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails or is full when it is flushed has lost what was written."""

    def fails(opened: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode) == is_folder:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError) if is_shown else nullcontext():
        write_text(tmp_path / "table", "new")
    assert list(tmp_path.iterdir()) == ([] if is_shown and not is_folder else [tmp_path / "table"])


def test_files_get_their_names_in_one_place() -> None:
    """A move anywhere else would not be flushed."""
    moves = re.compile(r"os\.(replace|rename)\(|shutil\.move|\.rename\((?!columns)")
    sources = Path(headcount.__file__).parent.rglob("*.py")
    found = [path.name for path in sources if moves.search(path.read_text(encoding="utf-8"))]
    assert found == ["files.py"]


def test_json_is_readable_and_strict(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"word": "Straße"})
    assert "Straße" in (tmp_path / "run.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "run.json", {"share": float("nan")})
    assert "Straße" in (tmp_path / "run.json").read_text(encoding="utf-8")


def test_advice_that_only_a_programmer_can_follow_is_left_out() -> None:
    with pytest.raises(ValueError) as caught:
        int("1" * 5000)
    assert "set_int_max" in str(caught.value)
    assert reason(caught.value).startswith("Exceeds the limit (4300 digits)")
    assert "set_int_max" not in reason(caught.value)


def test_advice_to_switch_a_protection_off_is_left_out(tmp_path: Path) -> None:
    class Code:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("run",)

    torch.save({"weight": Code()}, tmp_path / "code.bin")
    (tmp_path / "damaged.bin").write_bytes(b"\x80\x02\xf0")
    for name, why in (("code", "holds 'print', which is no tensor"), ("damaged", "is damaged, or")):
        with pytest.raises(pickle.UnpicklingError) as caught:
            torch.load(tmp_path / f"{name}.bin", weights_only=True)
        assert "weights_only" in str(caught.value)
        assert why in reason(caught.value) and "only" not in reason(caught.value)


def test_a_long_reason_is_shortened() -> None:
    found = reason(ValueError(f"unknown, known are {', '.join(map(str, range(5000)))}; name one"))
    assert len(found) == 400 and found.endswith("4999; name one") and " ... " in found


def test_a_named_pipe_is_refused_where_it_would_be_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(InputError, match="run.json is a named pipe, a socket or a device"):
        read_json(tmp_path / "run.json", "a record", "Run it again.")
    read, write = os.pipe()  # as `--plan <(...)` of a shell
    os.write(write, b"[1]")
    os.close(write)
    assert read_json(Path(f"/dev/fd/{read}"), "a plan", "Give another.") == [1]
    os.close(read)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"version": ' + b"1" * 5000 + b"}", r"Exceeds the limit \(4300 digits\)"),
        (b'{"a": 1, "a": 2}', "it names 'a' twice"),
        (b"\xff\xfe{}", "codec can't decode byte 0xff"),
        (b'{"a": [1, 2', "Expecting ',' delimiter"),
        (b"", "Expecting value"),
    ],
)
def test_what_is_no_json_is_refused_by_its_file(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "points.json"
    path.write_bytes(content)
    for read in (
        lambda: read_json(path, "points", "Run it again."),
        lambda: Kept(path, "key", "points", float),
    ):
        with pytest.raises(InputError, match=rf"points in .*points\.json, but .*{why}.*again"):
            read()


CONTROLS = "a\x1b[2J\x07\x9b\u202e\udcffz\r\n\tnaïve"


def test_json_escapes_what_a_terminal_obeys_and_gives_it_back(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"corpus": CONTROLS})
    text = (tmp_path / "run.json").read_text(encoding="utf-8")
    assert visible(text) == text and "naïve" in text
    assert read_json(tmp_path / "run.json", "a run", "") == {"corpus": CONTROLS}


def test_documents_have_signs_for_control_characters(tmp_path: Path) -> None:
    write_readable(tmp_path / "curve.md", CONTROLS)
    text = (tmp_path / "curve.md").read_text(encoding="utf-8")
    assert text == "a␛[2J␇\ufffd\ufffd\ufffdz␍\n\tnaïve"
