"""Both sides of a sentence, the decoder's inputs, and refusals."""

import re

import pytest
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora import Encoder, Sentence

Tokenizers = dict[str, PreTrainedTokenizerBase]
PAIR = Sentence("The old dog sleeps.", target="Der alte Hund schläft.", origin="pairs.tsv:3")


@pytest.mark.parametrize("kind", ["marian", "marian-separate", "t5"])
def test_the_decoder_reads_start_token_and_labels_without_the_last(
    tokenizers: Tokenizers, kind: str
) -> None:
    tokenizer = tokenizers[kind]
    start = tokenizer.pad_token_id
    assert isinstance(start, int)
    (pair,) = Encoder(tokenizer, start_id=start).encode([PAIR])
    labels = tokenizer(text_target=PAIR.target)["input_ids"]
    assert pair.target is not None
    assert pair.target.ids == [start, *labels[:-1]]
    assert labels[-1] == tokenizer.eos_token_id
    assert pair.target.is_special == [True] + [False] * (len(labels) - 1)
    assert pair.source.ids == tokenizer(PAIR.text)["input_ids"]


def test_the_target_side_is_tokenized_as_target(tokenizers: Tokenizers) -> None:
    """Marian has a separate sentencepiece model for each side."""
    (pair,) = Encoder(tokenizers["marian"], start_id=0).encode([Sentence("Hund", target="Hund")])
    assert pair.target is not None
    assert pair.source.ids[:-1] != pair.target.ids[1:]


def test_length_is_that_of_the_longer_side(tokenizers: Tokenizers) -> None:
    encoder = Encoder(tokenizers["t5"], start_id=0)
    long, short = "Der Hund schläft heute lange.", "Hund"
    for sentence in (Sentence(long, target=short), Sentence(short, target=long)):
        (pair,) = encoder.encode([sentence])
        assert pair.target is not None
        assert pair.length == max(len(pair.source.ids), len(pair.target.ids))
    (alone,) = Encoder(tokenizers["t5"]).encode([Sentence(short, target=long)])
    assert alone.target is None and alone.length == len(alone.source.ids)


def test_a_missing_target_is_refused(tokenizers: Tokenizers) -> None:
    message = "a.txt:4: expected a target for the decoder, got a source only. Give parallel"
    with pytest.raises(CorpusError, match=re.escape(message)):
        Encoder(tokenizers["t5"], start_id=0).encode([Sentence("Hund", origin="a.txt:4")])


@pytest.mark.parametrize("kind", ["wordpiece", "marian", "gpt2"])
def test_strict_refuses_what_is_too_long(tokenizers: Tokenizers, kind: str) -> None:
    tokenizer = tokenizers[kind]
    length = len(tokenizer(PAIR.text)["input_ids"])
    assert len(Encoder(tokenizer, length, strict=True).sources([PAIR])[0].ids) == length
    message = (
        f"pairs.tsv:3: expected a sentence of at most {length - 1} tokens, got {length}. Split"
    )
    with pytest.raises(CorpusError, match=re.escape(message)):
        Encoder(tokenizer, length - 1, strict=True).sources([PAIR])


def test_strict_looks_at_targets_too(tokenizers: Tokenizers) -> None:
    pair = Sentence("Hund", target="Der alte Hund schläft heute sehr lange.", origin="a.tsv:1")
    with pytest.raises(
        CorpusError, match=r"a.tsv:1: expected a target of at most 12 tokens, got \d+\."
    ):
        Encoder(tokenizers["t5"], 12, start_id=0, strict=True).encode([pair])


def test_a_sentence_without_any_token_is_refused(tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers["gpt2"]
    with pytest.raises(
        CorpusError, match="a.txt:9: the tokenizer turns this .* into no token at all"
    ):
        Encoder(tokenizer).sources([Sentence("", origin="a.txt:9")])


def test_facts_of_the_tokenizer(tokenizers: Tokenizers) -> None:
    wordpiece, gpt2 = Encoder(tokenizers["wordpiece"]), Encoder(tokenizers["gpt2"])
    assert wordpiece.sep_ids == (tokenizers["wordpiece"].sep_token_id,)
    assert gpt2.sep_ids == (tokenizers["gpt2"].eos_token_id,)
    assert gpt2.pad_id == 0
    assert Encoder(tokenizers["marian"]).pad_id == tokenizers["marian"].pad_token_id


def test_pieces_can_be_read_on_both_sides(tokenizers: Tokenizers) -> None:
    """With two vocabularies, an id has different meanings in the encoder and the decoder."""
    encoder = Encoder(tokenizers["marian-separate"], start_id=0)
    (pair,) = encoder.encode([PAIR])
    assert pair.target is not None
    source = "".join(map(encoder.source_piece, pair.source.ids[:-1]))
    target = "".join(map(encoder.target_piece, pair.target.ids[1:]))
    assert source.replace("▁", " ").strip() == PAIR.text
    assert target.replace("▁", " ").strip() == "Der alte Hund schl<unk>ft."


def test_words_by_themselves_are_spelled_as_inside_a_text(tokenizers: Tokenizers) -> None:
    for kind in ("gpt2", "roberta", "roberta-prefix", "wordpiece", "t5", "llama", "marian"):
        tokenizer = tokenizers[kind]
        words = ["dog", "Hund", "собака"]
        before = tokenizer("a", add_special_tokens=False)["input_ids"]
        expected = [
            tokenizer(f"a {word}", add_special_tokens=False)["input_ids"][len(before) :]
            for word in words
        ]
        assert Encoder(tokenizer).single_words(words) == expected
