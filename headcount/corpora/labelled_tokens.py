"""Labelled tokens: one text as a model reads it, with the word that every token belongs to.

Punctuation marks and special tokens are words of their own. Words that share a piece are one word,
so that every text has labels, whatever its tokenizer does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.corpora.encoder import Encoder
from headcount.corpora.languages import check_languages_set
from headcount.corpora.sentence import Sentence, Span
from headcount.corpora.tokenizing import encode_slow_text, encodings
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


def label_source(encoder: Encoder, text: str, second: str | None = None) -> LabelledTokens:
    """The tokens of a text, or of a pair of texts that an encoder reads as one input."""
    if second is not None:
        (encoded,) = encoder.sources([Sentence(text, second=second, origin="The pair")])
        (encoding,) = encodings(encoder.tokenizer, "text", [(text, second)])
        types = encoded.type_ids if encoder.token_types else None
        return _by_offsets(encoding, [text, second], types)
    if encoder.tokenizer.is_fast:
        (encoding,) = encodings(encoder.tokenizer, "text", [text])
        return _by_offsets(encoding, [text], None)
    return _by_letters(encoder, text, is_target=False)


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


def _by_offsets(encoding: Any, texts: Sequence[str], types: Sequence[int] | None) -> LabelledTokens:
    """Words of a fast tokenizer's pieces, by their places in the texts."""
    spans = [[match.span() for match in MARKED.finditer(text)] for text in texts]
    labels = _Labels()
    for place, token in enumerate(encoding.tokens):
        side = encoding.sequence_ids[place]
        if encoding.special_tokens_mask[place] or side is None:
            labels.single(token, True)
            continue
        start, end = encoding.offsets[place]
        touched = [span for span in spans[side] if span[0] < end and start < span[1]]
        labels.piece(side, str(texts[side]), touched)
    labels.close()
    found = tuple(types) if types is not None else None
    return labels.tokens(tuple(encoding.ids), found)


@final
class _Labels:
    """Collects words: a piece joins the word before it if both touch the same characters."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.word_of: list[int] = []
        self.is_special: list[bool] = []
        self._side, self._start, self._end = -1, 0, 0
        self._num_waiting = 0
        """Number of pieces of white space, which belong to the word after them."""

    def single(self, token: str, is_special: bool) -> None:
        """Add a token that is a word by itself."""
        self.close()
        self._add(token, is_special)
        self._side = -1

    def piece(self, side: int, text: str, touched: Sequence[Span]) -> None:
        """Add a piece of a text that touches some of its words."""
        if not touched:
            self._num_waiting += 1
            return
        start, end = touched[0][0], touched[-1][1]
        joins = side == self._side and start < self._end and not self._num_waiting
        if joins:
            self._end = max(end, self._end)
            self.words[-1] = text[self._start : self._end]
            self.word_of.append(len(self.words) - 1)
            return
        self._side, self._start, self._end = side, start, end
        self._add(text[start:end], False)

    def close(self) -> None:
        """Make white space at the end of a text a word of its own."""
        if self._num_waiting:
            self._num_waiting -= 1
            self._add(SPACE, False)

    def tokens(
        self, ids: tuple[int, ...], type_ids: tuple[int, ...] | None = None
    ) -> LabelledTokens:
        """The tokens with these ids, and their words."""
        words, special = tuple(self.words), tuple(self.is_special)
        return LabelledTokens(ids, tuple(self.word_of), words, special, type_ids)

    def _add(self, word: str, is_special: bool) -> None:
        self.words.append(word)
        self.is_special.append(is_special)
        self.word_of += [len(self.words) - 1] * (1 + self._num_waiting)
        self._num_waiting = 0


def _by_letters(encoder: Encoder, text: str, is_target: bool) -> LabelledTokens:
    """Words of a slow tokenizer's pieces, by their letters; pieces if letters do not match."""
    side = "text_target" if is_target else "text"
    piece = encoder.target_piece if is_target else encoder.source_piece
    (encoded,) = encode_slow_text(encoder.tokenizer, [text], side, None)
    rows = list(zip(encoded.ids, encoded.is_special, strict=True))
    content = [token for token, is_special in rows if not is_special]
    spans = [match.span() for match in MARKED.finditer(text)]
    found = words_of_slow(encoder, text, spans, content, is_target)
    if found is not None and any(len(words) > 1 for words in found):
        found = None
    numbers, labels = iter(found or ()), _Labels()
    for token, is_special in rows:
        if is_special:
            labels.single(piece(token), True)
        elif found is None:
            labels.single(piece(token).strip("▁ ") or SPACE, False)
        else:
            labels.piece(0, text, [spans[next(numbers)[0]]])
    return labels.tokens(tuple(encoded.ids))
