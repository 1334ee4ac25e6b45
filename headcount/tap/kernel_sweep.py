"""The kernel of one sweep: softmax and statistics of a block's scores in place, compiled by numba.

It reads each weight a few times while it is in the cache, where operations of torch would read it
from memory once each. It takes float32 on a CPU, without gradients; other calls are the blocks'.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from headcount.tap.asked import Counted, Reduction, Statistics
from headcount.tap.attention_weights import AttentionCall, cut
from headcount.tap.block import Block

STRIP = 2**18
"""Number of weights in a block of one head (1 MiB), which stays in the cache between the steps."""

WHOLE = 2**20
"""Number of weights in a block of several heads: calls for fewer cost more than is spared."""

UNITS = 16
"""Least number of units of work in a block, if it is large enough for as many."""

_FOUND = (Reduction.PEAK, Reduction.PEAK_SPECIAL, Reduction.ENTROPY, Reduction.FIRST)
_KEYS = (Reduction.PEAK_KEY, Reduction.PEAK_LATER)


@final
@dataclass(frozen=True, eq=False)
class _Facts:
    """What the sweep has to know of a batch's tokens."""

    penalty_BK: np.ndarray
    """Minus infinity where no largest weight is looked for, and at the first token; else 0."""
    special_BS: np.ndarray
    """The special keys of each row; -1 after the last."""
    has_content_first_B: np.ndarray
    measured_BQ: np.ndarray
    first_content_2B: np.ndarray
    """The first content key of each row, from the first and from the second token on."""
    offsets: np.ndarray

    @classmethod
    def of(cls, counted: Counted) -> "_Facts":
        """The facts of the tokens that count."""
        is_content_BK, is_key_BK = counted.is_content_BK, counted.is_key_BK
        penalty_BK = torch.zeros(is_content_BK.shape).masked_fill_(~is_content_BK, -torch.inf)
        penalty_BK[:, 0] = -torch.inf
        is_special_BK = is_key_BK & ~is_content_BK
        most = int(is_special_BK.sum(1).max())
        key_BK = torch.arange(is_key_BK.shape[1]).where(is_special_BK, -1)
        firsts = torch.stack([counted.first_content(0), counted.first_content(1)])
        return cls(
            penalty_BK.numpy(),
            key_BK.topk(most, 1).values.int().contiguous().numpy(),
            is_content_BK[:, 0].contiguous().numpy(),
            counted.is_measured_BQ.numpy(),
            firsts.numpy(),
            np.array(counted.offsets, np.int64),
        )


