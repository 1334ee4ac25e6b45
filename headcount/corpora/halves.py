"""Halves of a corpus: what is chosen on the first half is tested on the second.

A *unit* is what a test takes as independent. Which units there are depends on the corpus:

- **Many texts**: a text is one unit, however long it is. Which half it is in depends on a hash of
  the text alone, not on its place in the corpus, on the model or on batches, and equal texts are in
  the same half. Each half has `LEAST_UNITS` texts or more in which a query is a case of attention
  to the first token (see below).
- **Few texts**: any other corpus, such as one long text. The earlier part of every text is in the
  first half and the later part in the second; the `GAP` tokens between them are in neither. Each
  half is cut into `LEAST_UNITS` segments of consecutive tokens, none of which spans two texts.
  Texts share the segments by their length (D'Hondt's method, which makes the shortest segment as
  long as possible). With a segment below `SEGMENT` tokens nothing is in either half, so that
  nothing is tested. What is found holds for these texts, not for others.

An image is one unit.

The first token: which queries say something about whether a head looks at it.

A head that looks at the first token may look at what is near, or at what is rare. So these queries
are no cases: the first token and its neighbour, the first `EARLY` queries of a causal model, which
see few keys but the first, and those of which the first token is one of the two rarest that they
see.

Reference: segments are non-overlapping batch means, as in the output of one long simulation:
    Schmeiser (1982), https://doi.org/10.1287/opre.30.3.556
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby, islice
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from headcount.corpora.corpus import Corpus, chunks
from headcount.corpora.encoder import EncodedPair
from headcount.corpora.frequencies import NOWHERE, Frequencies
from headcount.corpora.image_encoder import AnyEncoder
from headcount.corpora.sentence import Encoded, Sentence

EARLY = 10
"""Number of first queries of a causal model that are no cases: they see few keys but the first."""
FIRST_TOKENS = f"rarest-{EARLY}"
"""Name of the convention of first tokens in signatures."""


def rarest_so_far(
    count_BN: Int64[Tensor, "batch token"],
    is_content_BN: Bool[Tensor, "batch token"],
    is_rare_BN: Bool[Tensor, "batch token"],
) -> Int64[Tensor, "batch token 2"]:
    """Positions of the two rarest content tokens up to each token, as `Frequencies.rarest`."""
    num_tokens = count_BN.shape[1]
    position_N = torch.arange(num_tokens, device=count_BN.device)
    never = torch.iinfo(torch.int64).max
    # The earlier is the rarer in a tie
    order_BN = (count_BN * num_tokens + position_N).masked_fill(~is_content_BN, never)
    rarest_BN = order_BN.cummin(1).values
    before_BN = torch.cat([torch.full_like(rarest_BN[:, :1], never), rarest_BN[:, :-1]], 1)
    second_BN = torch.maximum(order_BN, before_BN).cummin(1).values
    found_BN2 = torch.stack([rarest_BN, second_BN], -1)
    place_BN2 = torch.where(found_BN2 == never, NOWHERE, found_BN2 % num_tokens)
    has_rare_BN = is_rare_BN.gather(1, place_BN2[..., 0].clamp_min(0))
    return place_BN2.masked_fill(~has_rare_BN[..., None], NOWHERE)


def first_cases(
    rarest_BQ2: Int64[Tensor, "batch query 2"], is_causal: bool, is_self: bool = True
) -> Bool[Tensor, "batch query"]:
    """Which queries are cases of attention to the first token.

    Args:
        rarest_BQ2: positions of the two rarest content tokens that each query sees.
        is_causal: whether queries see no later tokens.
        is_self: whether the first query stands at the first token.
    """
    position_Q = torch.arange(rarest_BQ2.shape[1], device=rarest_BQ2.device)
    least = EARLY if is_causal else 2 if is_self else 0
    return (rarest_BQ2 != 0).all(-1) & (position_Q >= least)


LEAST_UNITS = 10
"""Least number of units in each half."""
SEGMENT = 160
"""Least number of tokens in a segment."""
GAP = 32
"""Number of tokens between the halves of a text."""

FIRST_HALF, SECOND_HALF, NO_HALF = 0, 1, -1
"""Numbers of the halves, and of tokens that are in neither."""

_AT_ONCE = 100


@final
@dataclass(frozen=True)
class Segments:
    """The segments of one text."""

    first: int
    """Number of its first segment in each half."""
    count: int
    """Number of its segments in each half."""
    source_length: int
    """Number of tokens of the source."""
    target_length: int = 0
    """Number of tokens of the target; 0 without one."""

    def units(self, place_N: Int64[np.ndarray, " token"], length: int) -> "RowUnits":
        """Units and halves of the tokens at some places of a side with some length."""
        each = (length - GAP) // 2
        later_N = place_N - (length - each)
        half_N = np.where(later_N >= 0, SECOND_HALF, NO_HALF)
        half_N[place_N < each] = FIRST_HALF
        unit_N = self.first + np.where(later_N >= 0, later_N, place_N) * self.count // each
        return RowUnits(unit_N + LEAST_UNITS * (later_N >= 0), half_N, 0)


@final
@dataclass(frozen=True, eq=False)
class RowUnits:
    """Units of the tokens of one row."""

    unit_N: Int64[np.ndarray, " token"]
    """Number of each token's unit in the corpus."""
    half_N: Int64[np.ndarray, " token"]
    """Half of each token."""
    num_rows: int
    """Number of rows that a unit of this row is in; 0 if that is not known."""


