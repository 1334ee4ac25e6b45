"""Tokenizing: how texts, words and pairs become tokens with a fast tokenizer and with a slow one.

Fast tokenizers say where each piece is in the text. Slow ones do not (see `spelling`).
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from os.path import commonprefix
from typing import Any, final

from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, ModelError, reason
from headcount.corpora.layout import Layout
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence, Span
from headcount.corpora.spelling import spans_of_pieces


@final
class Pieces:
    """The tokens of a text or a pair of texts, with what the tokenizer puts around them.

    A text that begins with the tokens that the tokenizer puts in front of it, or ends with those
    that it puts behind it, as one that a chat template wrote, has them once: its own are left out.
    """

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding
        ids, is_added = encoding.ids, encoding.special_tokens_mask
        content, before = content_of(ids, [flag == 1 for flag in is_added])
        self._left = repeated(ids, content, before)
        self.num_repeated = sum(self._left)
        """Number of the text's tokens that are left out."""
        self._content = before, before + len(content)

    def _kept(self, values: list[Any]) -> list[Any]:
        if not self.num_repeated:
            return values
        (start, end), (first, last) = self._content, self._left
        return [*values[:start], *values[start + first : end - last], *values[end:]]

    @cached_property
    def ids(self) -> list[int]:
        """Token ids."""
        return self._kept(self._encoding.ids)

    @cached_property
    def type_ids(self) -> list[int]:
        """Token types by the tokenizer's template."""
        return self._kept(self._encoding.type_ids)

    @cached_property
    def is_special(self) -> list[bool]:
        """True for tokens added by the tokenizer; the same id inside the text is content."""
        return [flag == 1 for flag in self._kept(self._encoding.special_tokens_mask)]

    @cached_property
    def offsets(self) -> list[Span]:
        """Where each token stands in its text."""
        return self._kept(self._encoding.offsets)

    @cached_property
    def sequence_ids(self) -> list[int | None]:
        """The text of a pair that each token is of; None for special tokens."""
        return self._kept(self._encoding.sequence_ids)

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens as the vocabulary writes them."""
        return self._kept(self._encoding.tokens)

    def num_left_out(self, side: str) -> int:
        """Number of tokens left out at the start, or at the end."""
        return self._left[side == "end"]


def content_of(ids: Sequence[int], is_special: Sequence[bool]) -> tuple[list[int], int]:
    """What a tokenizer puts its tokens around, and the number of those in front."""
    if False not in is_special:
        return [], len(ids)
    before, after = is_special.index(False), [*reversed(is_special)].index(False)
    return [*ids[before : len(ids) - after]], before


def repeated(ids: Sequence[int], content: Sequence[int], before: int) -> tuple[int, int]:
    """How many tokens at the start of a text, and at its end, the tokenizer puts there again.

    >>> repeated([1, 1, 7, 8, 2, 2], [1, 7, 8, 2], 1)
    (1, 1)
    """
    front, behind = [*ids[:before]], [*ids[before + len(content) :]]
    first = len(commonprefix([front, [*content]]))
    rest = [*content[first:]]
    return first, len(commonprefix([behind[::-1], rest[::-1]]))


def encodings(
    tokenizer: PreTrainedTokenizerBase, side: str, inputs: list, **options: Any
) -> list[Pieces]:
    """Call the Rust backend; `side` is `text` or `text_target`, as tokenizers name their sides."""
    if not inputs:
        return []
    options |= {"return_attention_mask": False, "return_token_type_ids": False}
    # Not verbose: we report overlong text ourselves, once for the complete corpus.
    with _calling(tokenizer):
        found = tokenizer(**{side: inputs}, verbose=False, **options).encodings or []
    return [*map(Pieces, found)]


def parts(tokenizer: PreTrainedTokenizerBase, *texts: str) -> list[list[int]]:
    """Token ids of the parts of one text, without special tokens in front or behind.

    A part begins at the first token that differs from those of the text without it.
    """
    ids = list[list[int]]()
    for end in range(1, len(texts) + 1):
        with _calling(tokenizer):
            text = "".join(texts[:end])
            ids.append(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    cuts = accumulate((len(commonprefix([each, ids[-1]])) for each in ids), max, initial=0)
    return [ids[-1][first:last] for first, last in pairwise(cuts)]


def _called(tokenizer: PreTrainedTokenizerBase, **options: Any) -> Any:
    """Call a slow tokenizer."""
    with _calling(tokenizer):
        return tokenizer(**options, verbose=False)


@contextmanager
def _calling(tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """Report a tokenizer that fails on a text, as one does whose files do not fit each other.

    Raises:
        ModelError: in place of the original error.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This sequence already has")
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
    return [one for _, one in _fast(tokenizer, side, list(texts), max_length)]


