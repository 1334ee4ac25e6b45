"""Pairs of texts and their words, as a model reads them: with two sides, or both in one sequence.

Words are what spaces separate, or, by choice, what spaces and punctuation marks separate. A piece
belongs to the word that it is part of. A piece of several words is an error, except in the source
of a treebank, where its words are merged (see `written`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, final

from headcount.core import CorpusError
from headcount.corpora.encoder import Encoder
from headcount.corpora.languages import check_languages_set
from headcount.corpora.layout import Layout
from headcount.corpora.sentence import NO_WORD, Sentence
from headcount.corpora.spelling import SPACED, not_aligned, spans_of_pieces
from headcount.corpora.tokenizing import Pieces, encode_slow_text, encodings

MARKED = re.compile(r"\w+(?:[-'’]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]+")
"""Words with inner hyphens and apostrophes, numbers with inner marks, runs of other marks."""

_BETWEEN = -2
"""What a character outside all words belongs to."""


@final
@dataclass(frozen=True)
class WordPair:
    """A source and a target text and the spans of their words."""

    source: Layout
    target: Layout
    origin: str
    is_treebank: bool = False
    """Whether the source has a treebank's words, which may share pieces."""
    differs: bool = False
    """Whether the treebank's own text has other letters than its words, and so is not read."""


