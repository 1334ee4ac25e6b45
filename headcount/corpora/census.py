"""Census: what a corpus contains, counted in one cheap pass.

What is counted and what a census says of it are one list of facts, so both are in this file.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import final

import numpy as np
from jaxtyping import Int64

from headcount.core import CorpusError, amount, check_alike, is_alone, tallied
from headcount.corpora.corpus import Corpus, chunks, hash_of_stream, number_of, number_of_links
from headcount.corpora.encoder import EncodedPair
from headcount.corpora.frequencies import Frequencies, add_counts
from headcount.corpora.halves import FIRST_HALF, Halves, is_in_second_half, numbered
from headcount.corpora.image_encoder import AnyEncoder
from headcount.corpora.misread import Misread, Noted
from headcount.corpora.sentence import Encoded, Sentence
from headcount.results import MOST_TEXTS, Counts
from headcount.vocabulary import ALL

MOST_UNKNOWN = 0.01
"""Largest share of unknown tokens among content tokens without a warning."""


@final
@dataclass(frozen=True, eq=False)
class Census:
    """Counts over a corpus as one tokenizer reads it; tokens include special ones, not padding."""

    counts: Counts
    """Amounts that are read, truncated, left out and read in windows."""
    longest_target: int
    """Number of tokens of the longest target after truncation."""
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
    num_unknown: int = 0
    """Number of content tokens of both sides that are the tokenizer's unknown token."""
    misread: Misread = Misread()
    """Sentences of treebanks whose words do not fit their text or the tokenizer's pieces."""
    noted: Noted = Noted()
    """Texts that are read in another way than they are written."""
    text_hashes: Int64[np.ndarray, " text"] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Hashes of the different texts, the smallest first; at most `MOST_TEXTS`."""
    parts: tuple[int, ...] = ()
    """Number of sentences of each part of the corpus."""
    links: tuple[str, ...] = ()
    """Names of all links, sorted; those that name their candidates are the last."""
    num_narrowed: int = 0
    """Number of names of links that name their candidates."""
    link_offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Most frequent `Link.offset` of a key of each, as `baseline_offsets`; any key counts."""
    links_sha256: str | None = None
    """Hash of all links with their texts; None without links."""

    @property
    def longest(self) -> int:
        """Number of tokens of the longest side after truncation."""
        return max(self.counts.longest, self.longest_target)

    @property
    def num_rows(self) -> int:
        """Number of rows in all batches."""
        return self.counts.sentences - self.counts.windowed + self.counts.windows

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
        if self.counts.truncated:
            yield (
                f"sentences longer than the model's limit of {limit} tokens, truncated: "
                f"{self.counts.truncated:,} of {self.counts.sentences:,}"
            )
        if self.counts.windowed:
            yield (
                f"sentences longer than a window of {limit} tokens, read in windows: "
                f"{self.counts.windowed:,} of {self.counts.sentences:,}, in "
                f"{amount(self.counts.windows, 'window')}"
            )
        num_content = int(self.source_counts.sum() + self.target_counts.sum())
        if self.num_unknown > MOST_UNKNOWN * num_content:
            yield (
                f"tokens that the model does not know: {self.num_unknown:,} of {num_content:,}. "
                "Check that the corpus is in a language of the model"
            )
        yield from self.misread.warnings()
        yield from self.noted.warnings()

    def arc_warnings(self) -> Iterator[str]:
        """Warnings about arcs and links between words that are not counted."""
        given = (("dependency arcs", self.relations), ("links", self.links))
        arcs = " and ".join(what for what, names in given if names) or "dependency arcs"
        if self.counts.words_cut or self.counts.words_lost:
            cut = "longer than a window" if self.counts.windowed else "cut off by truncation"
            yield (
                f"{arcs} are not counted for {amount(self.counts.words_cut, 'word')} {cut} and "
                f"{amount(self.counts.words_lost, 'word')} without a piece in the model's "
                "vocabulary"
            )
        if self.counts.out_of_reach:
            yield (
                f"{arcs} between words without a common window, not counted: "
                f"{self.counts.out_of_reach:,}"
            )
        if self.counts.arcs_inside:
            yield (
                f"{arcs} between words that share the model's pieces, not counted: "
                f"{self.counts.arcs_inside:,}"
            )


