"""Pieces of running text laid over words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.corpora import Sentence
from headcount.corpora.spelling import not_aligned, spans_by_letters, spans_of_pieces


def found_texts(text: str, spans: list[tuple[int, int]] | None) -> list[str] | None:
    return None if spans is None else [text[start:end] for start, end in spans]


def test_parts_are_tokenized_by_themselves() -> None:
    """Inside each part letters are followed; where they differ, a piece is all of the part."""
    names = {"dogs": ["x", "y"], "it.": ["z", "."]}
    pieces, ids = ["dog", "s", "?!", "."], ["x", "y", "z", "."]
    found = spans_of_pieces("dogs it.", pieces, ids, names.__getitem__, None)
    assert found_texts("dogs it.", found) == ["dog", "s", "it.", "it."]
    assert spans_of_pieces("dogs it.", pieces, [*ids, "."], names.__getitem__, None) is None


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("The dogs", ["the", "dog", "##s"], ["The", "dog", "s"]),
        ("Der Größe", ["▁Der", "▁", "Gr", "öß", "e"], ["Der", "", "Gr", "öß", "e"]),
        ("Она спит…", ["▁Она", "▁с", "пит", "▁", "..."], ["Она", "с", "пит", "", "…"]),
        ("low er", ["lo@@", "w", "er</w>"], ["lo", "w", "er"]),
        ("日本 ab", ["<unk>", "ab"], ["日本", "ab"]),
        ("日本, ab", ["▁", "<unk>", ",", "▁ab"], ["", "日本", ",", "ab"]),
        ("日, 本", ["<unk>", ",", "<unk>"], ["日", ",", "本"]),
        ("a\N{SOFT HYPHEN}b \u200b c", ["ab", "c"], ["a\N{SOFT HYPHEN}b", "c"]),
        ("e\u0301a b", ["e", "\u0301a", "b"], ["e", "\u0301a", "b"]),
        ("## x", ["##", "x"], ["##", "x"]),
        ("didn't", ["didn", "'", "t"], ["didn", "'", "t"]),
        ("ΟΣ ς", ["ος", "▁ς"], ["ΟΣ", "ς"]),
        ("Р а", ["Ð", "\xa0", " ", "Ð", "°"], ["Р", "Р", "", "а", "а"]),
    ],
)
def test_letters(text: str, pieces: list[str], expected: list[str]) -> None:
    assert found_texts(text, spans_by_letters(text, pieces, "<unk>")) == expected


@pytest.mark.parametrize("pieces", [["a", "b", "c"], ["a"], ["x", "b"], ["a", "x"], ["ac", "b"]])
def test_letters_that_do_not_fit(pieces: list[str]) -> None:
    assert spans_by_letters("a b", pieces, None) is None


@given(st.data())
def test_any_cutting_of_a_text_is_found_again(data: st.DataObject) -> None:
    letters = st.text("abcäöжщ.,…é", min_size=1, max_size=5)
    words = data.draw(st.lists(letters, min_size=1, max_size=5))
    pieces: list[str] = []
    expected: list[str] = []
    for word in words:
        cut = data.draw(st.integers(1, len(word)))
        parts = [part for part in (word[:cut], word[cut:]) if part]
        pieces += ["▁" + parts[0], *parts[1:]]
        expected += parts
    text = " ".join(words)
    assert found_texts(text, spans_by_letters(text, pieces, None)) == expected


def test_the_error_names_words_and_pieces() -> None:
    error = not_aligned(Sentence("a b", ("a", "b"), origin="x.conllu:7"), ["ab"])
    assert str(error) == (
        "x.conllu:7: the tokenizer's pieces 'ab' cannot be aligned with the words 'a' 'b'. Give "
        "the sentence as running text, or use a model whose tokenizer does not merge words."
    )
    assert str(not_aligned(Sentence("a"), ["a"] * 31)).count("'a'") == 30
