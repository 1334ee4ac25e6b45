"""Labelled tokens: one text as a model reads it, with the word that every token belongs to.

Punctuation marks and special tokens are words of their own. Words that share a piece are one word,
so that every text has labels, whatever its tokenizer does.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

from headcount.corpora.encoder import Encoder
from headcount.corpora.languages import check_languages_set
from headcount.corpora.layout import Layout
from headcount.corpora.sentence import Encoded, Sentence, Span
from headcount.corpora.tokenizing import Pieces, encode_slow_text, encodings
from headcount.corpora.word_pairs import MARKED, words_of_slow

SPACE = "␣"
"""Label of a piece of white space that no word follows."""
START = "(start)"
"""Label of the token that a decoder starts with."""


@final
@dataclass(frozen=True)
class LabelledTokens:
    """The tokens of one side, and the words that they make up."""

    ids: tuple[int, ...]
    """Token ids, special tokens included."""
    word_of: tuple[int, ...]
    """Number of the word of every token."""
    words: tuple[str, ...]
    """Text of every word; special tokens are words, too."""
    is_special: tuple[bool, ...]
    """Whether each word is a special token."""
    type_ids: tuple[int, ...] | None = None
    """Token types of a pair; None for a single text."""
    num_repeated: int = 0
    """Number of tokens that the text begins or ends with itself, see `Encoded`."""


def label_source(
    encoder: Encoder, text: str, second: str | None = None, around: bool = True
) -> LabelledTokens:
    """The tokens of a text, or of a pair of texts that an encoder reads as one input.

    Args:
        encoder: what reads them.
        text: the text.
        second: the second text of a pair.
        around: whether the tokenizer puts its tokens around a text; a chat template has put its
            own there.
    """
    if second is not None:
        (encoded,) = encoder.sources([Sentence(text, second=second, origin="The pair")])
        (encoding,) = encodings(encoder.tokenizer, "text", [(text, second)])
        types = encoded.type_ids if encoder.token_types else None
        return _by_offsets(encoding, [text, second], types)
    if encoder.tokenizer.is_fast:
        (encoding,) = encodings(encoder.tokenizer, "text", [text], add_special_tokens=around)
        return _by_offsets(encoding, [text], None)
    return _by_letters(encoder, text, is_target=False, around=around)


def label_target(encoder: Encoder, text: str) -> LabelledTokens:
    """What a decoder reads: the start token, then the text without its last token."""
    assert encoder.start_id is not None
    check_languages_set(encoder.tokenizer)
    if encoder.tokenizer.is_fast:
        (encoding,) = encodings(encoder.tokenizer, "text_target", [text])
        full = _by_offsets(encoding, [text], None)
    else:
        full = _by_letters(encoder, text, is_target=True)
    word_of = full.word_of[:-1]
    num_words = max(word_of, default=-1) + 1
    return LabelledTokens(
        (encoder.start_id, *full.ids[:-1]),
        (0, *(word + 1 for word in word_of)),
        (START, *full.words[:num_words]),
        (True, *full.is_special[:num_words]),
    )


def _by_offsets(
    encoding: Pieces, texts: Sequence[str], types: Sequence[int] | None
) -> LabelledTokens:
    """Words of a fast tokenizer's pieces, by their places in the texts."""
    sides = [Layout.split(text, MARKED).spans for text in texts]
    edges = [[*zip(*spans, strict=True)] or [(), ()] for spans in sides]
    labels = _Labels()
    of_tokens = (encoding.tokens, encoding.sequence_ids, encoding.is_special)
    for token, side, is_special, (start, end) in zip(*of_tokens, encoding.offsets, strict=True):
        if is_special or side is None:
            labels.single(token, True)
            continue
        (starts, ends), text = edges[side], str(texts[side])
        first, last = bisect_right(ends, start), bisect_left(starts, end) - 1
        labels.piece(side, text, (starts[first], ends[last]) if first <= last else None)
    labels.close()
    found = tuple(types) if types is not None else None
    return replace(labels.tokens(tuple(encoding.ids), found), num_repeated=encoding.num_repeated)


