"""Parallel text in one file and in two."""

import re
from pathlib import Path

import pytest

from headcount.core import CorpusError
from headcount.corpora.formats import File
from headcount.corpora.records import read_pair, read_tsv


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_tsv(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "A dog.\tEin Hund.\n\nОн спит.\t Er schläft. \n")
    found = [(pair.text, pair.target, pair.origin) for pair in read_tsv(File(path))]
    assert found == [
        ("A dog.", "Ein Hund.", f"{path}:1"),
        ("Он спит.", "Er schläft.", f"{path}:3"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A dog.", "expected source<TAB>target, got 1 column. Keep two columns"),
        (
            "a\tb\tc",
            "expected source<TAB>target, got 3 columns. Keep two columns (further references, as "
            "target2, are read by --task translation only), or name that of the text",
        ),
        ("\tb", "expected text on both sides of the tab, got an empty source. Complete"),
        ("a\t ", "expected text on both sides of the tab, got an empty target"),
    ],
)
def test_a_broken_row_names_file_and_line(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path / "a.tsv", f"A dog.\tEin Hund.\n{row}\n")
    with pytest.raises(CorpusError, match=re.escape(f"{path}:2: {message}")):
        list(read_tsv(File(path)))


def test_two_files_line_by_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "A dog.\n\nHe sleeps.\n")
    target = write(tmp_path / "b.de", "Ein Hund.\n \nEr schläft.\n")
    found = [(pair.text, pair.target, pair.origin) for pair in read_pair(source, target)]
    assert found == [
        ("A dog.", "Ein Hund.", f"{source}:1"),
        ("He sleeps.", "Er schläft.", f"{source}:3"),
    ]


def test_a_treebank_goes_with_one_line_a_sentence(tmp_path: Path, treebank: str) -> None:
    source = write(tmp_path / "a.conllu", treebank)
    target = write(tmp_path / "b.txt", "eins\nzwei\ndrei\n")
    pairs = list(read_pair(source, target))
    assert [pair.target for pair in pairs] == ["eins", "zwei", "drei"]
    assert pairs[0].words == ("The", "dogs", "did", "n't", "bark", ".")
    assert all(pair.tree is not None for pair in pairs)


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (1, 0), (0, 2)])
def test_line_counts_must_agree(tmp_path: Path, left: int, right: int) -> None:
    source, target = (
        write(tmp_path / "a.txt", "a\n" * left),
        write(tmp_path / "b.txt", "b\n" * right),
    )
    message = f"Expected as many lines in {target} as lines in {source}, got {right} and {left}."
    with pytest.raises(CorpusError, match=re.escape(message)):
        list(read_pair(source, target))


def test_treebank_and_lines_must_agree(tmp_path: Path, treebank: str) -> None:
    source, target = write(tmp_path / "a.conllu", treebank), write(tmp_path / "b.txt", "eins\n")
    message = f"Expected as many lines in {target} as sentences in {source}, got 1 and 3."
    with pytest.raises(CorpusError, match=re.escape(message)):
        list(read_pair(source, target))


def test_a_line_that_is_blank_on_one_side_is_refused(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.txt", "a\nb\n"), write(tmp_path / "b.txt", "a\n\n")
    message = f"{other}:2: the line is blank but its other side, {one}:2, is not. Complete"
    with pytest.raises(CorpusError, match=re.escape(message)):
        list(read_pair(one, other))
    message = f"{other}:2: the line is blank but its other side, {one}:2, is not. Complete"
    with pytest.raises(CorpusError, match=re.escape(message)):
        list(read_pair(other, one))
