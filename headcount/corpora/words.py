"""Tokens of sentences with words, of pairs and of texts, with any tokenizer."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora.languages import check_languages_set
from headcount.corpora.sentence import Encoded, Sentence
from headcount.corpora.tokenizing import (
    encode_fast_pairs,
    encode_fast_text,
    encode_fast_words,
    encode_slow_text,
    encode_slow_words,
)


def encode_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode the text of sentences that have words, and lay the words over its pieces."""
    encode = encode_fast_words if tokenizer.is_fast else encode_slow_words
    return encode(tokenizer, sentences, max_length)


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    max_length: int | None,
    sep_ids: Sequence[int],
) -> list[Encoded]:
    """Encode pairs of sentences, each as one input, separated by one of `sep_ids`."""
    if not tokenizer.is_fast:
        raise CorpusError(
            f"{sentences[0].origin}: expected a fast tokenizer for pairs of sentences, got "
            f"{type(tokenizer).__name__}, which does not say which sentence a token belongs to. "
            "Analyse the sentences one by one."
        )
    return encode_fast_pairs(tokenizer, sentences, max_length, sep_ids)


def encode_text(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], side: str, max_length: int | None
) -> list[Encoded]:
    """Encode running text; `side` is `text` or `text_target`."""
    if side == "text_target":
        check_languages_set(tokenizer)
    encode = encode_fast_text if tokenizer.is_fast else encode_slow_text
    return encode(tokenizer, texts, side, max_length)