def _fast(
    tokenizer: PreTrainedTokenizerBase,
    side: str,
    inputs: list,
    max_length: int | None,
    types: bool = False,
) -> Iterator[tuple[Pieces, Encoded]]:
    """The encoding of each text, or pair of texts, and what is left of it within a limit."""
    full = encodings(tokenizer, side, inputs)
    kept = _truncated(tokenizer, side, inputs, full, max_length)
    for before, after in zip(full, kept, strict=True):
        yield (
            before,
            Encoded(
                after.ids,
                [NO_WORD] * len(after.ids),
                after.is_special,
                len(before.ids),
                type_ids=after.type_ids if types else None,
                num_repeated=before.num_repeated,
            ),
        )


def encode_fast_pairs(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sentence],
    max_length: int | None,
    sep_ids: Sequence[int],
) -> list[Encoded]:
    """Encode pairs of sentences, each as one input; the longer one is truncated first."""
    pairs = [(sentence.text, sentence.second) for sentence in sentences]
    found = list(_fast(tokenizer, "text", pairs, max_length, types=True))
    for sentence, (before, _) in zip(sentences, found, strict=True):
        _check_separated(sentence, before, sep_ids)
    return [one for _, one in found]


def encode_inputs(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode texts and pairs of texts with their token types, whatever stands between them."""
    inputs = [each.text if each.second is None else (each.text, each.second) for each in sentences]
    if tokenizer.is_fast:
        return [one for _, one in _fast(tokenizer, "text", inputs, max_length, types=True)]
    return [_encode_typed(tokenizer, each, max_length) for each in inputs]


def _encode_typed(
    tokenizer: PreTrainedTokenizerBase, given: str | tuple[str, str], max_length: int | None
) -> Encoded:
    """Encode a text or a pair of texts with a slow tokenizer."""
    texts: Any = (given,) if isinstance(given, str) else given

    def call(**options: Any) -> Any:
        with _calling(tokenizer):
            return tokenizer(*texts, verbose=False, return_token_type_ids=True, **options)

    found = call()
    full_length = len(found["input_ids"])
    if max_length is not None and full_length > max_length:
        found = call(truncation=True, max_length=max_length)
    ids = list(found["input_ids"])
    types = list(found["token_type_ids"])
    return Encoded(ids, [NO_WORD] * len(ids), [False] * len(ids), full_length, type_ids=types)


def _check_separated(sentence: Sentence, encoding: Pieces, sep_ids: Sequence[int]) -> None:
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


def encode_fast_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode the text of sentences with words; offsets say where pieces are in it."""
    layouts = [Layout.of(sentence) for sentence in sentences]
    texts = [layout.text for layout in layouts]
    full = encodings(tokenizer, "text", texts)
    kept = _truncated(tokenizer, "text", texts, full, max_length)
    return [
        _of_words(layout, _read(before), _read(after), len(before.ids))
        for layout, before, after in zip(layouts, full, kept, strict=True)
    ]


@final
@dataclass(frozen=True)
class _Read:
    """Tokens as a tokenizer gives them."""

    ids: list[int]
    is_special: list[bool]
    spans: list[Span]
    """Where each content token stands in the text."""


def _read(pieces: Pieces) -> _Read:
    spans = zip(pieces.offsets, pieces.is_special, strict=True)
    return _Read(pieces.ids, pieces.is_special, [span for span, special in spans if not special])


def _of_words(layout: Layout, before: _Read, after: _Read, full_length: int) -> Encoded:
    """Lay words over tokens before and after truncation; count the words that lose all pieces."""
    words = layout.words_of(before.spans)
    merged = layout.merged(words)
    places = range(len(layout.spans)) if merged is None else merged
    found = [places[its[0]] for its in words]
    left = found
    if len(after.ids) < len(before.ids):
        left = [places[its[0]] for its in layout.words_of(after.spans)]
    present, still = set(found), set(left)
    rest = iter(left)
    return Encoded(
        ids=after.ids,
        word_of=[NO_WORD if special else next(rest) for special in after.is_special],
        is_special=after.is_special,
        full_length=full_length,
        num_words_cut=sum(place in present and place not in still for place in places),
        num_words_lost=sum(place not in present for place in places),
        merged=merged,
    )


def _truncated(
    tokenizer: PreTrainedTokenizerBase,
    side: str,
    inputs: list,
    full: list[Pieces],
    max_length: int | None,
) -> list[Pieces]:
    """Replace the encodings that are too long; the tokenizer truncates, so separators stay.

    A text whose own first token is left out may be longer by it.
    """
    kept = "end" if tokenizer.truncation_side == "left" else "start"
    more = {
        index: one.num_left_out(kept)
        for index, one in enumerate(full)
        if len(one.ids) > (max_length or len(one.ids))
    }
    found = list(full)
    for number in {*more.values()}:
        long = [index for index in more if more[index] == number]
        options = {"truncation": True, "max_length": (max_length or 0) + number}
        cut = encodings(tokenizer, side, [inputs[index] for index in long], **options)
        for index, one in zip(long, cut, strict=True):
            found[index] = one
    if more:  # One more call, without truncation, leaves the backend as we found it.
        encodings(tokenizer, side, ["a"])
    return found


def encode_slow_text(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    side: str,
    max_length: int | None,
    around: bool = True,
) -> list[Encoded]:
    """Encode running text; the tokenizer puts its tokens around it unless told not to."""
    return [_encode(tokenizer, text, side, max_length, around=around) for text in texts]


def encode_slow_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode the text of sentences with words; tokenizing its parts shows where pieces are."""
    return [_encode_words(tokenizer, Layout.of(sentence), max_length) for sentence in sentences]


def _encode_words(
    tokenizer: PreTrainedTokenizerBase, layout: Layout, max_length: int | None
) -> Encoded:
    unknown = None if tokenizer.unk_token is None else str(tokenizer.unk_token)
    pieces, tokenize = tokenizer.tokenize(layout.text), tokenizer.tokenize
    one = _encode(tokenizer, layout.text, "text", max_length, once=False)
    spans = spans_of_pieces(layout.text, pieces, pieces, tokenize, unknown)
    if spans is None:
        return replace(one, is_mapped=False, num_words_lost=len(layout.spans))
    size = one.is_special.count(False)
    kept = spans[-size:] if tokenizer.truncation_side == "left" and size else spans[:size]
    full = _Read([*range(one.full_length)], [], spans)
    return _of_words(layout, full, _Read(one.ids, one.is_special, kept), one.full_length)


def _encode(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    side: str,
    max_length: int | None,
    once: bool = True,
    around: bool = True,
) -> Encoded:
    """Encode running text, whose own start and end are left out where they would be there twice."""

    def parts_of(text: str) -> tuple[list[int], list[int], list[int]]:
        """The tokens in front of a text, its own, and those behind it."""
        content, ids = (
            list(_called(tokenizer, **{side: text}, add_special_tokens=added)["input_ids"])
            for added in (False, around)
        )
        before = _around(content, ids).index(False) if content else len(ids)
        return ids[:before], content, ids[before + len(content) :]

    front, content, behind = parts_of(text)
    if around and not (front or behind):  # ByT5 itself puts no second end there
        front, _, behind = parts_of("a")
    given = [*front, *content, *behind]
    first, last = repeated(given, content, len(front)) if once else (0, 0)
    content = content[first : len(content) - last]
    full_length = len(front) + len(content) + len(behind)
    if max_length is not None and full_length > max_length:
        room = max(0, max_length - len(front) - len(behind))
        left = tokenizer.truncation_side == "left"
        content = content[len(content) - room :] if left else content[:room]
    ids = [*front, *content, *behind]
    is_special = [True] * len(front) + [False] * len(content) + [True] * len(behind)
    return Encoded(ids, [NO_WORD] * len(ids), is_special, full_length, num_repeated=first + last)


def _around(content: list[int], ids: list[int]) -> list[bool]:
    """True for tokens added before and after the content, whatever the content's ids."""
    for start in range(len(ids) - len(content) + 1):
        end = start + len(content)
        if ids[start:end] == content:
            return [not start <= position < end for position in range(len(ids))]
    raise AssertionError(f"the content {content} is not one stretch of {ids}")
