"""Wrapped lines are read as paragraphs; sentences, verse, lists and code are read line by line."""

import random
import textwrap
from itertools import count

import pytest

from headcount.corpora.paragraphs import LOOKED_AT, are_wrapped, with_paragraphs

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


@pytest.mark.parametrize("width", [40, 70, 120])
def test_paragraphs_come_back_as_they_were_with_the_numbers_of_their_first_lines(width: int):
    lines = wrapped(PARAGRAPHS, width)
    found = [*with_paragraphs(zip(count(1), lines))]
    assert [text for _, text in found] == PARAGRAPHS
    assert all(text.startswith(lines[number - 1]) for number, text in found)


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
        [],
    ],
    ids=["sentences", "verse", "list", "paragraphs", "no blank lines", "few lines", "nothing"],
)
def test_other_lines_stay_as_they_are(lines: list[str]):
    assert [*with_paragraphs(zip(count(1), lines))] == [*zip(count(1), lines)]


def test_what_comes_after_the_lines_that_are_looked_at_is_read_in_the_same_way():
    lines = wrapped(PARAGRAPHS * 3)
    assert len(lines) > LOOKED_AT
    found = [text for _, text in with_paragraphs(zip(count(1), lines))]
    assert found == PARAGRAPHS * 3, "also the paragraph across the edge"
