"""Gold links in Pharaoh's format and in NAACL's."""

import re
from pathlib import Path

import pytest

from headcount.core import CorpusError
from headcount.corpora.links import Links, read_links


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_pharaoh(tmp_path: Path) -> None:
    path = write(tmp_path / "gold", "0-0 1p2 2?1\n\n3-4 3-5\n")
    first, empty, last = read_links(path, 3)
    assert first.sure == {(0, 0)} and first.possible == {(0, 0), (1, 2), (2, 1)}
    assert not empty.possible and empty.origin == f"{path}:2"
    assert last.sure == last.possible == {(3, 4), (3, 5)}


def test_naacl_counts_from_1_and_leaves_out_the_empty_word(tmp_path: Path) -> None:
    path = write(tmp_path / "gold", "0001 1 1 S\n0001 2 3 P\n0003 4 5\n3 0 2 S\n3 7 1 P 0.5\n")
    first, second, third = read_links(path, 3)
    assert first.sure == {(0, 0)} and first.possible == {(0, 0), (1, 2)}
    assert not second.possible
    assert third.sure == {(3, 4)} and third.possible == {(3, 4), (6, 0)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0-0\n1-x\n", ":2: expected links such as 3-4 (sure) or 3p4 (possible), got '1-x'"),
        ("0-0\n", "Expected one line of links in {path} for each of 2 pairs, got 1."),
        ("\n \n", "Expected gold links in {path}, got none."),
        ("1 1 1 S\n1 2 S\n", ":2: expected PAIR SOURCE TARGET, then S or P"),
        ("1 1 1 S\n3 1 1 S\n", ":2: expected a pair from 1 to 2, got 3."),
        ("1 1 1 X\n", ":1: expected PAIR SOURCE TARGET"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path / "gold", content)
    with pytest.raises(CorpusError, match=re.escape(message.replace("{path}", str(path)))):
        read_links(path, 2)


def test_a_link_out_of_range_is_refused(tmp_path: Path) -> None:
    links = read_links(write(tmp_path / "gold", "0-0\n4-2 1-3\n"), 2)[1]
    links.check(5, 4)
    with pytest.raises(CorpusError, match=re.escape("gold:2: the link 4-2 (counted from 0)")):
        links.check(4, 4)
    with pytest.raises(CorpusError, match="out of range, since the target has 3 words"):
        links.check(5, 3)


def test_sure_links_are_possible() -> None:
    with pytest.raises(CorpusError, match="expected every sure link to be possible"):
        Links(frozenset({(0, 0)}), frozenset())
