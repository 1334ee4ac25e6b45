"""The kernel of blocks: weights by torch's operations, and statistics read from them.

It takes every model, device and number format, and passes gradients.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import final

import torch
from torch import Tensor

from headcount.tap.attention_weights import AttentionCall, Cut, cut
from headcount.tap.listener import KEYS, Block, Counted, Reduction, Statistics

_PEAKS = frozenset({Reduction.PEAK, *KEYS})

_CONTENT = _PEAKS | {Reduction.PEAK_SPECIAL}
"""Reductions that distinguish content keys from special ones."""

_CHUNK = 64
"""Number of keys per chunk in the search for the largest of many weights."""


@final
class Blocks:
    """Operations of torch, one after another."""

    name = "blocks"
    left = frozenset[str]()

    def takes(self, call: AttentionCall, statistics: Statistics) -> bool:
        """Every attention call."""
        return True

    def begin(self, call: AttentionCall, asked: Statistics, size: int) -> "AttendingInBlocks":
        """Begin a layer, in blocks of at most `size` weights."""
        return AttendingInBlocks(call, asked, size)

    def check(self) -> None:
        """Nothing is checked."""


@final
class AttendingInBlocks:
    """One layer, whose weights are read once they are there."""

    def __init__(self, call: AttentionCall, asked: Statistics, size: int) -> None:
        self._call, self._asked, self.size = call, asked, size

    def over(self, cuts: Iterable[Cut], attend: Callable[[Cut], None]) -> None:
        """Attend to all blocks, one after another."""
        for each in cuts:
            attend(each)

    def weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights of a block and their keys."""
        weights, keys = self._call.weights(rows, heads, queries)
        if self._call.empty is not None:
            weights = weights.masked_fill(cut(self._call.empty, rows, heads, queries), 0)
        return weights, keys

    def fill(self, block: Block) -> None:
        """Fill in the statistics of a block."""
        fill(self._asked, block)

    def end(self) -> None:
        """Nothing is left."""


def fill(statistics: Statistics, block: Block) -> None:
    """Fill in the statistics of one block, without its padding.

    Its weights are overwritten if nobody reads them afterwards.
    """
    if statistics.counted is not None:
        for part in without_padding(statistics.counted, block):
            _Part(statistics, statistics.counted, part).fill()


def without_padding(counted: Counted, block: Block) -> Iterator[Block]:
    """A block in parts that end with the last token of their longest row."""
    first_row, first_query = block.rows.start, block.queries.start
    for rows, num_queries, num_keys in counted.parts(block.rows):
        queries = slice(first_query, min(block.queries.stop, num_queries))
        if first_query >= queries.stop or num_keys <= block.first_key:
            continue
        at = slice(rows.start - first_row, rows.stop - first_row)
        part = (at, slice(None), slice(queries.stop - first_query))
        weights, masses = block.seen_BHQK[part], block.masses_BHQC[part]
        weights = weights[..., : num_keys - block.first_key]
        its = (block.layer, rows, block.heads, queries, weights, masses)
        yield Block(*its, block.first_key, num_keys)