def label_beside(
    encoded: Encoded, text: str, offsets: Sequence[Span], pieces: Sequence[str], label: str
) -> LabelledTokens:
    """The words of a prompt with pictures or recordings, each of which is one word.

    Args:
        encoded: its tokens.
        text: the prompt as it is written.
        offsets: where each token stands in it; an empty span for those of no text.
        pieces: the text of each token.
        label: the word that stands for a picture or a recording.
    """
    written = (span for span, special in zip(offsets, encoded.is_special, strict=True) if special)
    edges, labels = sorted({edge for span in written for edge in span}), _Labels()
    spans = [each for span in Layout.split(text, MARKED).spans for each in _cut(span, edges)]
    starts, ends = [*zip(*spans, strict=True)] or [(), ()]
    before, shown = False, encoded.is_picture or [False] * len(encoded.ids)
    parts = zip(pieces, shown, encoded.is_special, offsets, strict=True)
    for piece, is_picture, is_special, (start, end) in parts:
        if is_picture and before:
            labels.join()
        elif is_picture or is_special or start == end:
            labels.single(label if is_picture else piece, is_special)
        else:
            first, last = bisect_right(ends, start), bisect_left(starts, end) - 1
            labels.piece(0, text, (starts[first], ends[last]) if first <= last else None)
        before = is_picture
    labels.close()
    return labels.tokens(tuple(encoded.ids))


def _cut(span: Span, edges: Sequence[int]) -> Iterator[Span]:
    """A word in parts, so that none holds a part of a special token: the `?` of `?<assistant>`.

    >>> [*_cut((3, 5), (1, 4, 5))], [*_cut((3, 5), (6,))]
    ([(3, 4), (4, 5)], [(3, 5)])
    """
    inside = [edge for edge in edges if span[0] < edge < span[1]]
    yield from pairwise((span[0], *inside, span[1]))


@final
class _Labels:
    """Collects words: a piece joins the word before it if both touch the same characters."""

    def __init__(self) -> None:
        self._words: list[tuple[str, Span]] = []
        """The text of each word, and where the word is in it."""
        self.word_of: list[int] = []
        self.is_special: list[bool] = []
        self._side = -1
        self._num_waiting = 0
        """Number of pieces of white space, which belong to the word after them."""

    def single(self, token: str, is_special: bool) -> None:
        """Add a token that is a word by itself."""
        self.close()
        self._add(token, (0, len(token)), is_special)
        self._side = -1

    def join(self) -> None:
        """Add a token to the last word."""
        self.word_of.append(len(self._words) - 1)

    def piece(self, side: int, text: str, touched: Span | None) -> None:
        """Add a piece of a text that touches words in a stretch of it, or none."""
        if touched is None:
            self._num_waiting += 1
            return
        if side == self._side and not self._num_waiting:
            start, end = self._words[-1][1]
            if touched[0] < end:
                self._words[-1] = text, (start, max(touched[1], end))
                self.word_of.append(len(self._words) - 1)
                return
        self._side = side
        self._add(text, touched, False)

    def close(self) -> None:
        """Make white space at the end of a text a word of its own."""
        if self._num_waiting:
            self._num_waiting -= 1
            self._add(SPACE, (0, len(SPACE)), False)

    def tokens(
        self, ids: tuple[int, ...], type_ids: tuple[int, ...] | None = None
    ) -> LabelledTokens:
        """The tokens with these ids, and their words."""
        words = tuple(text[start:end] for text, (start, end) in self._words)
        return LabelledTokens(ids, tuple(self.word_of), words, tuple(self.is_special), type_ids)

    def _add(self, text: str, span: Span, is_special: bool) -> None:
        self._words.append((text, span))
        self.is_special.append(is_special)
        self.word_of += [len(self._words) - 1] * (1 + self._num_waiting)
        self._num_waiting = 0


def _by_letters(
    encoder: Encoder, text: str, is_target: bool, around: bool = True
) -> LabelledTokens:
    """Words of a slow tokenizer's pieces, by their letters; pieces if letters do not match."""
    side = "text_target" if is_target else "text"
    piece = encoder.target_piece if is_target else encoder.source_piece
    (encoded,) = encode_slow_text(encoder.tokenizer, [text], side, None, around)
    rows = list(zip(encoded.ids, encoded.is_special, strict=True))
    content = [token for token, is_special in rows if not is_special]
    layout = Layout.split(text, MARKED)
    found = words_of_slow(encoder, layout, content, is_target)
    if found is not None and any(len(words) > 1 for words in found):
        found = None
    numbers, labels = iter(found or ()), _Labels()
    for token, is_special in rows:
        if is_special:
            labels.single(piece(token), True)
        elif found is None:
            labels.single(piece(token).strip("▁ ") or SPACE, False)
        else:
            labels.piece(0, text, layout.spans[next(numbers)[0]])
    return replace(labels.tokens(tuple(encoded.ids)), num_repeated=encoded.num_repeated)