SENTENCES_AT_ONCE, SHARED_AT_ONCE = 1000, 250
"""Number of sentences encoded at a time, and of those that one of several processes takes."""
_nothing = partial(np.zeros, 0, np.int64)


def take_census(
    corpus: Corpus, encoder: AnyEncoder, reading: Callable[[int], None] = lambda done: None
) -> Census:
    """Read the corpus once and count; processes share the counting.

    Each process reads its own parts of a stream of many files. Of any other corpus each reads all,
    and encodes and counts its own runs of sentences. What they count is exchanged once, and is the
    same for any number of processes.

    Args:
        corpus: what is read.
        encoder: makes the model's inputs.
        reading: called with the number of sentences that this process has counted.

    Raises:
        InputError: if processes read different files, in all of them.
    """
    sha256 = None if corpus.has_parts else corpus.sha256()
    check_alike({"corpus": sha256})
    parts, own = corpus.parts, _Totals()
    size = SENTENCES_AT_ONCE if is_alone() else SHARED_AT_ONCE
    pieces: Iterable[Iterable[Sentence]] = parts if len(parts) > 1 else chunks(corpus, size)

    def count(each: tuple[int, Iterable[Sentence]]) -> None:
        number, piece = each
        before = own.counts.sentences
        for sentences in chunks(piece, SENTENCES_AT_ONCE):
            own.add(_totals(number, encoder.encode(sentences)))
            own.total += sum(map(number_of, sentences if corpus.has_parts else ()))
            reading(own.counts.sentences)
        if len(parts) > 1:
            own.parts[number] = own.counts.sentences - before

    found = _Totals()
    for totals in tallied(count, enumerate(pieces), own):
        found.add(totals)
    if not found.counts.sentences:
        next(iter(corpus), None)  # its error says that it is empty
    return found.census(encoder, sha256)


def sentences_within(corpus: Corpus, encoder: AnyEncoder, limit_tokens: int) -> int:
    """Number of the first sentences that have no more tokens than a limit, or else 1."""
    num_sentences = num_tokens = 0
    for sentences in chunks(corpus, SENTENCES_AT_ONCE):
        for pair in encoder.encode(sentences):
            num_sentences += pair.source.first_token == 0
            num_tokens += len(pair.source.measured(pair.source.ids))
            if num_tokens > limit_tokens:
                return max(1, num_sentences - 1)
    return num_sentences


