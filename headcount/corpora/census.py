"""Census: one cheap pass over a corpus that counts what it contains."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import PurePath
from typing import final

import numpy as np
from jaxtyping import Int64

from headcount.core import amount
from headcount.corpora.corpus import Corpus, chunks
from headcount.corpora.encoder import EncodedPair
from headcount.corpora.frequencies import Frequencies, add_counts
from headcount.corpora.halves import FIRST_HALF, Halves, is_in_second_half, numbered
from headcount.corpora.image_encoder import AnyEncoder
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence
from headcount.results import MOST_TEXTS

SENTENCES_AT_ONCE = 1000
MOST_NAMED = 3
"""Largest number of sentences that a warning names."""
MOST_UNKNOWN = 0.01
"""Largest share of unknown tokens among content tokens without a warning."""


@final
@dataclass(frozen=True)
class Named:
    """A number of sentences, and where the first of them are."""

    count: int = 0
    origins: tuple[str, ...] = ()

    def add(self, origins: Iterable[str]) -> "Named":
        """With the sentences at some places, of which the names of files are kept."""
        more = [PurePath(origin).name for origin in origins]
        return Named(self.count + len(more), (*self.origins, *more)[:MOST_NAMED])

    def __str__(self) -> str:
        rest = ", ..." if self.count > len(self.origins) else ""
        return f"{self.count:,} ({', '.join(self.origins)}{rest})"


@final
@dataclass(frozen=True)
class Misread:
    """Sentences of treebanks that are read in another way than the others."""

    differing: Named = Named()
    """Sentences whose own text has other letters than their words."""
    unmapped: Named = Named()
    """Sentences whose words could not be laid over the tokenizer's pieces."""

    def add(self, sentences: Sequence[Sentence], encoded: Sequence[Encoded]) -> "Misread":
        """With some more sentences."""
        pairs = zip(sentences, encoded, strict=True)
        return Misread(
            self.differing.add(each.origin for each in sentences if each.differs),
            self.unmapped.add(each.origin for each, one in pairs if not one.is_mapped),
        )

    def warnings(self) -> Iterator[str]:
        """A sentence for each kind."""
        if self.differing.count:
            yield (
                "sentences whose # text has other letters than their words, read as the words "
                f"are: {self.differing}"
            )
        if self.unmapped.count:
            yield (
                "sentences whose words can't be found in the tokenizer's pieces, so that nothing "
                f"is known of their words: {self.unmapped}"
            )


