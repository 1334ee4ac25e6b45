"""Tokenizing: how texts, words and pairs become tokens with a fast tokenizer and with a slow one.

Fast tokenizers number the pieces of pre-split words and know offsets. Slow ones (Marian's, ByT5's)
know neither.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, ModelError, reason
from headcount.corpora.piece_alignment import (
    not_aligned,
    words_by_characters,
    words_by_offsets,
    words_one_by_one,
)
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence


def encodings(
    tokenizer: PreTrainedTokenizerBase, side: str, inputs: list, **options: Any
) -> list[Any]:
    """Call the Rust backend; `side` is `text` or `text_target`, as tokenizers name their sides."""
    if not inputs:
        return []
    options |= {"return_attention_mask": False, "return_token_type_ids": False}
    # Not verbose: we report overlong text ourselves, once for the complete corpus.
    with _calling(tokenizer):
        return tokenizer(**{side: inputs}, verbose=False, **options).encodings or []


@contextmanager
def _calling(tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """Report a tokenizer that fails on a text, as one does whose files do not fit each other.

    Raises:
        ModelError: in place of the original error.
    """
    try:
        yield
    except Exception as error:  # the Rust backend raises nothing more specific
        raise ModelError(
            f"Expected a tokenizer that reads text, but this {type(tokenizer).__name__} can't: "
            f"{reason(error)}. Copy the model's files again."
        ) from error


def encode_fast_text(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], side: str, max_length: int | None
) -> list[Encoded]:
    """Encode running text."""
    full = encodings(tokenizer, side, list(texts))
    kept = _truncated(tokenizer, side, list(texts), full, max_length)
    return [
        Encoded(after.ids, [NO_WORD] * len(after.ids), _is_special(after), len(before.ids))
        for before, after in zip(full, kept, strict=True)
    ]


def encode_fast_pairs(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    max_length: int | None,
    sep_ids: Sequence[int],
) -> list[Encoded]:
    """Encode pairs of sentences, each as one input; the longer one is truncated first."""
    pairs = [(sentence.text, sentence.second) for sentence in sentences]
    full = encodings(tokenizer, "text", pairs)
    kept = _truncated(tokenizer, "text", pairs, full, max_length)
    for sentence, before in zip(sentences, full, strict=True):
        _check_separated(sentence, before, sep_ids)
    return [
        Encoded(
            ids=after.ids,
            word_of=[NO_WORD] * len(after.ids),
            is_special=_is_special(after),
            full_length=len(before.ids),
            type_ids=after.type_ids,
        )
        for before, after in zip(full, kept, strict=True)
    ]


def _check_separated(sentence: Sentence, encoding: Any, sep_ids: Sequence[int]) -> None:
    """Check for a separator between the sentences; without one they are one sentence."""
    sides = encoding.sequence_ids
    if not {0, 1} <= set(sides):
        return
    last, first = len(sides) - 1 - sides[::-1].index(0), sides.index(1)
    if not set(encoding.ids[last + 1 : first]) & set(sep_ids):
        raise CorpusError(
            f"{sentence.origin}: expected a tokenizer that puts its separator between the two "
            "sentences of a pair, got one that does not. Analyse the sentences one by one."
        )


def encode_split(
    tokenizer: PreTrainedTokenizerBase, word_lists: Sequence[list[str]], max_length: int | None
) -> list[Encoded]:
    """Encode pre-split words; the tokenizer says which piece belongs to which word."""
    lists, split = list(word_lists), {"is_split_into_words": True}
    full = encodings(tokenizer, "text", lists, **split)
    kept = _truncated(tokenizer, "text", lists, full, max_length, **split)
    return [
        _labelled(after, _word_ids(before), _word_ids(after), len(words))
        for before, after, words in zip(full, kept, lists, strict=True)
    ]


def encode_by_offsets(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode words as running text and align the pieces with them by offset."""
    texts = [" ".join(sentence.words or ()) for sentence in sentences]
    full = encodings(tokenizer, "text", texts)
    kept = _truncated(tokenizer, "text", texts, full, max_length)
    found = []
    for sentence, before, after in zip(sentences, full, kept, strict=True):
        words_before, words_after = (_offset_words(sentence, one) for one in (before, after))
        found.append(_labelled(after, words_before, words_after, len(sentence.words or ())))
    return found


def _offset_words(sentence: Sentence, encoding: Any) -> list[int]:
    """Words of the content tokens, -1 for special tokens."""
    rows = zip(encoding.tokens, encoding.offsets, _is_special(encoding), strict=True)
    content = [(piece, span) for piece, span, special in rows if not special]
    word_of = words_by_offsets(sentence.words or (), [span for _, span in content])
    if word_of is None:
        raise not_aligned(sentence, [piece for piece, _ in content])
    words = iter(word_of)
    return [NO_WORD if special else next(words) for special in _is_special(encoding)]


def _labelled(encoding: Any, before: list[int], after: list[int], num_words: int) -> Encoded:
    """Count the words lost to truncation and to the tokenizer (words `before`, `after`, in all)."""
    present, left = set(before) - {NO_WORD}, set(after) - {NO_WORD}
    return Encoded(
        ids=encoding.ids,
        word_of=after,
        is_special=_is_special(encoding),
        full_length=len(before),
        num_words_cut=len(present - left),
        num_words_lost=num_words - len(present),
    )


def _is_special(encoding: Any) -> list[bool]:
    """True for tokens added by the tokenizer; the same id inside the text is content."""
    return [flag == 1 for flag in encoding.special_tokens_mask]


def _word_ids(encoding: Any) -> list[int]:
    return [NO_WORD if word is None else word for word in encoding.word_ids]


def _truncated(
    tokenizer: PreTrainedTokenizerBase,
    side: str,
    inputs: list,
    full: list[Any],
    max_length: int | None,
    **options: Any,
) -> list[Any]:
    """Replace the encodings that are too long; the tokenizer truncates, so separators stay."""
    long = [index for index, one in enumerate(full) if len(one.ids) > (max_length or len(one.ids))]
    if not long:
        return full
    options |= {"truncation": True, "max_length": max_length}
    cut = encodings(tokenizer, side, [inputs[index] for index in long], **options)
    # One more call, without truncation, leaves the backend as we found it.
    encodings(tokenizer, side, ["a"])
    replaced = dict(zip(long, cut, strict=True))
    return [replaced.get(index, encoding) for index, encoding in enumerate(full)]


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
        with _calling(tokenizer):
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
