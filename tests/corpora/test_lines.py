"""Numbered lines of a file, whatever its line ends."""

import re
from pathlib import Path

import pytest

from headcount.core import CorpusError, InputError
from headcount.corpora import numbered_lines


def lines(path: Path, content: bytes) -> list[tuple[int, str]]:
    path.write_bytes(content)
    return list(numbered_lines(path))


def test_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path, mark = tmp_path / "a", "\ufeff".encode()
    assert lines(path, mark + b" one \r\n\ntwo\t\n" + mark) == [
        (1, " one "),
        (2, ""),
        (3, "two\t"),
        (4, "\ufeff"),
    ]


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    content = "one\u2028two\x0bthree\x85four\rfive\nsix"
    assert [number for number, _ in lines(tmp_path / "a", content.encode())] == [1, 2]


def test_not_utf_8_names_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a"
    expected = (
        f"{path}:2: expected UTF-8, got byte 0xfc as byte 3 of the line. Convert the file to "
        "UTF-8 first: iconv -f WINDOWS-1252"
    )
    with pytest.raises(CorpusError, match=re.escape(expected)):
        lines(path, b"fine\nso\xfcber\n")


def test_a_file_that_went_away_is_an_input_error(tmp_path: Path) -> None:
    message = "gone cannot be read: No such file or directory. Give a file that you may read."
    with pytest.raises(InputError, match=message):
        list(numbered_lines(tmp_path / "gone"))