@final
@dataclass(frozen=True)
class PairTokens:
    """A pair as the model reads it, with the word of every token, or -1."""

    ids: list[int]
    """Token ids of the source, or of the sequence that holds both texts."""
    decoder_ids: list[int] | None
    """Token ids that the decoder reads; None for one sequence."""
    source_of: list[int]
    """Source word of each token of `ids`; merged words count as one, see `merged`."""
    input_of: list[int]
    """Target word that each token that attends is a piece of: of `decoder_ids`, or of `ids`."""
    output_of: list[int] | None
    """Target word of the piece that each decoder position predicts; None for one sequence."""
    type_ids: list[int] | None = None
    """Token types by the tokenizer's template for pairs."""
    merged: list[int] | None = None
    """Index in `source_of` of each source word, where some share pieces; None if none do."""

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
        CorpusError: if a sentence has no target.
    """
    pattern = MARKED if split_punctuation else SPACED
    found = []
    for sentence in sentences:
        if sentence.target is None:
            raise CorpusError(
                f"{sentence.origin}: expected a pair of texts, got a source only. Give a .tsv of "
                "two columns, or --source and --target."
            )
        is_treebank, target = sentence.words is not None, Layout.split(sentence.target, pattern)
        source = Layout.of(sentence) if is_treebank else Layout.split(sentence.text, pattern)
        found.append(WordPair(source, target, sentence.origin, is_treebank, sentence.differs))
    return found


def encode_two_sides(encoder: Encoder, pairs: Sequence[WordPair]) -> Iterator[PairTokens]:
    """Encode pairs for a model with an encoder and a decoder."""
    assert encoder.start_id is not None
    check_languages_set(encoder.tokenizer)
    for pair in pairs:
        ids, sources = _side(encoder, pair, is_target=False)
        labels, targets = _side(encoder, pair, is_target=True)
        (source_of, merged), target_of = _of_source(pair, sources), _firsts(targets)
        yield PairTokens(
            ids,
            [encoder.start_id, *labels[:-1]],
            source_of,
            [NO_WORD, *target_of[:-1]],
            target_of,
            merged=merged,
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
        source, target = pair.source, pair.target
        start = len(source.text) + len(join)
        shifted = [(first + start, last + start) for first, last in target.spans]
        both = Layout(f"{source.text}{join}{target.text}", (*source.spans, *shifted))
        encoding = encodings(tokenizer, "text", [both.text])[0]
        labels = _labels(both, slice(len(source.text), start))
        words = _words_of(encoding, labels, range(len(encoding.ids)), pair)
        num_source, none = len(source.spans), range(0)
        sources = [its if its and its[0] < num_source else none for its in words]
        source_of, merged = _of_source(pair, sources)
        yield PairTokens(
            encoding.ids,
            None,
            source_of,
            [word - num_source if word >= num_source else NO_WORD for word in _firsts(words)],
            None,
            merged=merged,
        )


def _by_template(encoder: Encoder, pair: WordPair) -> PairTokens:
    encoding = encodings(encoder.tokenizer, "text", [(pair.source.text, pair.target.text)])[0]
    sides = encoding.sequence_ids
    last = max((place for place, side in enumerate(sides) if side == 0), default=-1)
    between = encoding.ids[last + 1 : sides.index(1)] if 1 in sides else ()
    if not set(between) & set(encoder.sep_ids):
        raise CorpusError(
            f"{pair.origin}: expected a tokenizer that puts its separator between two texts, got "
            "one that does not. Give the text to put between them with --join."
        )
    by_side = []
    for side, layout in enumerate((pair.source, pair.target)):
        places = [place for place, of in enumerate(sides) if of == side]
        by_side.append(_words_of(encoding, _labels(layout), places, pair))
    types = encoding.type_ids if encoder.token_types else None
    source_of, merged = _of_source(pair, by_side[0])
    return PairTokens(encoding.ids, None, source_of, _firsts(by_side[1]), None, types, merged)


def _firsts(words: Sequence[range]) -> list[int]:
    """The first word of each token, or -1."""
    return [its[0] if its else NO_WORD for its in words]


def _of_source(pair: WordPair, words: Sequence[range]) -> tuple[list[int], list[int] | None]:
    """`source_of` and `merged`, from the source words of each token."""
    merged = pair.source.merged([its for its in words if its])
    firsts = _firsts(words)
    if merged is None:
        return firsts, None
    return [NO_WORD if word == NO_WORD else merged[word] for word in firsts], merged


def _side(encoder: Encoder, pair: WordPair, is_target: bool) -> tuple[list[int], list[range]]:
    """The token ids of one side, and the words of each."""
    layout = pair.target if is_target else pair.source
    tokenizer, side = encoder.tokenizer, "text_target" if is_target else "text"
    if tokenizer.is_fast:
        encoding = encodings(tokenizer, side, [layout.text])[0]
        words = _words_of(encoding, _labels(layout), range(len(encoding.ids)), pair)
        return encoding.ids, words
    encoded = encode_slow_text(tokenizer, [layout.text], side, None)[0]
    kept = [place for place, special in enumerate(encoded.is_special) if not special]
    content = [encoded.ids[place] for place in kept]
    words = words_of_slow(encoder, layout, content, is_target)
    may_merge = pair.is_treebank and not is_target
    if words is None or any(len(its) > 1 and not may_merge for its in words):
        piece = encoder.target_piece if is_target else encoder.source_piece
        sentence = Sentence(layout.text, layout.words, origin=pair.origin)
        raise not_aligned(sentence, list(map(piece, content)))
    by_place = dict(zip(kept, words, strict=True))
    return encoded.ids, [by_place.get(place, range(0)) for place in range(len(encoded.ids))]


def words_of_slow(
    encoder: Encoder, layout: Layout, ids: Sequence[int], is_target: bool
) -> list[range] | None:
    """The words of every piece of a slow tokenizer, which says nothing itself."""
    tokenizer, side = encoder.tokenizer, "text_target" if is_target else "text"
    piece = encoder.target_piece if is_target else encoder.source_piece
    unknown = None if tokenizer.unk_token is None else str(tokenizer.unk_token)

    def tokenize(part: str) -> list[str]:
        options: dict[str, Any] = {side: part, "add_special_tokens": False, "verbose": False}
        found = tokenizer(**options)
        return list(map(str, found["input_ids"]))

    pieces, names = list(map(piece, ids)), list(map(str, ids))
    found = spans_of_pieces(layout.text, pieces, names, tokenize, unknown)
    return None if found is None else layout.words_of(found)


def _labels(layout: Layout, joint: slice = slice(0)) -> list[int]:
    """The word of every character: -1 in the text that joins two, -2 between words."""
    labels = [_BETWEEN] * len(layout.text)
    labels[joint] = [NO_WORD] * len(labels[joint])
    for word, (start, end) in enumerate(layout.spans):
        labels[start:end] = [word] * (end - start)
    return labels


def _words_of(
    encoding: Pieces, labels: Sequence[int], places: Sequence[int], pair: WordPair
) -> list[range]:
    """The words of every token; none for those that are not at one of the places, and special ones.

    A piece of white space alone belongs to the word after it.
    """
    found = [range(0)] * len(encoding.ids)
    num_source = len(pair.source.spans) if pair.is_treebank else 0
    is_special, spans = encoding.is_special, encoding.offsets
    after = [*accumulate(reversed(labels), _following, initial=NO_WORD)][::-1]
    for place in places:
        if is_special[place]:
            continue
        start, end = spans[place]
        touched = sorted({label for label in labels[start:end] if label >= 0})
        if len(touched) > 1 and touched[-1] >= num_source:
            words = (*pair.source.words, *pair.target.words)
            raise not_aligned(Sentence("", words, origin=pair.origin), [encoding.tokens[place]])
        if touched:
            found[place] = range(touched[0], touched[-1] + 1)
        elif NO_WORD not in labels[start:end]:
            word = after[end]
            found[place] = range(word, word + (word != NO_WORD))
    return found


def _following(later: int, label: int) -> int:
    """The label of a character, or of the next one that has any."""
    return later if label == _BETWEEN else label