@final
@dataclass(frozen=True)
class Halves:
    """Which half and which unit every token of a corpus is in."""

    segments: Mapping[int, Segments] | None = None
    """Segments of the texts that have some, by the number of the text; None if texts are units."""
    num_texts: int = 0
    """Number of texts, if these are few."""
    num_tokens: int = 0
    """Number of tokens of these texts."""
    missing: int = 0
    """Number of tokens that these texts are too short by for a test; 0 if they are tested."""
    num_short: int = 0
    """Number of other texts, too short for a segment."""

    def __str__(self) -> str:
        """How signatures name the units: `texts`, `segments` or `none`."""
        if self.segments is None:
            return "texts"
        return "none" if self.missing else "segments"

    def of_rows(self, pairs: Sequence[EncodedPair], is_target: bool) -> list[RowUnits]:
        """Units of one side of some rows."""
        sides = [pair.target if is_target else pair.source for pair in pairs]
        return [
            self._of_row(pair, side, is_target)
            for pair, side in zip(pairs, sides, strict=True)
            if side is not None
        ]

    def _of_row(self, pair: EncodedPair, side: Encoded, is_target: bool) -> RowUnits:
        length = len(side.ids)
        measured_N = np.array(side.is_measured or [True] * length)
        if self.segments is None:
            half = SECOND_HALF if is_in_second_half(pair.sentence) else FIRST_HALF
            found = RowUnits(np.full(length, pair.text), np.full(length, half), side.num_windows)
        elif own := self.segments.get(pair.text):
            whole = own.target_length if is_target else own.source_length
            found = own.units(side.first_token + measured_N.cumsum() - 1, whole)
            found = replace(found, num_rows=1 if side.num_windows == 1 else 0)
        else:
            found = RowUnits(np.full(length, NO_HALF), np.full(length, NO_HALF), 1)
        return replace(found, half_N=np.where(measured_N, found.half_N, NO_HALF))


def is_in_second_half(sentence: Sentence) -> bool:
    """Whether a text is in the second half of the corpus, where texts are units."""
    shown = (each.digest for each in sentence.pictures)
    text = "\n".join([sentence.text, sentence.second or "", *shown, "0"])
    return bool(blake2b(text.encode(), digest_size=1).digest()[0] & 1)


def numbered(pairs: Sequence[EncodedPair], first: int) -> list[EncodedPair]:
    """Rows of consecutive texts with the numbers of the texts, from `first` on."""
    found, text = list[EncodedPair](), first - 1
    for pair in pairs:
        text += pair.source.first_token == 0
        found.append(replace(pair, text=text))
    return found


