"""Training data: empty sides are counted, broken files refused, held-out sentences not shared."""

import random
from pathlib import Path

import pytest

from headcount.core import CorpusError, InputError
from headcount.papers import Rows, hold_out, read_pairs, read_texts
from headcount.papers.pretraining.rows import write_rows


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "a.en").write_text("one\n\n three  3\nfour\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\nzwei\ndrei\n \n", encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.de"


def test_two_files(files: tuple[Path, Path]) -> None:
    rows = read_pairs(files)
    assert rows.rows == [("one", "eins"), ("three 3", "drei")] and rows.num_empty == 2
    assert rows.columns == {"source": ["one", "three 3"], "target": ["eins", "drei"]}


def test_tables(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("source\ttarget\nx\ty\n\tz\n", encoding="utf-8")
    rows = read_pairs(table)
    assert rows.rows == [("x", "y")] and rows.num_empty == 1
    assert read_pairs([table, table], {"source": 1, "target": 0}).rows[1] == ("y", "x")
    assert read_texts(table).rows == [("x",)], "of parallel text, the sources"
    write_rows(rows, tmp_path / "b.tsv")
    assert read_pairs(tmp_path / "b.tsv") == read_pairs({"source": ["x"], "target": ["y"]})
    assert rows.sha256 != read_pairs({"source": ["x"], "target": ["z"]}).sha256


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "source\ttarget\nx\ty\n\t\n\n \nu\t \n"),
        ("a.csv", "source,target\nx,y\n,\n\n \nu, \n"),
        ("a.txt", "x\ty\n\t\n\n \nu\t \n"),
    ],
)
def test_rows_of_empty_cells_are_counted_and_blank_lines_are_no_rows(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    columns = {"source": 0, "target": 1} if name == "a.txt" else None
    rows = read_pairs([tmp_path / name], columns)
    assert rows.rows == [("x", "y")] and rows.num_empty == 2


def test_pairs_need_no_header(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("One.\tEins.\n\tzwei\n", encoding="utf-8")
    rows = read_pairs(table)
    assert rows.rows == [("One.", "Eins.")] and rows.num_empty == 1
    assert read_pairs([table, table]).rows == 2 * rows.rows


def test_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n", encoding="utf-8")
    assert read_texts([tmp_path / "a.txt"]).rows == [("one",), ("two",)]


def test_refusals(files: tuple[Path, Path], tmp_path: Path) -> None:
    english, german = files
    german.write_text("eins\nzwei\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"as many lines in .*a\.de as in .*a\.en, got 2 and 4"):
        read_pairs(files)
    german.write_bytes(b"eins\nzw\xffi\ndrei\nvier\n")
    with pytest.raises(CorpusError, match=r"a\.de:2: expected UTF-8, got byte 0xff"):
        read_pairs(files)
    with pytest.raises(CorpusError, match=r"source and target, got none among 2 lines"):
        read_pairs({"source": ["a", ""], "target": [" ", "b"]})
    with pytest.raises(CorpusError, match="expected a column 'source'"):
        read_pairs({"text": ["a"]})
    with pytest.raises(CorpusError, match="cannot be read"):
        read_pairs((english, tmp_path / "none.de"))


def _rows() -> Rows:
    """Sentences with many translations each, in both directions, some in capitals."""
    chance = random.Random(7)
    rows = [(f"s{chance.randrange(40)}", f"t{chance.randrange(60)}") for _ in range(200)]
    return Rows(
        ("source", "target"), [(a.upper() if chance.random() < 0.3 else a, b) for a, b in rows]
    )


def test_no_side_is_shared() -> None:
    rows = _rows()
    left, (dev, test) = hold_out(rows, (5, 7), seed=2)
    assert (len(dev.rows), len(test.rows)) == (5, 7)
    for side in range(2):
        held = [row[side].lower() for row in dev.rows + test.rows]
        assert len(set(held)) == len(held)
        assert not set(held) & {row[side].lower() for row in left.rows}
    assert set(dev.rows + test.rows + left.rows) <= set(rows.rows)
    held = dev.rows + test.rows
    sharing = [
        row
        for row in rows.rows
        if any(row[s].lower() == other[s].lower() for other in held for s in range(2))
    ]
    assert len(left.rows) == len(rows.rows) - len(sharing), "what shares no side is all kept"
    assert left.rows == [row for row in rows.rows if row in set(left.rows)], "in its order"
    assert left.num_shared == len(sharing) - len(held) > 0


def test_seed() -> None:
    assert hold_out(_rows(), (5,), seed=1)[1] == hold_out(_rows(), (5,), seed=1)[1]
    assert hold_out(_rows(), (5,), seed=1)[1] != hold_out(_rows(), (5,), seed=2)[1]


def test_too_few() -> None:
    rows = Rows(("source", "target"), [("a", "x"), ("A", "y"), ("b", "y")])
    with pytest.raises(
        InputError, match=r"3 rows to hold out that share no side, got [12] of 3 rows"
    ):
        hold_out(rows, (2, 1))
    with pytest.raises(InputError, match="leaves 0 for training. Hold out fewer"):
        hold_out(Rows(("text",), [("a",), ("b",)]), (2,))