@final
class Sweep:
    """One compiled sweep over the scores of each block."""

    name = "sweep"

    def __init__(self) -> None:
        from headcount.tap.compiled import sweep

        self._sweep: Any = sweep
        self._facts = WeakKeyDictionary[Counted, _Facts]()

    def takes(self, call: AttentionCall, statistics: Statistics) -> bool:
        """Whether the kernel can compute an attention call."""
        has_gradient = torch.is_grad_enabled() and any(
            each.requires_grad for each in (call.query, call.key, call.value)
        )
        return (
            statistics.counted is not None
            and call.dtype == torch.float32
            and call.query.device.type == "cpu"
            and call.empty is None
            and not has_gradient
        )

    def size(self, call: AttentionCall, size: int) -> int:
        """Number of weights in a block, at most `size`."""
        num_weights = call.query.shape[2] * call.key.shape[2]
        return min(size, STRIP if num_weights >= STRIP else WHOLE)

    def weights(
        self, call: AttentionCall, rows: slice, heads: slice, queries: slice, asked: Statistics
    ) -> tuple[Tensor, slice]:
        """The weights of a block and their keys; fills in all statistics but products."""
        assert asked.counted is not None
        keys = slice(0, call.key.shape[2])
        if call.seen is not None:
            keys, _ = call.seen.of_block(rows, queries)
        scores = call.scores(rows, heads, queries, keys).contiguous()
        num_queries, num_keys = scores.shape[2:]
        spans_2BQ = _spans(call, rows, queries, keys, num_queries)
        if spans_2BQ is None:
            assert call.bias is not None
            scores += cut(call.bias, rows, heads, queries, keys)
            spans_2BQ = np.zeros((2, 1, num_queries), np.int32)
            spans_2BQ[1] = num_keys
        facts = self._facts_of(asked.counted)
        scores_UQK = scores.view(-1, num_queries, num_keys)
        parts = max(1, min(num_queries, -(-UNITS // len(scores_UQK))))
        size = -(-num_queries // parts)
        found = np.empty((4 + len(facts.offsets), *scores_UQK.shape[:2]), np.float32)
        found_keys = np.empty((2, *scores_UQK.shape[:2]), np.int64)
        column = np.zeros((len(scores_UQK), parts, num_keys), np.float32)
        arguments = (
            scores_UQK.numpy(),
            spans_2BQ,
            facts.penalty_BK[rows],
            facts.special_BS[rows],
            facts.has_content_first_B[rows],
            facts.measured_BQ[rows, queries],
            facts.first_content_2B[:, rows],
        )
        sizes = (scores.shape[1], queries.start, keys.start, size)
        results = (facts.offsets, found, found_keys, column)
        self._in_threads(len(scores_UQK) * parts, arguments, sizes, results)
        _put(asked, (rows, heads, queries), keys, scores.shape[:3], results)
        return scores, keys

    def fill(self, statistics: Statistics, block: Block) -> None:
        """Fill in the products with the columns of a block."""
        if statistics.masses_BHQC is not None:
            place = (block.rows, block.heads, block.queries)
            statistics.masses_BHQC[place] = block.masses_BHQC

    def _facts_of(self, counted: Counted) -> _Facts:
        if counted not in self._facts:
            self._facts[counted] = _Facts.of(counted)
        return self._facts[counted]

    def _in_threads(
        self, num_units: int, arguments: tuple, sizes: tuple[int, ...], results: tuple
    ) -> None:
        """Sweep all units, each thread its share."""
        threads = min(torch.get_num_threads(), num_units)
        share = -(-num_units // threads)
        shares = [(at, min(at + share, num_units)) for at in range(0, num_units, share)]
        if threads == 1:
            self._sweep(*arguments, (0, num_units, *sizes), *results)
            return
        jobs = [
            _pool(threads, os.getpid()).submit(self._sweep, *arguments, (*each, *sizes), *results)
            for each in shares
        ]
        for job in jobs:
            job.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Our threads: numba's own must not be entered by two threads, and don't survive a fork."""
    return ThreadPoolExecutor(threads, f"headcount-sweep-{process}")


def _spans(
    call: AttentionCall, rows: slice, queries: slice, keys: slice, num_queries: int
) -> np.ndarray | None:
    """Where the keys of each query of a block begin and end; None if there are gaps or numbers."""
    if call.mask is None or call.facts is None:
        spans = np.zeros((2, 1, num_queries), np.int32)
        spans[1] = keys.stop
        return spans
    every = call.facts.every(call.mask)
    if every is None or every.spans_2BQ is None:
        return None
    spans_2BQ = every.spans_2BQ
    its = spans_2BQ[:, rows if spans_2BQ.shape[1] > 1 else slice(None), queries] - keys.start
    return its.clamp_min(0).contiguous().numpy()


def _put(
    asked: Statistics,
    place: tuple[slice, ...],
    keys: slice,
    shape: torch.Size,
    results: tuple[np.ndarray, ...],
) -> None:
    """Put what was found in a block in its place."""
    _, found, found_keys, column = (torch.from_numpy(each) for each in results)
    numbers = asked.numbers
    for each, its in (*zip(_FOUND, found, strict=False), *zip(_KEYS, found_keys, strict=True)):
        if each in numbers:
            numbers[each][place] = its.view(shape)
    if Reduction.DIAGONALS in numbers:
        numbers[Reduction.DIAGONALS][:, *place] = found[len(_FOUND) :].view(-1, *shape)
    if Reduction.COLUMN in numbers:
        its = column.sum(1).view(*shape[:2], -1)
        numbers[Reduction.COLUMN][*place[:2], keys] += its
