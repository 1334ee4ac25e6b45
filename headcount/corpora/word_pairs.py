"""Pairs of texts and their words, as a model reads them: with two sides, or both in one sequence.

Words are what spaces separate, or, by choice, what spaces and punctuation marks separate. A piece
belongs to the word that it is part of; a piece of several words is an error.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import CorpusError
from headcount.corpora.encoder import Encoder
from headcount.corpora.languages import check_languages_set
from headcount.corpora.piece_alignment import not_aligned, words_by_characters, words_one_by_one
from headcount.corpora.sentence import NO_WORD, Sentence
from headcount.corpora.tokenizing import encode_slow_text, encodings

Span = tuple[int, int]

SPACED = re.compile(r"\S+")
MARKED = re.compile(r"\w+(?:[-'’]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]+")
"""Words with inner hyphens and apostrophes, numbers with inner marks, runs of other marks."""

_BETWEEN = -2
"""What a character outside all words belongs to."""


@final
@dataclass(frozen=True)
class WordPair:
    """A source and a target text and the spans of their words."""

    source: str
    target: str
    source_spans: tuple[Span, ...]
    target_spans: tuple[Span, ...]
    origin: str

    @property
    def source_words(self) -> tuple[str, ...]:
        """The words of the source."""
        return tuple(self.source[start:end] for start, end in self.source_spans)

    @property
    def target_words(self) -> tuple[str, ...]:
        """The words of the target."""
        return tuple(self.target[start:end] for start, end in self.target_spans)


@final
@dataclass(frozen=True)
class PairTokens:
    """A pair as the model reads it, with the word of every token, or -1."""

    ids: list[int]
    """Token ids of the source, or of the sequence that holds both texts."""
    decoder_ids: list[int] | None
    """Token ids that the decoder reads; None for one sequence."""
    source_of: list[int]
    """Source word of each token of `ids`."""
    input_of: list[int]
    """Target word that each token that attends is a piece of: of `decoder_ids`, or of `ids`."""
    output_of: list[int] | None
    """Target word of the piece that each decoder position predicts; None for one sequence."""
    type_ids: list[int] | None = None
    """Token types by the tokenizer's template for pairs."""

    @property
    def length(self) -> int:
        """Number of tokens of the longer side."""
        return max(len(self.ids), len(self.decoder_ids or ()))


def pairs_of_words(
    sentences: Iterable[Sentence], split_punctuation: bool = False
) -> list[WordPair]:
    """The pairs of a parallel corpus and their words.

    Args:
        sentences: sentences with targets; the words of a treebank stay as they are.
        split_punctuation: whether punctuation marks are words of their own.

    Raises:
        CorpusError: if a sentence has no target, or a treebank's word holds a space.
    """
    pattern = MARKED if split_punctuation else SPACED
    found = []
    for sentence in sentences:
        if sentence.target is None:
            raise CorpusError(
                f"{sentence.origin}: expected a pair of texts, got a source only. Give a .tsv of "
                "two columns, or --source and --target."
            )
        its = pattern if sentence.words is None else SPACED
        source_spans = tuple(match.span() for match in its.finditer(sentence.text))
        if sentence.words is not None and len(source_spans) != len(sentence.words):
            raise CorpusError(
                f"{sentence.origin}: expected words without spaces, got one with a space. Give "
                "the source as running text."
            )
        target_spans = tuple(match.span() for match in pattern.finditer(sentence.target))
        found.append(
            WordPair(sentence.text, sentence.target, source_spans, target_spans, sentence.origin)
        )
    return found


def encode_two_sides(encoder: Encoder, pairs: Sequence[WordPair]) -> Iterator[PairTokens]:
    """Encode pairs for a model with an encoder and a decoder."""
    assert encoder.start_id is not None
    check_languages_set(encoder.tokenizer)
    for pair in pairs:
        ids, source_of = _side(encoder, pair, is_target=False)
        labels, target_of = _side(encoder, pair, is_target=True)
        yield PairTokens(
            ids,
            [encoder.start_id, *labels[:-1]],
            source_of,
            [NO_WORD, *target_of[:-1]],
            target_of,
        )


def encode_one_sequence(
    encoder: Encoder, pairs: Sequence[WordPair], join: str | None
) -> Iterator[PairTokens]:
    """Encode pairs for a model that reads both texts in one sequence.

    Args:
        encoder: the encoder of the model; its tokenizer must be fast.
        pairs: the pairs.
        join: the text between the two; None for the tokenizer's own template for pairs.

    Raises:
        CorpusError: if the tokenizer is slow, or has no template that separates two texts.
    """
    tokenizer = encoder.tokenizer
    if not tokenizer.is_fast:
        raise CorpusError(
            f"Expected a fast tokenizer for two texts in one sequence, got "
            f"{type(tokenizer).__name__}, which does not say where a piece is."
        )
    for pair in pairs:
        if join is None:
            yield _by_template(encoder, pair)
            continue
        start = len(pair.source) + len(join)
        shifted = [(first + start, last + start) for first, last in pair.target_spans]
        text = f"{pair.source}{join}{pair.target}"
        encoding = encodings(tokenizer, "text", [text])[0]
        labels = _labels(text, [*pair.source_spans, *shifted], slice(len(pair.source), start))
        words = _words_of(encoding, labels, range(len(encoding.ids)), pair)
        num_source = len(pair.source_spans)
        yield PairTokens(
            encoding.ids,
            None,
            [word if word < num_source else NO_WORD for word in words],
            [word - num_source if word >= num_source else NO_WORD for word in words],
            None,
        )


