"""A file is written completely or not at all."""

from pathlib import Path

import pytest

from headcount.core import reason, write_atomically, write_json, write_text


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