def halves_of(
    corpus: Corpus, encoder: AnyEncoder, frequencies: Frequencies, is_causal: bool
) -> Halves:
    """The halves of a corpus; reads ahead until it is known that its texts are many.

    Args:
        corpus: the texts.
        encoder: what reads them.
        frequencies: frequencies of the source tokens, which say what tokens are rare.
        is_causal: whether the tokens of the source see no later ones.
    """
    if not encoder.inputs.is_text:
        return Halves()
    counted, num_tokens = [0, 0], 0
    longest: list[tuple[int, int, int, int]] = []  # least length, -number, lengths of both sides
    num_texts = 0
    for rows in _texts(corpus, encoder):
        if any(_has_first_case(row.source, frequencies, is_causal) for row in rows):
            counted[is_in_second_half(rows[0].sentence)] += 1
        if min(counted) >= LEAST_UNITS:
            return Halves()
        length = sum(len(row.source.measured(row.source.ids)) for row in rows)
        target = rows[0].target
        lengths = (length, 0 if target is None else len(target.ids))
        heapq.heappush(longest, (min(lengths) or length, -num_texts, *lengths))
        if len(longest) > LEAST_UNITS:  # no shorter text has a segment
            heapq.heappop(longest)
        num_texts, num_tokens = num_texts + 1, num_tokens + length
    if missing := num_missing([least for least, *_ in longest]):
        return Halves({}, num_texts, num_tokens, missing)
    in_order = sorted(longest, key=lambda each: -each[1])
    shares = shared([least for least, *_ in in_order])
    segments, first = dict[int, Segments](), 0
    for (_, number, *lengths), count in zip(in_order, shares, strict=True):
        if count:
            segments[-number] = Segments(first, count, *lengths)
        first += count
    num_tokens = sum(each.source_length for each in segments.values())
    return Halves(segments, len(segments), num_tokens, num_short=num_texts - len(segments))


def _texts(corpus: Corpus, encoder: AnyEncoder) -> Iterator[list[EncodedPair]]:
    """The rows of each text."""
    number = 0
    for sentences in chunks(corpus, _AT_ONCE):
        rows = numbered(encoder.encode(sentences), number)
        number += len(sentences)
        for _, of_text in groupby(rows, key=lambda row: row.text):
            yield [*of_text]


def shared(lengths: Sequence[int]) -> list[int]:
    """Number of segments in each half of every text, by D'Hondt's method.

    >>> shared([4000, 1000, 90])
    [8, 2, 0]
    """
    shares = [0] * len(lengths)
    for _ in range(LEAST_UNITS):
        quotients = [(size - GAP) / (n + 1) for size, n in zip(lengths, shares, strict=True)]
        shares[quotients.index(max(quotients))] += 1
    return shares


def num_missing(lengths: Sequence[int]) -> int:
    """Least number of tokens by which texts must be longer for enough segments; 0 if none.

    >>> num_missing([3231]), num_missing([3232]), num_missing([2000, 100])
    (1, 0, 1164)
    """
    room = 2 * SEGMENT
    shares = [max(length - GAP, 0) // room for length in lengths]
    needed = LEAST_UNITS - sum(shares)
    if needed <= 0:
        return 0
    first = [GAP + room * (n + 1) - size for n, size in zip(shares, lengths, strict=True)]
    costs = heapq.merge(*([cost] + [room] * needed for cost in first))
    return sum(islice(costs, needed))


def _has_first_case(side: Encoded, frequencies: Frequencies, is_causal: bool) -> bool:
    """Whether some measured query is a case of attention to the first token."""
    ids_1N, is_content_1N = np.array([side.ids], np.int64), ~np.array([side.is_special], bool)
    if is_causal:
        numbers = (frequencies.counts(ids_1N), is_content_1N, frequencies.is_rare(ids_1N))
        rarest_1Q2 = rarest_so_far(*map(torch.from_numpy, numbers))
    else:
        rarest_12 = torch.from_numpy(frequencies.rarest(ids_1N, is_content_1N))
        rarest_1Q2 = rarest_12[:, None].expand(-1, len(side.ids), -1)
    is_case_Q = first_cases(rarest_1Q2, is_causal)[0]
    return any(side.measured(is_case_Q.tolist()))
