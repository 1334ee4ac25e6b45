"""Pieces and words: which token of the model's input belongs to which word of a treebank.

There are three ways; the first that suits the tokenizer is used:

- fast tokenizers take the words pre-split (`is_split_into_words`) and number the pieces themselves;
- byte-level ones that recognise a word by the space before it (GPT-2, RoBERTa, Llama 3) get that
  space as part of every word but the first, so that the pieces are those of running text;
- slow tokenizers (Marian's), and fast ones whose pre-split pieces differ from those of running
  text, read the running text, and its pieces are aligned with the words (`alignment.py`).
"""

from collections.abc import Sequence
from enum import Enum

from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora.languages import check_languages_set
from headcount.corpora.sentence import Encoded, Sentence
from headcount.corpora.tokenizing import (
    encode_by_offsets,
    encode_fast_pairs,
    encode_fast_text,
    encode_slow_text,
    encode_slow_words,
    encode_split,
    encodings,
)

PROBES = (
    ("the", "dog", "saw", "a", "dog", ",", "too", "."),
    ("der", "Hund", "sah", "über", "2024", "Äpfel", "!"),
    ("она", "видела", ",", "что", "он", "спит", "."),
)
"""Words on which the spellings are tried."""


class Spelling(Enum):
    """How the words of a treebank are passed to a tokenizer."""

    BARE = "pre-split"
    SPACED = "pre-split, a space before every word but the first"
    RUNNING = "as running text"


def spelling_of(tokenizer: PreTrainedTokenizerBase) -> Spelling:
    """Find the first spelling under which pre-split words give the pieces of running text."""
    if not tokenizer.is_fast:
        return Spelling.RUNNING
    running = encodings(tokenizer, "text", [" ".join(words) for words in PROBES])
    expected = [encoding.ids for encoding in running]
    for spelling in (Spelling.BARE, Spelling.SPACED):
        spelled = [spell(words, spelling) for words in PROBES]
        found = encodings(tokenizer, "text", spelled, is_split_into_words=True)
        if [encoding.ids for encoding in found] == expected:
            return spelling
    return Spelling.RUNNING


def spell(words: Sequence[str], spelling: Spelling) -> list[str]:
    """Write words as a tokenizer of this spelling expects them."""
    if spelling is Spelling.SPACED:
        return [*words[:1], *(" " + word for word in words[1:])]
    return list(words)


def encode_words(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    spelling: Spelling,
    max_length: int | None,
) -> list[Encoded]:
    """Encode sentences that have words."""
    if spelling is not Spelling.RUNNING:
        spelled = [spell(sentence.words or (), spelling) for sentence in sentences]
        return encode_split(tokenizer, spelled, max_length)
    if tokenizer.is_fast:
        return encode_by_offsets(tokenizer, sentences, max_length)
    return encode_slow_words(tokenizer, sentences, max_length)


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
