"""The kernel of one sweep: softmax and statistics of a block's scores in place, compiled by numba.

It reads each weight a few times while it is in the cache, where operations of torch would read it
from memory once each. It takes float32 on a CPU, without gradients; other calls are the blocks'.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import groupby
from threading import Barrier
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from packaging.version import Version
from torch import Tensor

from headcount.tap.kernel_blocks import AttentionCall, Cut, cut
from headcount.tap.listener import Block, Counted, Reduction, Statistics

STRIP = 2**19
"""Number of weights in a block of one head (2 MiB), which stays in the cache between the steps."""

QUERIES = 32
"""Least number of queries in a block of one head, if memory allows: products of fewer are slow."""

WHOLE = 2**20
"""Number of weights in a block of several heads: calls for fewer cost more than is spared."""

PARTS = 8
"""Number of parts that the queries of a long text are cut into, each summed up by one thread."""

NUMBA = "0.62"
"""The first version of numba whose machine code was compared with the blocks."""

_FOUND = (Reduction.PEAK, Reduction.PEAK_SPECIAL, Reduction.ENTROPY, Reduction.FIRST)
_KEYS = (Reduction.PEAK_KEY, Reduction.PEAK_LATER)


@final
@dataclass(frozen=True, eq=False)
class MachineCode:
    """The sweep as a function, or why there is none."""

    sweep: Callable[..., None] | None
    why: str | None = None
    """Why numba can't compile it; None if it can."""
    is_kept: bool = True
    """Whether later processes find it in a cache."""


@cache
def machine_code() -> MachineCode:
    """The sweep in machine code: compiled by the first process, read from a cache by later ones.

    A numba that is missing, too old, too new for NumPy or broken is a reason, not an error.
    """
    try:
        found = str(import_module("numba").__version__)
        if Version(found) < Version(NUMBA):
            return MachineCode(None, f"numba is {found}, and {NUMBA} or newer is needed")
        sweep, is_kept = import_module("headcount.tap.compiled").compiled()
        return MachineCode(sweep, is_kept=is_kept)
    except ModuleNotFoundError as error:
        if error.name == "numba":
            return MachineCode(None, "numba is not installed")
        return MachineCode(None, _broken(error))
    except Exception as error:  # whatever an installation that does not fit together raises
        return MachineCode(None, _broken(error))


def _broken(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return f"numba does not work here ({type(error).__name__}: {text})"


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
        is_content_BK = counted.is_content_BK
        penalty_BK = torch.zeros(is_content_BK.shape).masked_fill_(~is_content_BK, -torch.inf)
        penalty_BK[:, 0] = -torch.inf
        firsts = torch.stack([counted.first_content(0), counted.first_content(1)])
        return cls(
            penalty_BK.numpy(),
            counted.special_BS.numpy(),
            is_content_BK[:, 0].contiguous().numpy(),
            counted.is_measured_BQ.contiguous().numpy(),
            firsts.contiguous().numpy(),
            np.array(counted.offsets, np.int64),
        )


@final
class Sweep:
    """One compiled sweep over the scores of each block."""

    name = "sweep"
    left = frozenset[str]()

    def __init__(self) -> None:
        self._sweep: Any = machine_code().sweep
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
            and not call.is_eager
            and not has_gradient
        )

    def begin(self, call: AttentionCall, asked: Statistics, size: int) -> "Sweeping":
        """Begin a layer, in blocks of at most `size` weights."""
        assert asked.counted is not None
        if asked.counted not in self._facts:
            self._facts[asked.counted] = _Facts.of(asked.counted)
        return Sweeping(self._sweep, call, asked, self._facts[asked.counted], size)

    def check(self) -> None:
        """Nothing is checked."""