def text_hash(sentence: Sentence) -> int:
    """A number that equal texts share, however their words are spaced; of images, equal files.

    Texts beside other pictures are not equal.

    >>> text_hash(Sentence("Der Hund  bellt.")) == text_hash(Sentence("Der Hund bellt."))
    True
    """
    text = " ".join([*sentence.text.split(), *(each.digest for each in sentence.pictures)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


@final
@dataclass
class _Totals:
    """Totals of some pieces of a corpus; those of others can be added in any order."""

    counts: Counts = Counts(sentences=0, tokens=0)
    longest_target: int = 0
    source_counts: Int64[np.ndarray, " source_id"] = field(default_factory=_nothing)
    target_counts: Int64[np.ndarray, " target_id"] = field(default_factory=_nothing)
    misread: dict[int, Misread] = field(default_factory=dict[int, Misread])
    """What is misread in each piece that has some, by its number; only treebanks have."""
    relations: set[str] = field(default_factory=set[str])
    offsets: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    text_hashes: Int64[np.ndarray, " text"] = field(default_factory=_nothing)
    noted: Noted = Noted()
    total: int = 0
    """Sum of the hashes of a stream's sentences."""
    parts: dict[int, int] = field(default_factory=dict[int, int])
    """Number of sentences of each part, if there are several."""
    link_offsets: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    """Offsets of the links of each name; empty ones if the first half has none."""
    links: int = 0
    """Sum of the hashes of the sentences' links."""
    narrowed: set[str] = field(default_factory=set[str])
    """Names of links with candidates."""
    open: set[str] = field(default_factory=set[str])
    """Names of links without."""

    def add(self, other: "_Totals") -> None:
        """Add the totals of other pieces, or of another run of sentences of a piece."""
        self.counts += other.counts
        self.longest_target = max(self.longest_target, other.longest_target)
        self.source_counts = add_counts(self.source_counts, other.source_counts)
        self.target_counts = add_counts(self.target_counts, other.target_counts)
        for number, each in other.misread.items():
            self.misread[number] = self.misread.get(number, Misread()) + each
        self.relations |= other.relations
        for mine, others in (
            (self.offsets, other.offsets),
            (self.link_offsets, other.link_offsets),
        ):
            for name, counts in others.items():
                mine.setdefault(name, Counter()).update(counts)
        self.links += other.links
        self.narrowed |= other.narrowed
        self.open |= other.open
        self.text_hashes = np.union1d(self.text_hashes, other.text_hashes)[:MOST_TEXTS]
        self.noted += other.noted
        self.total += other.total
        self.parts |= other.parts

    def census(self, encoder: AnyEncoder, sha256: str | None) -> Census:
        """The counts of the whole, whose hash is that of its files or else of its sentences.

        Raises:
            CorpusError: if some links of a name have candidates and others have none.
        """
        if mixed := sorted(self.narrowed & self.open):
            raise CorpusError(
                f"Expected candidates with every link of {mixed[0]} or with none, got both. Give "
                "all words as candidates where any can be looked at."
            )
        num_sentences = self.counts.sentences
        return Census(
            counts=self.counts,
            longest_target=self.longest_target,
            relations=tuple(sorted(self.relations)),
            baseline_offsets=_most_frequent(self.offsets),
            source_counts=self.source_counts,
            target_counts=self.target_counts,
            sha256=sha256 or hash_of_stream(self.total),
            num_unknown=sum(
                int(each[encoder.unknown_id : encoder.unknown_id + 1].sum())
                for each in (self.source_counts, self.target_counts)
                if encoder.unknown_id is not None
            ),
            misread=sum((each for _, each in sorted(self.misread.items())), Misread()),
            noted=self.noted,
            text_hashes=self.text_hashes,
            parts=tuple(each for _, each in sorted(self.parts.items())) or (num_sentences,),
            links=(*sorted(self.open), *sorted(self.narrowed)),
            num_narrowed=len(self.narrowed),
            link_offsets=_most_frequent(self.link_offsets),
            links_sha256=hash_of_stream(self.links) if self.link_offsets else None,
        )


def _totals(number: int, pairs: Sequence[EncodedPair]) -> _Totals:
    """The totals of some sentences of a piece, all windows of which are given."""
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs if pair.target is not None]
    firsts = [pair for pair in pairs if pair.source.first_token == 0]
    sentences = [pair.sentence for pair in firsts]
    texts, offsets = _windowed(pairs), dict[str, Counter[int]]()
    link_offsets = {link.name: Counter[int]() for each in sentences for link in each.links}
    _add_offsets(offsets, pairs)
    _add_link_offsets(
        link_offsets, (pair for pair in pairs if not is_in_second_half(pair.sentence))
    )
    misread = Misread().add(sentences, [pair.source for pair in firsts])
    counts = Counts(
        sentences=len(sentences),
        tokens=_num_tokens(sources),
        target_tokens=_num_tokens(targets),
        words=sum(len(sentence.words or ()) for sentence in sentences),
        truncated=sum(_is_truncated(pair) for pair in pairs),
        words_cut=sum(one.num_words_cut for one in sources),
        words_lost=sum(one.num_words_lost for one in sources),
        longest=_longest(sources),
        windowed=len(texts),
        windows=sum(map(len, texts)),
        out_of_reach=sum(map(EncodedPair.num_out_of_reach, texts)),
        arcs_inside=sum(pair.num_inside for pair in firsts),
    )
    return _Totals(
        counts,
        _longest(targets),
        _content_counts(sources),
        _content_counts(targets),
        {number: misread} if misread != Misread() else {},
        {name for sentence in sentences for name in _relations(sentence)},
        offsets,
        np.unique(np.array([text_hash(sentence) for sentence in sentences], np.int64)),
        Noted.of([*sources, *targets]),
        link_offsets=link_offsets,
        links=sum(number_of_links(each) for each in sentences if each.links),
        narrowed={link.name for each in sentences for link in each.links if link.candidates},
        open={link.name for each in sentences for link in each.links if not link.candidates},
    )


def _num_tokens(encoded: Sequence[Encoded]) -> int:
    return sum(len(one.measured(one.ids)) for one in encoded)


def _longest(encoded: Sequence[Encoded]) -> int:
    return max((len(one.ids) for one in encoded), default=0)


def _content_counts(encoded: Sequence[Encoded]) -> Int64[np.ndarray, " id"]:
    """Number of times each token id is a content token."""
    ids = np.array([token for one in encoded for token in one.measured(one.ids)], np.int64)
    special = np.array([flag for one in encoded for flag in one.measured(one.is_special)], bool)
    return np.bincount(ids[~special])


def _is_truncated(pair: EncodedPair) -> bool:
    return pair.source.truncated or (pair.target is not None and pair.target.truncated)


def _windowed(pairs: Iterable[EncodedPair]) -> list[list[EncodedPair]]:
    """The windows of each text that has some."""
    texts = list[list[EncodedPair]]()
    for pair in pairs:
        if pair.source.num_windows > 1:
            texts += [[]] if pair.source.first_token == 0 else []
            texts[-1].append(pair)
    return texts


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


def _add_link_offsets(offsets: dict[str, Counter[int]], pairs: Iterable[EncodedPair]) -> None:
    """Count the offsets from the query of every link to each of its keys, by name."""
    for pair in pairs:
        for link in pair.links():
            offsets[link.name].update(map(link.offset, link.keys))


def with_baselines(census: Census, corpus: Corpus, encoder: AnyEncoder, halves: Halves) -> Census:
    """The census with the most frequent offsets of the first half of texts cut into segments.

    An arc is in the half of its later word, a link in that of its last one.
    """
    offsets: dict[str, Counter[int]] = {}
    link_offsets = {name: Counter[int]() for name in census.links}
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
            for link in pair.links():
                if max(link.words) in first:
                    link_offsets[link.name].update(map(link.offset, link.keys))
    found, of_links = _most_frequent(offsets), _most_frequent(link_offsets)
    return replace(census, baseline_offsets=found, link_offsets=of_links)


def _most_frequent(offsets: Mapping[str, Counter[int]]) -> dict[str, int]:
    """The most frequent offset of each relation, in the order of their names."""

    def first(counts: Counter[int]) -> int:
        return min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))

    return {name: first(counts) for name, counts in sorted(offsets.items()) if counts}


def _relations(sentence: Sentence) -> list[str]:
    tree = sentence.tree
    if tree is None:
        return []
    if ALL in tree.relations:
        raise CorpusError(
            f"{sentence.origin}: expected relations with names of their own, got {ALL!r}, the name "
            "of all relations together. Rename it in column 8."
        )
    arcs = zip(tree.relations, tree.heads, strict=True)
    return [relation for relation, head in arcs if head >= 0]