@final
@dataclass(frozen=True, eq=False)
class Census:
    """Counts over a corpus as one tokenizer reads it; tokens include special ones, not padding."""

    num_sentences: int
    num_tokens: int
    """Number of source tokens after truncation; in windows, of those that are measured."""
    num_target_tokens: int
    """Number of tokens read by the decoder of an encoder-decoder; 0 for other models."""
    num_words: int
    """Number of treebank words; running text has none."""
    num_truncated: int
    """Number of sentences with a side too long for the model."""
    num_words_cut: int
    """Number of words that truncation removed completely."""
    num_words_lost: int
    """Number of words that the tokenizer turns into no piece at all."""
    longest: int
    """Number of tokens of the longest source after truncation."""
    longest_target: int
    relations: tuple[str, ...]
    """Every relation in the trees, sorted, without the root arc."""
    baseline_offsets: Mapping[str, int]
    """Most frequent offset head - dependent of each relation, in words, in the first half of the
    corpus (see `halves`); the nearest in a tie."""
    source_counts: Int64[np.ndarray, " source_id"]
    """Number of times each token id is a content token of a source."""
    target_counts: Int64[np.ndarray, " target_id"]
    """Number of times each token id is a content token of a target."""
    sha256: str
    """Hash of the bytes of the corpus."""
    num_windowed: int = 0
    """Number of sentences that are read in windows."""
    num_windows: int = 0
    """Number of windows that they are read in."""
    num_out_of_reach: int = 0
    """Number of arcs that connect words without a common window."""
    num_unknown: int = 0
    """Number of content tokens of both sides that are the tokenizer's unknown token."""
    num_arcs_inside: int = 0
    """Number of arcs between words that share a piece (see `written`)."""
    misread: Misread = Misread()
    """Sentences of treebanks whose words do not fit their text or the tokenizer's pieces."""
    text_hashes: Int64[np.ndarray, " text"] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Hashes of the different texts, the smallest first; at most `MOST_TEXTS`."""

    @property
    def num_rows(self) -> int:
        """Number of rows in all batches."""
        return self.num_sentences - self.num_windowed + self.num_windows

    @property
    def source_frequencies(self) -> Frequencies:
        """Frequencies of the source tokens."""
        return Frequencies.of_counts(self.source_counts)

    @property
    def target_frequencies(self) -> Frequencies:
        """Frequencies of the target tokens."""
        return Frequencies.of_counts(self.target_counts)

    def warnings(self, limit: int | None) -> Iterator[str]:
        """Warnings about long sentences, unknown tokens, and words that do not fit the text."""
        if self.num_truncated:
            yield (
                f"sentences longer than the model's limit of {limit} tokens, truncated: "
                f"{self.num_truncated:,} of {self.num_sentences:,}"
            )
        if self.num_windowed:
            yield (
                f"sentences longer than a window of {limit} tokens, read in windows: "
                f"{self.num_windowed:,} of {self.num_sentences:,}, in "
                f"{amount(self.num_windows, 'window')}"
            )
        num_content = int(self.source_counts.sum() + self.target_counts.sum())
        if self.num_unknown > MOST_UNKNOWN * num_content:
            yield (
                f"tokens that the model does not know: {self.num_unknown:,} of {num_content:,}. "
                "Check that the corpus is in a language of the model"
            )
        yield from self.misread.warnings()

    def arc_warnings(self) -> Iterator[str]:
        """Warnings about arcs and words of treebanks that are not counted."""
        if self.num_words_cut or self.num_words_lost:
            cut = "longer than a window" if self.num_windowed else "cut off by truncation"
            yield (
                f"dependency arcs are not counted for {amount(self.num_words_cut, 'word')} {cut} "
                f"and {amount(self.num_words_lost, 'word')} without a piece in the model's "
                "vocabulary"
            )
        if self.num_out_of_reach:
            yield (
                "dependency arcs between words without a common window, not counted: "
                f"{self.num_out_of_reach:,}"
            )
        if self.num_arcs_inside:
            yield (
                "dependency arcs between words that share the model's pieces, not counted: "
                f"{self.num_arcs_inside:,}"
            )


def take_census(
    corpus: Corpus, encoder: AnyEncoder, reading: Callable[[int], None] = lambda done: None
) -> Census:
    """Read the corpus once and count.

    Args:
        corpus: what is read.
        encoder: makes the model's inputs.
        reading: called with the number of sentences so far.
    """
    source, target = _Side(), _Side()
    num_sentences = num_words = num_truncated = num_windows = num_windowed = out_of_reach = 0
    arcs_inside, misread = 0, Misread()
    hashes_T = np.zeros(0, dtype=np.int64)
    relations: set[str] = set()
    offsets: dict[str, Counter[int]] = {}
    for sentences in chunks(corpus, SENTENCES_AT_ONCE):
        pairs = encoder.encode(sentences)
        source.add([pair.source for pair in pairs])
        target.add([pair.target for pair in pairs if pair.target is not None])
        num_sentences += len(sentences)
        reading(num_sentences)
        num_words += sum(len(sentence.words or ()) for sentence in sentences)
        num_truncated += sum(_is_truncated(pair) for pair in pairs)
        relations.update(*map(_relations, sentences))
        texts = _windowed(pairs)
        num_windowed += len(texts)
        num_windows += sum(map(len, texts))
        out_of_reach += sum(map(_out_of_reach, texts))
        _add_offsets(offsets, pairs)
        firsts = [pair for pair in pairs if pair.source.first_token == 0]
        arcs_inside += sum(pair.num_arcs_inside for pair in firsts)
        misread = misread.add(sentences, [pair.source for pair in firsts])
        more_T = np.array([text_hash(sentence) for sentence in sentences], np.int64)
        hashes_T = np.union1d(hashes_T, more_T)[:MOST_TEXTS]
    return Census(
        num_sentences=num_sentences,
        num_tokens=source.num_tokens,
        num_target_tokens=target.num_tokens,
        num_words=num_words,
        num_truncated=num_truncated,
        num_words_cut=source.num_words_cut,
        num_words_lost=source.num_words_lost,
        longest=source.longest,
        longest_target=target.longest,
        relations=tuple(sorted(relations)),
        baseline_offsets={name: _most_frequent(counts) for name, counts in offsets.items()},
        source_counts=source.counts_V,
        target_counts=target.counts_V,
        sha256=corpus.sha256(),
        num_windowed=num_windowed,
        num_windows=num_windows,
        num_out_of_reach=out_of_reach,
        num_unknown=_unknown(source, encoder) + _unknown(target, encoder),
        num_arcs_inside=arcs_inside,
        misread=misread,
        text_hashes=hashes_T,
    )


def text_hash(sentence: Sentence) -> int:
    """A number that equal texts share, however their words are spaced; of images, equal files.

    >>> text_hash(Sentence("Der Hund  bellt.")) == text_hash(Sentence("Der Hund bellt."))
    True
    """
    text = " ".join(sentence.text.split())
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


@dataclass
class _Side:
    """Running sums over one side of the corpus."""

    num_tokens: int = 0
    num_words_cut: int = 0
    num_words_lost: int = 0
    longest: int = 0
    counts_V: Int64[np.ndarray, " id"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def add(self, encoded: Sequence[Encoded]) -> None:
        ids = np.array([token for one in encoded for token in one.measured(one.ids)], np.int64)
        special = np.array([flag for one in encoded for flag in one.measured(one.is_special)], bool)
        self.counts_V = add_counts(self.counts_V, np.bincount(ids[~special]))
        self.num_tokens += len(ids)
        self.num_words_cut += sum(one.num_words_cut for one in encoded)
        self.num_words_lost += sum(one.num_words_lost for one in encoded)
        self.longest = max([self.longest, *(len(one.ids) for one in encoded)])


def _unknown(side: _Side, encoder: AnyEncoder) -> int:
    """Number of content tokens of a side that are the unknown token, if there is one."""
    token = encoder.unknown_id
    return 0 if token is None or token >= len(side.counts_V) else int(side.counts_V[token])


def _is_truncated(pair: EncodedPair) -> bool:
    return pair.source.truncated or (pair.target is not None and pair.target.truncated)


def _windowed(pairs: Iterable[EncodedPair]) -> list[list[EncodedPair]]:
    """The windows of each text that has some."""
    texts = list[list[EncodedPair]]()
    for pair in pairs:
        if pair.source.is_measured is not None:
            texts += [[]] if pair.source.first_token == 0 else []
            texts[-1].append(pair)
    return texts


def _out_of_reach(windows: Sequence[EncodedPair]) -> int:
    """Number of arcs between two words of a text that no window has in common."""
    tree, place = windows[0].sentence.tree, windows[0].source.place
    if tree is None:
        return 0
    present = {word for window in windows for word in window.source.word_of} - {NO_WORD}
    ends = [(place(word), place(head)) for word, head in enumerate(tree.heads)]
    arcs = sum(word != head and {word, head} <= present for word, head in ends)
    return arcs - sum(head >= 0 for window in windows for _, head, _ in window.arcs())


def _add_offsets(offsets: dict[str, Counter[int]], pairs: Iterable[EncodedPair]) -> None:
    """Count the offsets of arcs in the first half of the corpus, by relation."""
    for pair in pairs:
        tree = pair.sentence.tree
        if tree is None or is_in_second_half(pair.sentence):
            continue
        arcs: Iterable[tuple[int, int, str]] = pair.arcs()
        if pair.source.is_measured is None:  # arcs that truncation cuts count, too
            place = pair.source.place
            ends = ((place(word), place(head)) for word, head in enumerate(tree.heads))
            arcs = ((*its, name) for its, name in zip(ends, tree.relations, strict=True))
        for word, head, relation in arcs:
            if head >= 0 and word != head:
                offsets.setdefault(relation, Counter())[head - word] += 1


def baselines_of(corpus: Corpus, encoder: AnyEncoder, halves: Halves) -> dict[str, int]:
    """Most frequent offset of each relation in the first half, where texts are cut into segments.

    An arc is in the half of its later word.
    """
    offsets: dict[str, Counter[int]] = {}
    number = 0
    for sentences in chunks(corpus, SENTENCES_AT_ONCE):
        pairs = numbered(encoder.encode(sentences), number)
        number += len(sentences)
        for pair, units in zip(pairs, halves.of_rows(pairs, is_target=False), strict=True):
            of_tokens = zip(pair.source.word_of, units.half_N.tolist(), strict=True)
            first = {word for word, half in of_tokens if half == FIRST_HALF}
            for word, head, relation in pair.arcs():
                if head >= 0 and max(word, head) in first:
                    offsets.setdefault(relation, Counter())[head - word] += 1
    return {name: _most_frequent(counts) for name, counts in offsets.items()}


def _most_frequent(counts: Counter[int]) -> int:
    return min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))


def _relations(sentence: Sentence) -> list[str]:
    tree = sentence.tree
    if tree is None:
        return []
    arcs = zip(tree.relations, tree.heads, strict=True)
    return [relation for relation, head in arcs if head >= 0]
