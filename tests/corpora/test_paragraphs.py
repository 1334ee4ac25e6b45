"""Wrapped lines are read as paragraphs; sentences, verse, lists and code are read line by line."""

import random
import textwrap
from pathlib import Path

import pytest

from headcount.corpora import USUAL, Column, Corpus, HowRead, ReadAs, read_data
from headcount.corpora.lines import LOOKED_AT, are_wrapped

DRAW = random.Random(1)
SENTENCES = [
    " ".join("a" * DRAW.randint(1, 9) for _ in range(DRAW.randint(3, 30))).capitalize() + "."
    for _ in range(400)
]
PARAGRAPHS = [" ".join(SENTENCES[at : at + 5]) for at in range(0, 400, 5)]
VERSE = [line for four in range(40) for line in (*SENTENCES[4 * four : 4 * four + 4], "")]
LIST = [f"- {'b' * DRAW.randint(3, 60)}" if n % 8 else "" for n in range(300)]


def wrapped(paragraphs: list[str], width: int = 70) -> list[str]:
    return [line for each in paragraphs for line in (*textwrap.wrap(each, width), "")]


def read(lines: list[str], folder: Path, how: HowRead = USUAL) -> list[tuple[int, str]]:
    """Number and text of each example of a file."""
    file = folder / "texts.txt"
    file.write_text("\n".join([*lines, ""]))
    examples = [*Corpus(ReadAs(file, how))]
    return [(int(each.origin.rsplit(":", 1)[1]), each.text) for each in examples]


@pytest.mark.filterwarnings("ignore:.*lines were wrapped")
@pytest.mark.parametrize("width", [40, 70, 120])
def test_paragraphs_come_back_with_the_numbers_of_their_first_lines(width: int, tmp_path: Path):
    lines = wrapped(PARAGRAPHS, width)
    found = read(lines, tmp_path)
    assert [text for _, text in found] == PARAGRAPHS
    assert all(text.startswith(lines[number - 1]) for number, text in found)


def test_the_user_is_told_and_may_keep_lines_which_is_another_corpus(tmp_path: Path):
    lines, file = wrapped(PARAGRAPHS), tmp_path / "texts.txt"
    with pytest.warns(UserWarning, match="are joined to paragraphs; --lines keeps them"):
        read(lines, tmp_path)
        joined = Corpus(file).sha256()
    kept = HowRead(lines=True)
    assert [text for _, text in read(lines, tmp_path, kept)] == [each for each in lines if each]
    assert Corpus(ReadAs(file, kept)).sha256() != joined


@pytest.mark.filterwarnings("ignore:.*lines were wrapped")
def test_tasks_read_the_same_texts(tmp_path: Path):
    found = read(wrapped(PARAGRAPHS), tmp_path)
    table = read_data([tmp_path / "texts.txt"], None, {"text": Column(("text",))})
    assert list(table.columns["text"]) == [text for _, text in found]


def test_the_user_is_told_once_in_a_run(tmp_path: Path):
    with pytest.warns(UserWarning) as told:
        read(wrapped(PARAGRAPHS), tmp_path)
    assert len(told) == 1


def test_dialogue_is_wrapped_too():
    talk = [each for pair in zip(PARAGRAPHS, SENTENCES, strict=False) for each in pair]
    assert are_wrapped(wrapped([f"“{each}”" for each in talk]))


@pytest.mark.parametrize(
    "lines",
    [
        SENTENCES,
        VERSE,
        LIST,
        PARAGRAPHS,
        [line for line in wrapped(PARAGRAPHS) if line],
        wrapped(PARAGRAPHS[:2])[:15],
    ],
    ids=["sentences", "verse", "list", "paragraphs", "no blank lines", "few lines"],
)
def test_other_lines_stay_as_they_are(lines: list[str], tmp_path: Path):
    kept = [(number, line) for number, line in enumerate(lines, start=1) if line]
    assert read(lines, tmp_path) == kept


@pytest.mark.filterwarnings("ignore:.*lines were wrapped")
def test_what_comes_after_the_lines_that_are_looked_at_is_read_in_the_same_way(tmp_path: Path):
    lines = wrapped(PARAGRAPHS * 3)
    assert len(lines) > LOOKED_AT
    found = [text for _, text in read(lines, tmp_path)]
    assert found == PARAGRAPHS * 3, "also the paragraph across the edge"