@final
class _Part:
    """A part of a block, whose weights are reduced."""

    def __init__(self, statistics: Statistics, counted: Counted, block: Block) -> None:
        self.statistics, self.counted, self.block = statistics, counted, block
        self.numbers, self.weights = statistics.numbers, block.seen_BHQK
        self.place = (block.rows, block.heads, block.queries)

    def fill(self) -> None:
        """Fill in what was asked for."""
        weights, place, numbers = self.weights, self.place, self.numbers
        if Reduction.FIRST in numbers and self.block.first_key == 0:
            numbers[Reduction.FIRST][place] = weights[..., 0]
        if Reduction.NONE in numbers:
            numbers[Reduction.NONE][place] = 1 - weights.sum(-1)
        if self.statistics.masses_BHQC is not None:
            self.statistics.masses_BHQC[place] = self.block.masses_BHQC
        if Reduction.DIAGONALS in numbers:
            self._diagonals()
        if Reduction.ENTROPY in numbers:
            logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_()
            entropy_BHQ = numbers[Reduction.ENTROPY][place]
            entropy_BHQ -= logs.mul_(weights).sum(-1)
        if Reduction.COLUMN in numbers:
            column_BHK = numbers[Reduction.COLUMN][*place[:2], self.block.keys]
            column_BHK += self._measured().sum(-2)
        if numbers.keys() & _CONTENT:
            self._peaks()

    def _measured(self) -> Tensor:
        """The weights of the block, 0 where the query is padding or context."""
        counted, rows, queries = self.counted, self.block.rows, self.block.queries
        if counted.is_measured_BQ is counted.is_attending_BQ and not counted.has_padding:
            return self.weights
        return self.weights * counted.is_measured_BQ[rows, queries][:, None, :, None]

    def _diagonals(self) -> None:
        """The weights at each of the offsets; 0 where there is no key that is seen."""
        key_QO, is_key_QO = self.counted.near(self.block.queries, self.block.keys)
        near_BHQO = (
            self.weights.gather(-1, key_QO.expand(*self.weights.shape[:2], -1, -1)) * is_key_QO
        )
        self.numbers[Reduction.DIAGONALS][:, *self.place] = near_BHQO.movedim(-1, 0)

    def _peaks(self) -> None:
        """The largest weights on special and on content keys."""
        weights, numbers, place = self.weights, self.numbers, self.place
        where = (self.block.rows, self.block.keys)
        if Reduction.PEAK_SPECIAL in numbers:
            rows, keys = self.counted.special_keys(*where)
            special_NHQ = weights[rows, :, :, keys]
            index_NHQ = rows[:, None, None].expand_as(special_NHQ)
            numbers[Reduction.PEAK_SPECIAL][place] = weights.new_zeros(
                weights.shape[:3]
            ).scatter_reduce(0, index_NHQ, special_NHQ, "amax")
        if not numbers.keys() & _PEAKS:
            return
        first = self._first()
        rows, keys = self.counted.special_keys(*where, first is not None)
        hidden_NHQ = weights[rows, :, :, keys] if self.statistics.needs_map else None
        weights[rows, :, :, keys] = -1
        peak = self._peak_keys(first) if numbers.keys() & KEYS else weights.amax(-1)
        if Reduction.PEAK in numbers:
            numbers[Reduction.PEAK][place] = peak.clamp_min(0)
        if hidden_NHQ is not None:
            weights[rows, :, :, keys] = hidden_NHQ

    def _first(self) -> Tensor | None:
        """The weight on the first token, -1 where it is special; None if it always is."""
        counted, block = self.counted, self.block
        if block.first_key > 0 or not counted.has_content_first or not self.numbers.keys() & KEYS:
            return None
        return self.weights[..., 0].masked_fill(counted.is_first_special_B11[block.rows], -1)

    def _peak_keys(self, first: Tensor | None) -> Tensor:
        """Find the keys of the largest weights, with and without the first token, in one search."""
        numbers = self.numbers
        peak, key = peaks(self.weights)
        if Reduction.PEAK_LATER in numbers:
            numbers[Reduction.PEAK_LATER][self.place] = self._key(peak, key, begin=1)
        if first is not None:
            key = key.masked_fill(first >= peak, 0)
            peak = torch.maximum(peak, first)
        if Reduction.PEAK_KEY in numbers:
            numbers[Reduction.PEAK_KEY][self.place] = self._key(peak, key)
        return peak

    def _key(self, peak: Tensor, key: Tensor, begin: int = 0) -> Tensor:
        """Keys of the largest weights. If these are 0, it is the first content key, seen or not."""
        block = self.block
        if not block.is_partial:
            return key
        content_B = self.counted.first_content(begin)[block.rows]
        return torch.where(peak > 0, key + block.first_key, content_B[:, None, None])


def peaks(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Largest weight and its first key. With many keys, the largest chunk is found first.

    torch's `max` with an index is not vectorised; `amax` is, and about twelve times faster.
    """
    num_keys = weights.shape[-1]
    if num_keys < 4 * _CHUNK:
        return weights.max(-1)
    whole = num_keys // _CHUNK * _CHUNK
    chunks = weights[..., :whole].unflatten(-1, (-1, _CHUNK))
    peak, chunk = chunks.amax(-1).max(-1)
    index = chunk[..., None, None].expand(*chunk.shape, 1, _CHUNK)
    key = chunk * _CHUNK + chunks.gather(-2, index).squeeze(-2).argmax(-1)
    if whole == num_keys:
        return peak, key
    rest_peak, rest_key = weights[..., whole:].max(-1)
    return torch.maximum(peak, rest_peak), torch.where(rest_peak > peak, rest_key + whole, key)
