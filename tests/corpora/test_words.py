"""Pieces and words, for every kind of tokenizer and all three languages."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from headcount.corpora import Encoder, Sentence
from tests.corpora.conftest import EVERY_KIND
from tests.tiny_tokenizers import SENTENCES, across_words

Tokenizers = dict[str, PreTrainedTokenizerBase]
SLOW = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20
)
WORDS = [
    ("The", "dog", "does", "n't", "bark", ",", "she", "believes", "."),
    ("Als", "der", "Zug", "hielt", ",", "sprangen", "müde", "Kinder", "!"),
    ("Старая", "собака", "не", "могла", "уснуть", "…"),
    ("10 000", "zwei", "½", "日本", "мир"),
    ("one",),
]


def sentence(*words: str) -> Sentence:
    return Sentence(" ".join(words), words, origin="bank.conllu:7")


@pytest.mark.parametrize("words", WORDS)
def test_ids_are_those_of_running_text(
    tokenizer: PreTrainedTokenizerBase, words: tuple[str, ...]
) -> None:
    (encoded,) = Encoder(tokenizer).sources([sentence(*words)])
    assert encoded.ids == tokenizer(" ".join(words))["input_ids"]


@pytest.mark.parametrize("words", WORDS)
def test_pieces_of_a_word_spell_it(tokenizers: Tokenizers, words: tuple[str, ...]) -> None:
    encoder = Encoder(tokenizers["gpt2"])
    (encoded,) = encoder.sources([sentence(*words)])
    for index, word in enumerate(words):
        ids = [token for token, of in zip(encoded.ids, encoded.word_of, strict=True) if of == index]
        assert str(tokenizers["gpt2"].decode(ids)).strip() == word


def check_alignment(tokenizer: PreTrainedTokenizerBase, words: tuple[str, ...]) -> None:
    """Pieces are contiguous and in order, and with the lost words they cover all words."""
    (encoded,) = Encoder(tokenizer).sources([sentence(*words)])
    assert len(encoded.ids) == len(encoded.word_of) == len(encoded.is_special)
    content = [word for word in encoded.word_of if word >= 0]
    assert content == sorted(content)
    assert len(set(content)) + encoded.num_words_lost == len(words)
    assert all(
        (word < 0) == special
        for word, special in zip(encoded.word_of, encoded.is_special, strict=True)
    )
    assert not encoded.truncated


@pytest.mark.parametrize("kind", EVERY_KIND)
@given(words=st.lists(st.sampled_from(" ".join(SENTENCES).split()), min_size=1, max_size=12))
@SLOW
def test_pieces_cover_the_sentence(tokenizers: Tokenizers, kind: str, words: list[str]) -> None:
    check_alignment(tokenizers[kind], tuple(words))


LETTERS = st.characters(codec="utf-8", exclude_categories=("Z", "C"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wordpiece", "roberta", "gpt2", "t5", "llama"])
@given(words=st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=6))
@SLOW
def test_any_letters_are_aligned(tokenizers: Tokenizers, kind: str, words: list[str]) -> None:
    check_alignment(tokenizers[kind], tuple(words))


@pytest.mark.parametrize("kind", ["wordpiece", "marian"])
def test_a_word_without_pieces_is_counted(tokenizers: Tokenizers, kind: str) -> None:
    (encoded,) = Encoder(tokenizers[kind]).sources([sentence("one", "\u200b", "dog")])
    assert encoded.num_words_lost == 1
    assert set(encoded.word_of) == {-1, 0, 2}


def test_an_unknown_word_is_content(tokenizers: Tokenizers) -> None:
    for kind in ("wordpiece", "t5", "marian"):
        tokenizer = tokenizers[kind]
        (encoded,) = Encoder(tokenizer).sources([sentence("dog", "日")])
        flags = [
            special
            for token, special in zip(encoded.ids, encoded.is_special, strict=True)
            if token == tokenizer.unk_token_id
        ]
        assert flags == [False]


@pytest.mark.parametrize(
    ("kind", "literal"),
    [("wordpiece", "[SEP]"), ("roberta", "</s>"), ("t5", "</s>"), ("marian", "</s>")],
)
def test_a_special_token_written_in_the_text_is_content(
    tokenizers: Tokenizers, kind: str, literal: str
) -> None:
    encoder = Encoder(tokenizers[kind])
    for given_ in (sentence("dog", literal, "dog"), Sentence(f"dog {literal} dog")):
        (encoded,) = encoder.sources([given_])
        positions = [i for i, token in enumerate(encoded.ids) if token in encoder.sep_ids]
        assert [encoded.is_special[i] for i in positions] == [False, True]


def test_marian_reads_words_that_split_differently_in_a_sentence(tokenizers: Tokenizers) -> None:
    """Alone, `>>x<<` is taken for a language code; in a sentence it is not."""
    (encoded,) = Encoder(tokenizers["marian"]).sources([sentence("dog", ">>x<<", "dog")])
    assert encoded.ids == tokenizers["marian"]("dog >>x<< dog")["input_ids"]
    assert sorted(set(encoded.word_of)) == [-1, 0, 1, 2]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_running_text_has_no_words(tokenizers: Tokenizers, kind: str) -> None:
    (encoded,) = Encoder(tokenizers[kind]).sources([Sentence("Der Hund schläft.")])
    assert encoded.ids == tokenizers[kind]("Der Hund schläft.")["input_ids"]
    assert set(encoded.word_of) == {-1}
    assert encoded.num_words_lost == encoded.num_words_cut == 0


def test_offsets_where_pieces_cross_words() -> None:
    encoder = Encoder(across_words())
    (encoded,) = encoder.sources([sentence("Saw", "a", "moon")])
    assert encoded.word_of[0] == 0
    assert encoded.word_of[-1] == 2
    (encoded,) = encoder.sources([sentence("out", "of", "the", "rain")])
    assert encoded.merged == [0, 1, 1, 2]  # "of the" is one piece
    assert sorted({*encoded.word_of}) == [0, 1, 2]


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("with_words", [True, False])
def test_truncation_keeps_special_tokens_and_is_counted(
    tokenizers: Tokenizers, kind: str, side: str, with_words: bool
) -> None:
    tokenizer = copy.deepcopy(tokenizers[kind])
    tokenizer.truncation_side = side
    words = WORDS[1]
    given_ = sentence(*words) if with_words else Sentence(" ".join(words))
    (full,) = Encoder(tokenizer).sources([given_])
    (cut,) = Encoder(tokenizer, max_length=9).sources([given_])
    assert cut.truncated and len(cut.ids) == 9 and cut.full_length == len(full.ids)
    assert cut.ids == tokenizer(given_.text, truncation=True, max_length=9)["input_ids"]
    assert sum(cut.is_special) == sum(full.is_special)
    content = [
        token for token, special in zip(full.ids, full.is_special, strict=True) if not special
    ]
    kept = [token for token, special in zip(cut.ids, cut.is_special, strict=True) if not special]
    assert kept == (content[: len(kept)] if side == "right" else content[-len(kept) :])
    assert cut.num_words_cut == len(set(full.word_of) - set(cut.word_of))
    assert (cut.num_words_cut > 0) is with_words


@pytest.mark.parametrize("kind", ["wordpiece", "roberta", "gpt2", "llama"])
def test_the_tokenizer_is_left_as_it_was(tokenizers: Tokenizers, kind: str) -> None:
    backend: Any = tokenizers[kind].backend_tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    before = backend.to_str()
    encoder = Encoder(tokenizers[kind], max_length=5)
    encoder.sources([sentence(*words) for words in WORDS] + [Sentence("Der Hund schläft. " * 9)])
    assert backend.to_str() == before


def test_mixed_sentences_keep_their_order(tokenizer: PreTrainedTokenizerBase) -> None:
    mixed = [sentence("a", "dog"), Sentence("Der Hund."), sentence("Она"), Sentence("The moon.")]
    together = Encoder(tokenizer).sources(mixed)
    assert together == [Encoder(tokenizer).sources([one])[0] for one in mixed]
