"""Batches within a token budget, sorted by length inside a pool to keep padding low.

Axes: B sentence, N token, A arc. Rows are padded on the right.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate, chain, groupby
from typing import TypeVar, final

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from headcount.core import MAX_TOKENS, CorpusError, amount
from headcount.corpora.batch import Arcs, Batch, LinkFields, Tokens
from headcount.corpora.census import Census
from headcount.corpora.corpus import Corpus, chunks
from headcount.corpora.encoder import EncodedPair
from headcount.corpora.frequencies import Frequencies
from headcount.corpora.halves import NO_HALF, Halves, RowUnits, numbered
from headcount.corpora.image_encoder import AnyEncoder
from headcount.corpora.sentence import NO_WORD, Encoded, Link, Sentence
from headcount.corpora.spelling import PunctuationTable

T = TypeVar("T")


def padded(rows: Sequence[Sequence[int]], fill: int) -> Int64[np.ndarray, "row token"]:
    """The rows, padded with `fill`; needs at least one row."""
    is_present_RN = present(rows)
    padded_RN = np.full(is_present_RN.shape, fill, dtype=np.int64)
    padded_RN[is_present_RN] = np.fromiter(chain.from_iterable(rows), np.int64)
    return padded_RN


def present(rows: Sequence[Sequence[int]]) -> Bool[np.ndarray, "row token"]:
    """True where a row has a number. Length decides, since a token can have the padding's id."""
    length_R = np.fromiter(map(len, rows), np.int64)
    return np.arange(length_R.max()) < length_R[:, None]


TOKEN_TYPES = "token_type_ids"
"""Name of the input that distinguishes the sentences of a pair, for models such as BERT."""


def check_batch_sizes(max_tokens: int, pool: int) -> None:
    """Check the size of batches and of the pool that they are sorted in.

    Raises:
        CorpusError: if one is below 1.
    """
    if max_tokens < 1 or pool < 1:
        raise CorpusError(
            f"Expected at least 1 token a batch and 1 sentence a pool, got {max_tokens} "
            f"and {pool}. Give larger numbers."
        )


def groups_by_length(
    items: Iterable[T], length: Callable[[T], int], max_tokens: int
) -> Iterator[list[T]]:
    """Sort by length (stably), then fill groups up to the budget of padded tokens.

    >>> list(groups_by_length(["to", "a", "the", "of"], len, 5))
    [['a', 'to'], ['of'], ['the']]
    """
    group: list[T] = []
    for item in sorted(items, key=length):
        if group and (len(group) + 1) * length(item) > max_tokens:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


LEAST_UNITS, MOST_UNITS = 16, 256
"""Smallest number of units of a corpus with as many batches, and about the largest."""

Groups = Callable[[], Sequence[Sequence[EncodedPair]]]
"""What encodes a pool, once, and makes the groups of its batches."""


