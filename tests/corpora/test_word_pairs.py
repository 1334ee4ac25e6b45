"""Words of pairs, and which token is a piece of which word, for every kind of tokenizer."""

import re

import pytest
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora import Encoder, Sentence
from headcount.corpora.layout import Layout
from headcount.corpora.word_pairs import (
    WordPair,
    encode_one_sequence,
    encode_two_sides,
    pairs_of_words,
)

PAIR = Sentence("The old dog barked, loudly.", target="Der alte Hund bellte, laut.")


def letters(text: str) -> str:
    return re.sub(r"[\W_]|##", "", text).lower()


def pieces_of(tokenizer: PreTrainedTokenizerBase, ids: list[int], words: list[int]) -> list[str]:
    """The letters of the pieces of each word, in order."""
    found = [""] * (max(words) + 1)
    for token, word in zip(ids, words, strict=True):
        if word >= 0:
            found[word] += letters(str(tokenizer.decode([token])))
    return found


def pair(split_punctuation: bool = False) -> WordPair:
    return pairs_of_words([PAIR], split_punctuation)[0]


def test_words_by_spaces_and_by_marks() -> None:
    assert pair().source.words == ("The", "old", "dog", "barked,", "loudly.")
    assert pair(True).source.words == ("The", "old", "dog", "barked", ",", "loudly", ".")
    assert pair(True).target.words == ("Der", "alte", "Hund", "bellte", ",", "laut", ".")
    text = "Maria's twenty-one cats ate 1,200.50 fish... didn’t they?"
    words = pairs_of_words([Sentence(text, target="x")], split_punctuation=True)[0].source.words
    assert words == (
        *("Maria's", "twenty-one", "cats", "ate", "1,200.50", "fish", "...", "didn’t", "they", "?"),
    )


def test_the_words_of_a_treebank_stay() -> None:
    sentence = Sentence("a b.c", ("a", "b.c"), target="x, y")
    found = pairs_of_words([sentence], split_punctuation=True)[0]
    assert found.source.words == ("a", "b.c") and found.target.words == ("x", ",", "y")
    assert pairs_of_words([Sentence("10 000", ("10 000",), target="x")])[0].source.words == (
        "10 000",
    )
    with pytest.raises(CorpusError, match="expected a pair of texts, got a source only"):
        pairs_of_words([Sentence("a")])


def test_two_sides(tokenizer: PreTrainedTokenizerBase) -> None:
    if type(tokenizer).__name__ == "ByT5Tokenizer":
        pytest.skip("its pieces are bytes, which decode by themselves to no letter")
    encoder = Encoder(tokenizer, start_id=0)
    one = next(encode_two_sides(encoder, [pair()]))
    assert one.decoder_ids is not None and one.output_of is not None
    assert one.decoder_ids[0] == 0 and len(one.decoder_ids) == len(one.output_of)
    assert one.input_of == [-1, *one.output_of[:-1]]
    assert {*one.source_of} == {-1, 0, 1, 2, 3, 4} or -1 not in one.source_of
    assert max(one.output_of) == 4
    if not tokenizer.is_fast:
        return
    expected = [letters(word) for word in pair().source.words]
    assert pieces_of(tokenizer, one.ids, one.source_of) == expected


@pytest.mark.parametrize("join", [" = ", "\n", ">>"])
def test_one_sequence(tokenizer: PreTrainedTokenizerBase, join: str) -> None:
    encoder = Encoder(tokenizer)
    if not tokenizer.is_fast:
        with pytest.raises(CorpusError, match="Expected a fast tokenizer"):
            next(encode_one_sequence(encoder, [pair()], join))
        return
    one = next(encode_one_sequence(encoder, [pair()], join))
    assert one.decoder_ids is None and one.output_of is None
    for words, of in ((pair().source.words, one.source_of), (pair().target.words, one.input_of)):
        assert pieces_of(tokenizer, one.ids, of) == [letters(word) for word in words]
    both = [s for s, t in zip(one.source_of, one.input_of, strict=True) if s >= 0 and t >= 0]
    assert not both


def test_the_template_for_pairs(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    tokenizer = tokenizers["wordpiece"]
    one = next(encode_one_sequence(Encoder(tokenizer, token_types=True), [pair()], None))
    assert one.type_ids is not None and set(one.type_ids) == {0, 1}
    assert pieces_of(tokenizer, one.ids, one.source_of)[2] == "dog"
    assert pieces_of(tokenizer, one.ids, one.input_of)[2] == "hund"
    with pytest.raises(CorpusError, match="Give the text to put between them with --join"):
        next(encode_one_sequence(Encoder(tokenizers["gpt2"]), [pair()], None))


def test_a_piece_of_two_words_is_refused(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    sentence = Sentence("barked", target="x")
    found = pairs_of_words([sentence])[0]
    cut = WordPair(Layout("barked", ((0, 1), (1, 6))), found.target, "here")
    with pytest.raises(CorpusError, match="here: the tokenizer's pieces 'barked' cannot be"):
        next(encode_two_sides(Encoder(tokenizers["wordpiece"], start_id=0), [cut]))


def test_an_unknown_letter_inside_a_word(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    """A slow tokenizer's unknown piece hides letters; the pieces after it show where it ends."""
    tokenizer = tokenizers["marian"]
    sentence = Sentence("A dog", target="Er ☃chläft, ja")
    found = pairs_of_words([sentence], split_punctuation=True)
    one = next(encode_two_sides(Encoder(tokenizer, start_id=0), pairs_of_words([sentence])))
    assert one.output_of is not None
    assert sorted(set(one.output_of)) == [-1, 0, 1, 2]
    marked = next(encode_two_sides(Encoder(tokenizer, start_id=0), found))
    assert marked.output_of is not None and marked.ids == one.ids
    assert sorted(set(marked.output_of)) == [-1, 0, 1, 2, 3, 4]