@final
class Sweeping:
    """One layer that is swept."""

    def __init__(
        self, sweep: Any, call: AttentionCall, asked: Statistics, facts: _Facts, size: int
    ) -> None:
        self._sweep, self._call, self._asked = sweep, call, asked
        batch, heads, queries, _ = call.query.shape
        keys = call.key.shape[2]
        strip = max(STRIP, QUERIES * keys)
        self.size = min(size, strip if queries * keys >= STRIP else WHOLE)
        self._parts = 1 if queries * keys < STRIP else PARTS
        self._spans_2BQ = _spans(call)
        self._given = (
            np.array([[[0]], [[keys]]], np.int32).repeat(queries, 2)
            if self._spans_2BQ is None
            else self._spans_2BQ,
            facts.penalty_BK,
            facts.special_BS,
            facts.has_content_first_B,
            facts.measured_BQ,
            facts.first_content_2B,
        )
        self._found = np.zeros(
            (len(_FOUND) + len(facts.offsets), batch, heads, queries), np.float32
        )
        self._keys = np.zeros((len(_KEYS), batch, heads, queries), np.int64)
        self._column = np.zeros((batch, heads, self._parts, keys), np.float32)
        self._results = (facts.offsets, self._found, self._keys, self._column)

    def over(self, cuts: Iterable[Cut], attend: Callable[[Cut], None]) -> None:
        """Attend to all blocks, in several threads if nobody reads the blocks.

        The blocks of a head and of a part of the queries are one thread's, one after another, which
        works alone: so no number depends on how many threads there are.
        """
        threads = torch.get_num_threads()
        if threads == 1 or self._asked.needs_map:
            for each in cuts:
                attend(each)
            return
        # Else each thread would make them; a mask of intervals is never made a bias
        _ = self._call.scaled_keys_BHDK, self._spans_2BQ is None and self._call.bias
        left = [[*unit] for _, unit in groupby(cuts, self._unit)]
        units, is_inference = iter(left), torch.is_inference_mode_enabled()

        def work() -> None:
            with torch.inference_mode(is_inference), torch.no_grad():
                for unit in units:
                    for each in unit:
                        attend(each)

        pool = _pool(threads, os.getpid())
        working = [pool.submit(work) for _ in range(threads)]
        try:
            wait(working, return_when=FIRST_EXCEPTION)
        finally:
            left.clear()  # where one fails, or Ctrl-C is pressed, the others end with their unit
            wait(working)
        for each in working:
            each.result()

    def _unit(self, cut: Cut) -> tuple[int, int, int]:
        """What the blocks of a thread have in common."""
        rows, heads, queries = cut
        return rows.start, heads.start, self._part(queries)

    def _part(self, queries: slice) -> int:
        """The part of the queries that a block belongs to."""
        return queries.start * self._parts // self._call.query.shape[2]

    def weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights of a block and their keys."""
        call, keys = self._call, slice(0, self._call.key.shape[2])
        if call.seen is not None:
            keys, _ = call.seen.of_block(rows, queries)
        scores = call.scores(rows, heads, queries, keys)
        if self._spans_2BQ is None and call.bias is not None:
            scores += cut(call.bias, rows, heads, queries, keys)
        scores = scores.contiguous()
        place = (rows.start, heads.start, queries.start, keys.start, self._part(queries))
        self._sweep(scores.numpy(), *self._given, place, *self._results)
        return scores, keys

    def fill(self, block: Block) -> None:
        """Fill in the products with the columns of a block."""
        if self._asked.masses_BHQC is not None:
            place = (block.rows, block.heads, block.queries)
            self._asked.masses_BHQC[place] = block.masses_BHQC

    def end(self) -> None:
        """Fill in what was found."""
        numbers = self._asked.numbers
        found: dict[Reduction, np.ndarray] = dict(
            zip((*_FOUND, *_KEYS), (*self._found[: len(_FOUND)], *self._keys), strict=True)
        )
        found[Reduction.DIAGONALS] = self._found[len(_FOUND) :]
        for each in numbers.keys() & found.keys():
            numbers[each].copy_(torch.from_numpy(found[each]))
        if Reduction.COLUMN in numbers:
            numbers[Reduction.COLUMN].copy_(torch.from_numpy(self._column).sum(2))


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Our threads, in each of which torch works alone.

    numba's own must not be entered by two threads, and none survives a fork.
    """
    pool, all_there = ThreadPoolExecutor(threads, f"headcount-sweep-{process}"), Barrier(threads)

    def alone() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # from here on it holds for this thread
        all_there.wait()

    for done in [pool.submit(alone) for _ in range(threads)]:
        done.result()
    torch.set_num_threads(threads)
    return pool


def _spans(call: AttentionCall) -> np.ndarray | None:
    """Where the keys of each query begin and end; None if all are seen, or if there are gaps."""
    if call.mask is None or call.facts is None:
        return None
    every = call.facts.every(call.mask)
    spans_2BQ = None if every is None else every.spans_2BQ
    return None if spans_2BQ is None else spans_2BQ.numpy()