def _by_template(encoder: Encoder, pair: WordPair) -> PairTokens:
    encoding = encodings(encoder.tokenizer, "text", [(pair.source, pair.target)])[0]
    sides = encoding.sequence_ids
    last = max((place for place, side in enumerate(sides) if side == 0), default=-1)
    between = encoding.ids[last + 1 : sides.index(1)] if 1 in sides else ()
    if not set(between) & set(encoder.sep_ids):
        raise CorpusError(
            f"{pair.origin}: expected a tokenizer that puts its separator between two texts, got "
            "one that does not. Give the text to put between them with --join."
        )
    by_side = []
    for side, text, spans in (
        (0, pair.source, pair.source_spans),
        (1, pair.target, pair.target_spans),
    ):
        places = [place for place, of in enumerate(sides) if of == side]
        by_side.append(_words_of(encoding, _labels(text, spans), places, pair))
    types = encoding.type_ids if encoder.token_types else None
    return PairTokens(encoding.ids, None, by_side[0], by_side[1], None, types)


def _side(encoder: Encoder, pair: WordPair, is_target: bool) -> tuple[list[int], list[int]]:
    """The token ids of one side, and the word of each."""
    text, spans = (
        (pair.target, pair.target_spans) if is_target else (pair.source, pair.source_spans)
    )
    tokenizer, side = encoder.tokenizer, "text_target" if is_target else "text"
    if tokenizer.is_fast:
        encoding = encodings(tokenizer, side, [text])[0]
        words = _words_of(encoding, _labels(text, spans), range(len(encoding.ids)), pair)
        return encoding.ids, words
    encoded = encode_slow_text(tokenizer, [text], side, None)[0]
    kept = [place for place, special in enumerate(encoded.is_special) if not special]
    content = [encoded.ids[place] for place in kept]
    word_of = words_of_slow(encoder, text, spans, content, is_target)
    if word_of is None:
        piece = encoder.target_piece if is_target else encoder.source_piece
        words = tuple(text[start:end] for start, end in spans)
        raise not_aligned(Sentence(text, words, origin=pair.origin), list(map(piece, content)))
    by_place = dict(zip(kept, word_of, strict=True))
    return encoded.ids, [by_place.get(place, NO_WORD) for place in range(len(encoded.ids))]


def words_of_slow(
    encoder: Encoder, text: str, spans: Sequence[Span], ids: Sequence[int], is_target: bool
) -> list[int] | None:
    """The word of every piece of a slow tokenizer, which says nothing itself.

    What spaces separate is tokenized by itself; in it, words are found by their letters.
    """
    tokenizer, side = encoder.tokenizer, "text_target" if is_target else "text"
    piece = encoder.target_piece if is_target else encoder.source_piece
    unknown = None if tokenizer.unk_token is None else str(tokenizer.unk_token)

    def tokenize(part: str) -> list[str]:
        options: dict[str, Any] = {side: part, "add_special_tokens": False, "verbose": False}
        found = tokenizer(**options)
        return list(map(str, found["input_ids"]))

    words, pieces = [text[start:end] for start, end in spans], list(map(piece, ids))
    parts = list(SPACED.finditer(text))
    part_of = words_one_by_one([part[0] for part in parts], list(map(str, ids)), tokenize)
    if part_of is None:
        return words_by_characters(words, pieces, unknown)
    found = list[int]()
    for number, part in enumerate(parts):
        inside = [
            word for word, (start, _) in enumerate(spans) if part.start() <= start < part.end()
        ]
        its = [each for each, of in zip(pieces, part_of, strict=True) if of == number]
        word_of: list[int] | None = [0] * len(its)
        if len(inside) > 1:
            word_of = words_by_characters([words[word] for word in inside], its, unknown)
        if word_of is None:
            return None
        found += [inside[word] for word in word_of]
    return found


def _labels(text: str, spans: Sequence[Span], joint: slice = slice(0)) -> list[int]:
    """The word of every character: -1 in the text that joins two, -2 between words."""
    labels = [_BETWEEN] * len(text)
    labels[joint] = [NO_WORD] * len(labels[joint])
    for word, (start, end) in enumerate(spans):
        labels[start:end] = [word] * (end - start)
    return labels


def _words_of(
    encoding: Any, labels: Sequence[int], places: Sequence[int], pair: WordPair
) -> list[int]:
    """The word of every token; -1 for those that are not at one of the places, and special ones.

    A piece of white space alone belongs to the word after it.
    """
    found = [NO_WORD] * len(encoding.ids)
    for place in places:
        if encoding.special_tokens_mask[place]:
            continue
        start, end = encoding.offsets[place]
        touched = {label for label in labels[start:end] if label >= 0}
        if len(touched) > 1:
            words = (*pair.source_words, *pair.target_words)
            raise not_aligned(Sentence("", words, origin=pair.origin), [encoding.tokens[place]])
        if touched:
            found[place] = touched.pop()
        elif NO_WORD not in labels[start:end]:
            after = (label for label in labels[end:] if label != _BETWEEN)
            found[place] = next(after, NO_WORD)
    return found
