"""Census: one cheap pass over a corpus that counts what it contains."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import final

import numpy as np
from jaxtyping import Int64

from headcount.corpora.corpus import Corpus
from headcount.corpora.encoder import EncodedPair, Encoder
from headcount.corpora.frequencies import Frequencies, add_counts
from headcount.corpora.halves import is_in_second_half
from headcount.corpora.sentence import Encoded, Sentence

SENTENCES_AT_ONCE = 1000


@final
@dataclass(frozen=True, eq=False)
class Census:
    """Counts over a corpus as one tokenizer reads it; tokens include special ones, not padding."""

    num_sentences: int
    num_tokens: int
    """Number of source tokens after truncation."""
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

    @property
    def source_frequencies(self) -> Frequencies:
        """Frequencies of the source tokens."""
        return Frequencies.of_counts(self.source_counts)

    @property
    def target_frequencies(self) -> Frequencies:
        """Frequencies of the target tokens."""
        return Frequencies.of_counts(self.target_counts)

    def truncation(self, limit: int | None) -> Iterator[str]:
        """A warning about sentences that are longer than the model's limit."""
        if self.num_truncated:
            yield (
                f"sentences longer than the model's limit of {limit} tokens, truncated: "
                f"{self.num_truncated:,} of {self.num_sentences:,}"
            )


def take_census(corpus: Corpus, encoder: Encoder) -> Census:
    """Read the corpus once and count."""
    source, target = _Side(), _Side()
    num_sentences = num_words = num_truncated = 0
    relations: set[str] = set()
    offsets: dict[str, Counter[int]] = {}
    for sentences in chunks(corpus, SENTENCES_AT_ONCE):
        pairs = encoder.encode(sentences)
        source.add([pair.source for pair in pairs])
        target.add([pair.target for pair in pairs if pair.target is not None])
        num_sentences += len(pairs)
        num_words += sum(len(sentence.words or ()) for sentence in sentences)
        num_truncated += sum(_is_truncated(pair) for pair in pairs)
        relations.update(*map(_relations, sentences))
        _add_offsets(offsets, sentences)
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
    )


def chunks(corpus: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    """Consecutive sentences, `size` at a time, fewer in the last chunk."""
    sentences = iter(corpus)
    while chunk := list(islice(sentences, size)):
        yield chunk


@dataclass
class _Side:
    """Running sums over one side of the corpus."""

    num_tokens: int = 0
    num_words_cut: int = 0
    num_words_lost: int = 0
    longest: int = 0
    counts_V: Int64[np.ndarray, " id"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def add(self, encoded: Sequence[Encoded]) -> None:
        ids = np.array([token for one in encoded for token in one.ids], dtype=np.int64)
        special = np.array([flag for one in encoded for flag in one.is_special], dtype=bool)
        self.counts_V = add_counts(self.counts_V, np.bincount(ids[~special]))
        self.num_tokens += len(ids)
        self.num_words_cut += sum(one.num_words_cut for one in encoded)
        self.num_words_lost += sum(one.num_words_lost for one in encoded)
        self.longest = max([self.longest, *(len(one.ids) for one in encoded)])


def _is_truncated(pair: EncodedPair) -> bool:
    return pair.source.truncated or (pair.target is not None and pair.target.truncated)


def _add_offsets(offsets: dict[str, Counter[int]], sentences: Iterable[Sentence]) -> None:
    """Count the offsets of arcs in the first half of the corpus, by relation."""
    for sentence in sentences:
        tree = sentence.tree
        if tree is None or is_in_second_half(sentence):
            continue
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if head >= 0:
                offsets.setdefault(relation, Counter())[head - word] += 1


def _most_frequent(counts: Counter[int]) -> int:
    return min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))


def _relations(sentence: Sentence) -> list[str]:
    tree = sentence.tree
    if tree is None:
        return []
    arcs = zip(tree.relations, tree.heads, strict=True)
    return [relation for relation, head in arcs if head >= 0]
