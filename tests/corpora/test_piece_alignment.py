"""Pieces of running text laid over words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.corpora import Sentence
from headcount.corpora.piece_alignment import (
    not_aligned,
    words_by_characters,
    words_by_offsets,
    words_one_by_one,
)


def test_one_by_one_needs_the_pieces_of_the_whole() -> None:
    words = ("ab", "", "c")
    assert words_one_by_one(words, ["a", "b", "c"], list) == [0, 0, 2]
    assert words_one_by_one(words, ["a", "b", " ", "c"], list) is None


def test_offsets() -> None:
    words = ("10 000", "Äpfel", ".")
    spans = [(0, 2), (2, 6), (6, 8), (8, 12), (12, 13), (13, 14)]
    assert words_by_offsets(words, spans) == [0, 0, 1, 1, 2, 2]
    assert words_by_offsets(words, [(0, 8)]) is None


@pytest.mark.parametrize(
    ("words", "pieces", "expected"),
    [
        (("The", "dogs"), ["the", "dog", "##s"], [0, 1, 1]),
        (("Der", "Größe"), ["▁Der", "▁", "Gr", "öß", "e"], [0, 1, 1, 1, 1]),
        (
            ("Она", "спит", "…"),
            [
                "▁Она",
                "▁с",
                "пит",
                "▁",
                "...",
            ],
            [0, 1, 1, 2, 2],
        ),
        (("low", "er"), ["lo@@", "w", "er</w>"], [0, 0, 1]),
        (("日本", "ab"), ["<unk>", "ab"], [0, 1]),
        (("a\N{SOFT HYPHEN}b", "\u200b", "c"), ["ab", "c"], [0, 2]),
        (("\u200b", "c", "\u200b"), ["c"], [1]),
        (("e\u0301a", "b"), ["e", "\u0301a", "b"], [0, 0, 1]),
        (("##", "x"), ["##", "x"], [0, 1]),
        (("Р", "а"), ["Ð", "\xa0", " ", "Ð", "°"], [0, 0, 1, 1, 1]),
    ],
)
def test_characters(words: tuple[str, ...], pieces: list[str], expected: list[int]) -> None:
    assert words_by_characters(words, pieces, "<unk>") == expected


@pytest.mark.parametrize(
    "pieces", [["ab"], ["a", "b", "c"], ["a"], ["x", "b"], ["a", "x"], ["ac", "b"]]
)
def test_characters_that_do_not_fit(pieces: list[str]) -> None:
    assert words_by_characters(("a", "b"), pieces, None) is None


@given(st.data())
def test_any_cutting_of_words_is_found_again(data: st.DataObject) -> None:
    letters = st.text("abcäöжщ.,…é", min_size=1, max_size=5)
    words = data.draw(st.lists(letters, min_size=1, max_size=5))
    pieces: list[str] = []
    expected: list[int] = []
    for index, word in enumerate(words):
        cut = data.draw(st.integers(1, len(word)))
        parts = [part for part in (word[:cut], word[cut:]) if part]
        pieces += ["▁" + parts[0], *parts[1:]]
        expected += [index] * len(parts)
    assert words_by_characters(words, pieces, None) == expected


def test_the_error_names_words_and_pieces() -> None:
    error = not_aligned(Sentence("a b", ("a", "b"), origin="x.conllu:7"), ["ab"])
    assert str(error) == (
        "x.conllu:7: the tokenizer's pieces 'ab' cannot be aligned with the words 'a' 'b'. Give "
        "the sentence as running text, or use a model whose tokenizer does not merge words."
    )
    assert str(not_aligned(Sentence("a"), ["a"] * 31)).count("'a'") == 30
