"""Encoding with slow tokenizers, which know neither words nor offsets (Marian's, ByT5's)."""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from headcount.corpora.piece_alignment import not_aligned, words_by_characters, words_one_by_one
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence


def encode_slow_text(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], side: str, max_length: int | None
) -> list[Encoded]:
    """Encode running text."""
    return [_encode(tokenizer, text, side, max_length, None) for text in texts]


def encode_slow_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode words as running text; tokenizing them one by one shows which pieces are whose."""
    return [_encode_words(tokenizer, sentence, max_length) for sentence in sentences]


def _encode_words(
    tokenizer: PreTrainedTokenizerBase, sentence: Sentence, max_length: int | None
) -> Encoded:
    words = sentence.words or ()
    text = " ".join(words)
    pieces = tokenizer.tokenize(text)
    word_of = words_one_by_one(words, pieces, tokenizer.tokenize)
    if word_of is None:
        unknown = None if tokenizer.unk_token is None else str(tokenizer.unk_token)
        word_of = words_by_characters(words, pieces, unknown)
    if word_of is None:
        raise not_aligned(sentence, pieces)
    one = _encode(tokenizer, text, "text", max_length, word_of)
    lost, cut = len(words) - len(set(word_of)), len(set(word_of) - set(one.word_of))
    return Encoded(one.ids, one.word_of, one.is_special, one.full_length, cut, lost)


def _encode(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    side: str,
    max_length: int | None,
    word_of: list[int] | None,
) -> Encoded:
    """Encode running text; `word_of` labels its content pieces."""

    def ids_of(**options: Any) -> list[int]:
        return list(tokenizer(**{side: text}, verbose=False, **options)["input_ids"])

    content, ids = ids_of(add_special_tokens=False), ids_of()
    full_length, num_added = len(ids), len(ids) - len(content)
    word_of = [NO_WORD] * len(content) if word_of is None else word_of
    if max_length is not None and full_length > max_length:
        ids = ids_of(truncation=True, max_length=max_length)
        num_kept = len(ids) - num_added
        kept = slice(num_kept)
        if tokenizer.truncation_side == "left":
            kept = slice(len(content) - num_kept, None)
        content, word_of = content[kept], word_of[kept]
    is_special = _around(content, ids)
    words = iter(word_of)
    labels = [NO_WORD if special else next(words) for special in is_special]
    return Encoded(ids, labels, is_special, full_length)


def _around(content: list[int], ids: list[int]) -> list[bool]:
    """True for tokens added before and after the content, whatever the content's ids."""
    for start in range(len(ids) - len(content) + 1):
        end = start + len(content)
        if ids[start:end] == content:
            return [not start <= position < end for position in range(len(ids))]
    raise AssertionError(f"the content {content} is not one stretch of {ids}")
