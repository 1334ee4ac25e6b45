"""Punctuation is a fact of the token id."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from headcount.corpora import Encoder, Sentence
from headcount.corpora.spelling import PunctuationTable, is_punctuation


@pytest.mark.parametrize(
    "text", [".", " ,", "##)", "▁«", "…", "—", "!?", "'", ",</w>", "-@@", "##"]
)
def test_punctuation(text: str) -> None:
    assert is_punctuation(text)


@pytest.mark.parametrize(
    "text", ["", " ", "▁", "a", ".a", "##s", "$", "+", "1", "н", "\ufffd", "n't"]
)
def test_no_punctuation(text: str) -> None:
    assert not is_punctuation(text)


@given(st.text(min_size=1))
def test_every_character_counts(text: str) -> None:
    expected = bool(text.strip()) and all(
        unicodedata.category(letter)[0] == "P" for letter in text.strip()
    )
    if not any(mark in text for mark in ("##", "@@", "▁", "</w>")):
        assert is_punctuation(text) is expected


def test_an_id_is_decoded_once_however_large() -> None:
    asked: list[int] = []

    def decode(token: int) -> str:
        asked.append(token)
        return "." if token % 2 else "a"

    table = PunctuationTable(decode)
    ids_BN = np.array([[3, 4, 3], [5000, 5001, 4]])
    expected = [[True, False, True], [False, True, False]]
    assert table(ids_BN).tolist() == expected
    assert table(ids_BN).tolist() == expected
    assert sorted(asked) == [3, 4, 5000, 5001]


def test_every_tokenizer_knows_its_punctuation(tokenizer: PreTrainedTokenizerBase) -> None:
    encoder = Encoder(tokenizer)
    words = ("dog", ",", "Hund", ".", "собака", "!")
    (encoded,) = encoder.sources([Sentence(" ".join(words), words)])
    is_punct = encoder.source_punctuation(np.array(encoded.ids))
    found = {of for of, punct in zip(encoded.word_of, is_punct, strict=True) if punct and of >= 0}
    assert found == {1, 3, 5}


def test_the_two_vocabularies_of_marian(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    encoder = Encoder(tokenizers["marian-separate"], start_id=0)
    (pair,) = encoder.encode([Sentence("Hund .", target="Hund .")])
    assert pair.target is not None
    assert encoder.source_punctuation(np.array(pair.source.ids))[:-1].sum() == 1
    assert encoder.target_punctuation(np.array(pair.target.ids)).tolist()[-1] is True