@final
@dataclass(frozen=True, eq=False)
class Batches:
    """Every sentence of a corpus once, in batches; identical and in the same order every time."""

    corpus: Corpus
    encoder: AnyEncoder
    """The encoder that took the census."""
    census: Census
    """Relations and frequencies of the corpus."""
    _: KW_ONLY
    max_tokens: int = MAX_TOKENS
    """Padded tokens of a batch on its longer side; a longer sentence forms a batch."""
    pool: int = 2000
    """Number of sentences held at a time and sorted by length."""
    frequencies: Frequencies | None = None
    """Frequencies of source tokens, in place of the census's."""
    halves: Halves = Halves()
    """Halves of the corpus; by default every text is one unit."""

    def __post_init__(self) -> None:
        check_batch_sizes(self.max_tokens, self.pool)

    def __iter__(self) -> Iterator[Batch]:
        for groups in self._pools(self.corpus):
            yield from map(self._batch, groups())

    def units(self) -> Iterator[Iterator[Batch]]:
        """Yield the batches of each unit of the corpus; together they are all batches.

        A unit is a part of a stream, read if its batches are asked for; or a run of pools, encoded
        if its batches are asked for before the next unit; or, with few pools, every n-th batch of
        one, so that units take about as long as each other. They do not depend on who asks.
        """
        census, counts = self.census, self.census.counts
        if len(parts := self.corpus.parts) > 1:
            starts = accumulate(census.parts, initial=0)
            for part, first, number in zip(parts, starts, census.parts, strict=False):
                pools = self._pools(part, first, number)
                yield (self._batch(group) for groups in pools for group in groups())
            return
        num_pools = max(1, -(-counts.sentences // self.pool))
        least_batches = max(counts.tokens, counts.target_tokens) // self.max_tokens
        together, num_shares = num_pools // MOST_UNITS, min(LEAST_UNITS, least_batches) // num_pools
        pools = enumerate(self._pools(self.corpus, counted=counts.sentences))
        for _, run in groupby(pools, lambda each: each[0] // max(1, together)):
            if num_shares < 2:
                yield (self._batch(group) for _, groups in run for group in groups())
                continue
            for _, groups in run:
                for share in range(num_shares):
                    yield self._share(groups, share, num_shares)

    def _pools(
        self, corpus: Corpus, first: int = 0, counted: int | None = None
    ) -> Iterator[Groups]:
        """The pools of a corpus whose first sentence has a number, and that were counted before."""
        number = first
        for sentences in chunks(corpus, self.pool):
            yield cache(partial(self._groups, sentences, number))
            number += len(sentences)
        if counted is not None and number - first != counted:
            raise CorpusError(
                f"Expected {amount(counted, 'text')} in {corpus.where}, as when they were counted, "
                f"got {number - first}: files changed, or a stream ended early. Run it again."
            )

    def _share(self, groups: Groups, share: int, num_shares: int) -> Iterator[Batch]:
        """Every n-th batch of a pool."""
        yield from map(self._batch, groups()[share::num_shares])

    @cached_property
    def _frequencies(self) -> tuple[Frequencies, Frequencies]:
        """Frequencies of source and of target tokens."""
        census = self.census
        return self.frequencies or census.source_frequencies, census.target_frequencies

    def _groups(self, sentences: Sequence[Sentence], first: int) -> list[list[EncodedPair]]:
        """The rows of each batch of a pool whose first sentence has a number in the corpus."""
        pairs = numbered(self.encoder.encode(sentences), first)
        return list(groups_by_length(pairs, lambda pair: pair.length, self.max_tokens))

    def _batch(self, pairs: Sequence[EncodedPair]) -> Batch:
        encoder = self.encoder
        sentences = tuple(pair.sentence for pair in pairs)
        encoded = tuple(pair.source for pair in pairs)
        halves = self.halves.of_rows(pairs, is_target=False)
        source = _tokens(encoded, halves, encoder, encoder.source_punctuation, self._frequencies[0])
        inputs = encoder.arguments(sentences, source.ids_BN, source.is_token_BN)
        if encoder.token_types:
            inputs |= _token_types(encoded)
        target = None
        targets = [pair.target for pair in pairs if pair.target is not None]
        if targets:
            halves = self.halves.of_rows(pairs, is_target=True)
            punctuation, frequencies = encoder.target_punctuation, self._frequencies[1]
            target = _tokens(targets, halves, encoder, punctuation, frequencies)
            inputs["decoder_input_ids"] = target.ids_BN
            inputs["decoder_attention_mask"] = target.is_token_BN.long()
        census = self.census
        arcs = _arcs(pairs, census) if census.relations or census.links else None
        measured = _measured(encoded)
        return Batch(inputs, source, target, arcs, sentences, measured, encoder.grid, encoded)


def _measured(encoded: Sequence[Encoded]) -> Bool[Tensor, "batch token"] | None:
    """Tokens that are measured; None if no row is a window."""
    if all(one.is_measured is None for one in encoded):
        return None
    flags = [one.is_measured or [True] * len(one.ids) for one in encoded]
    return torch.from_numpy(padded(flags, False).astype(bool))


def _token_types(encoded: Sequence[Encoded]) -> dict[str, Int64[Tensor, "batch token"]]:
    """Token types; empty if no sentence is a pair."""
    if all(one.type_ids is None for one in encoded):
        return {}
    types = [one.type_ids or [0] * len(one.ids) for one in encoded]
    return {TOKEN_TYPES: torch.from_numpy(padded(types, 0))}


def _tokens(
    encoded: Sequence[Encoded],
    halves: Sequence[RowUnits],
    encoder: AnyEncoder,
    punctuation: PunctuationTable,
    frequencies: Frequencies,
) -> Tokens:
    ids_BN = padded([one.ids for one in encoded], encoder.pad_id)
    word_BN = padded([one.word_of for one in encoded], NO_WORD)
    is_special_BN = padded([one.is_special for one in encoded], True).astype(bool)
    is_token_BN = present([one.ids for one in encoded])  # Marian and T5 start with the padding id
    is_content_BN = ~is_special_BN
    is_sep_BN = is_token_BN & is_special_BN & np.isin(ids_BN, encoder.sep_ids)
    is_sep_BN[:, 0] = False  # decoders of M2M100 and BART start with </s>, which ends nothing there
    is_punct_BN = is_content_BN & punctuation(ids_BN)
    rarest_B2 = frequencies.rarest(ids_BN, is_content_BN)
    kinds = (ids_BN, is_token_BN, is_content_BN, is_sep_BN, is_punct_BN, word_BN, rarest_B2)
    rarity = (frequencies.counts(ids_BN), frequencies.is_rare(ids_BN))
    units = (
        padded([each.unit_N.tolist() for each in halves], NO_HALF),
        padded([each.half_N.tolist() for each in halves], NO_HALF),
        np.array([each.num_rows for each in halves]),
    )
    found = Tokens(*map(torch.from_numpy, (*kinds, *rarity, *units)))
    if all(one.is_picture is None for one in encoded):
        return found
    shown = padded([one.is_picture or [False] * len(one.ids) for one in encoded], False)
    return replace(found, is_picture_BN=torch.from_numpy(shown.astype(bool)))


def _arcs(pairs: Sequence[EncodedPair], census: Census) -> Arcs:
    """Arcs and links between words that kept a piece; the census counts words that did not."""
    names = [*census.relations, *census.links]
    relations = {name: index for index, name in enumerate(census.relations)}
    kinds = {name: index for index, name in enumerate(census.links, start=len(relations))}
    found: list[tuple[int, int, int, int, bool, int]] = []
    num_roots, num_links, narrowed = 0, 0, list[tuple[int, int, int, Link]]()
    for row, pair in enumerate(pairs):
        for dependent, head, relation in pair.arcs():
            num_roots += head < 0
            if head >= 0:
                is_baseline = head - dependent == census.baseline_offsets.get(relation)
                found.append((row, dependent, head, relations[relation], is_baseline, num_links))
                num_links += 1
        for link in pair.links():
            offset, kind = census.link_offsets.get(link.name), kinds[link.name]
            if link.candidates:
                first = len(names) - census.num_narrowed
                narrowed.append((row, kind - first, len(found), link))
            for key in link.keys:
                is_baseline = link.offset(key) == offset
                found.append((row, link.query, key, kind, is_baseline, num_links))
            num_links += 1
    arcs_6A = torch.tensor(found, dtype=torch.int64).reshape(-1, 6).T.contiguous()
    sentence_A, dependent_A, head_A, relation_A, is_baseline_A, link_A = arcs_6A.unbind()
    ends = sentence_A, dependent_A, head_A
    several = link_A if num_links < len(link_A) else None
    fields, count = _fields(narrowed), census.num_narrowed
    numbers = len(names), num_roots
    return Arcs(*ends, relation_A, is_baseline_A.bool(), *numbers, several, count, fields)


def _fields(found: Sequence[tuple[int, int, int, Link]]) -> LinkFields | None:
    """The fields of links, each with its row, the number of its name, and its first arc."""
    if not found:
        return None
    rows, kinds, firsts, links = zip(*found, strict=True)
    fields = [link.compared for link in links]
    keys = [
        (first + number, place, its.index(key))
        for place, (first, its, link) in enumerate(zip(firsts, fields, links, strict=True))
        for number, key in enumerate(link.keys)
    ]
    queries = [its.index(link.query) for its, link in zip(fields, links, strict=True)]
    return LinkFields(
        torch.tensor(rows),
        torch.from_numpy(padded(fields, NO_WORD)),
        torch.tensor(queries),
        torch.tensor(kinds),
        *torch.tensor(keys).T.contiguous().unbind(),
    )
