r"""The kernel of blocks: weights by torch's operations, and statistics read from them.

It takes every model, device and number format, and passes gradients. Weights are computed a block
at a time: rows of the batch, heads and queries.

$$A_h = \mathrm{softmax}(s\,Q_h K_h^\top + \text{mask})$$
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import final

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import repeat_kv

from headcount.tap.attention_interface import eager_function
from headcount.tap.call import Call
from headcount.tap.listener import KEYS, Block, Counted, Reduction, Statistics
from headcount.tap.seen_keys import STRIPS, IntervalMask, MaskFacts, additive

Cut = tuple[slice, slice, slice]
"""A block's rows of the batch, heads and queries."""


@final
class AttentionCall:
    """The arguments of one attention call, and its weights, a block at a time.

    Empty queries, from which all keys are blocked, have weights of zero.
    """

    def __init__(
        self,
        call: Call,
        facts: MaskFacts | None,
        empty: Tensor | None = None,
        is_eager: bool = False,
    ) -> None:
        self.module, self.query, self.key, self.value, self.mask = call.tensors
        self.kwargs = call.kwargs
        self.dtype = torch.promote_types(self.query.dtype, torch.float32)
        self.scaling = self.kwargs.get("scaling") or self.query.shape[-1] ** -0.5
        self.facts, self.empty, self.is_eager = facts, empty, is_eager
        self.seen = None if facts is None else facts.seen

    @cached_property
    def bias(self) -> Tensor | None:
        """The mask in a form that is added to scores."""
        if self.mask is None or self.facts is None:
            return None
        return self.facts.bias(self.mask, self.dtype)

    def repeated(self, tensor: Tensor) -> Tensor:
        """Key or value heads, each repeated for the queries that share it."""
        return repeat_kv(tensor, self.query.shape[1] // tensor.shape[1])

    @cached_property
    def scaled_keys_BHDK(self) -> Tensor:
        """Keys, scaled and transposed; BLAS accepts the transpose directly."""
        key = self.repeated(self.key).to(self.dtype)
        if key.requires_grad:
            return (key.contiguous() * self.scaling).transpose(-1, -2)
        scaled = torch.empty(key.shape, dtype=key.dtype, device=key.device)
        # One pass scales and makes contiguous; autograd does not allow `out`.
        return torch.mul(key, self.scaling, out=scaled).transpose(-1, -2)

    def weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights of a block; by the model's own eager function if it needs that."""
        return (self._eager_weights if self.is_eager else self._weights)(rows, heads, queries)

    def _weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """Softmax of the scaled, soft-capped, biased and masked scores of a block.

        The keys outside of the returned slice are seen by no query of the block.
        """
        keys, edges = slice(0, self.key.shape[2]), None
        if self.seen is not None:
            keys, edges = self.seen.of_block(rows, queries)
        scores = self.scores(rows, heads, queries, keys)
        if edges is None and self.bias is not None:
            scores = scores.add_(cut(self.bias, rows, heads, queries))
        for edge in edges or ():
            assert self.mask is not None
            hidden = additive(cut(self.mask, rows, heads, queries, edge), self.dtype)
            scores[..., edge.start - keys.start : edge.stop - keys.start].add_(hidden)
        return scores.softmax(-1), keys

    def scores(self, rows: slice, heads: slice, queries: slice, keys: slice) -> Tensor:
        """The scaled, soft-capped and biased scores of a block, before its mask."""
        scores = (
            self.query[rows, heads, queries].to(self.dtype)
            @ self.scaled_keys_BHDK[rows, heads, :, keys]
        )
        if (cap := self.kwargs.get("softcap")) is not None:
            # The last step is not in place: tanh's gradient needs its result
            scores = scores.div_(cap).tanh_() * cap
        if (position_bias := self.kwargs.get("position_bias")) is not None:
            scores = scores.add_(cut(position_bias, rows, heads, queries, keys))
        return scores

    def _eager_weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights as the model's own eager function computes them, for all heads of a block."""
        eager = eager_function(self.module)
        bias = None if self.bias is None else cut(self.bias, rows, heads, queries)
        kwargs = self.kwargs
        if (position_bias := kwargs.get("position_bias")) is not None:
            kwargs = kwargs | {"position_bias": cut(position_bias, rows, heads, queries)}
        query, key, value = self.query[rows, :, queries], self.key[rows], self.value[rows]
        _, weights = eager(self.module, query, key, value, bias, **kwargs)
        return weights.to(self.dtype), slice(0, key.shape[2])


def blocks(call: AttentionCall, size: int, whole_heads: bool) -> Iterator[Cut]:
    """Cuts of at most `size` weights: complete rows if they fit, else heads, else queries."""
    batch, num_heads, num_queries = call.query.shape[:3]
    num_keys = call.key.shape[2]
    per_head = max(1, num_queries * num_keys)
    heads = num_heads if whole_heads else max(1, min(num_heads, size // per_head))
    rows = max(1, size // (per_head * num_heads)) if heads == num_heads else 1
    queries = max(1, min(num_queries, size // (heads * num_keys)))
    if call.seen is not None and call.seen.is_narrow:
        queries = min(queries, -(-num_queries // STRIPS))
        at_once = max(1, size // (queries * num_keys))
        heads = -(-num_heads // -(-num_heads // at_once))  # alike in all blocks
    for row in range(0, batch, rows):
        for head in range(0, num_heads, heads):
            for query in range(0, num_queries, queries):
                yield (
                    slice(row, row + rows),
                    slice(head, head + heads),
                    slice(query, query + queries),
                )


def cut(
    bias: Tensor, rows: slice, heads: slice, queries: slice, keys: slice = slice(None)
) -> Tensor:
    """A block of a bias that may have size 1 along each axis."""
    if isinstance(bias, IntervalMask):
        return bias.block(rows, queries, keys)
    parts = (
        part if size > 1 else slice(None)
        for part, size in zip((rows, heads, queries, keys), bias.shape, strict=True)
    )
    return bias[tuple(parts)]


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

    def begin(self, call: AttentionCall, asked: Statistics, size: int) -> "_AttendingInBlocks":
        """Begin a layer, in blocks of at most `size` weights."""
        return _AttendingInBlocks(call, asked, size)

    def check(self) -> None:
        """Nothing is checked."""


@final
class _AttendingInBlocks:
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
