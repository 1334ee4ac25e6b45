"""The compiled sweep: softmax and statistics of scores, in place, one query after another.

Loops here are written so that LLVM vectorises them: largest numbers are found as integers that are
in the same order, since maxima of floats are not; the exponential is a polynomial; all operands of
a loop are of 32 bits. Nothing may assume that there is no infinity or NaN, which must reach the
weights to be found there. A row of scores stays in the cache between the loops over it. Arrays are
parameters one by one, since numba compiles no class of ours.

It needs numba; `kernel_sweep.machine_code` imports it. What is compiled is kept beside this file or
in the user's cache folder.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

FLAGS = {"reassoc", "contract", "nsz", "arcp"}
"""What compiled arithmetic may assume: the order of sums does not matter."""

_LOG2E, _HIGH, _LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_C0, _C1, _C2 = (
    np.float32(1.9875691500e-4),
    np.float32(1.3981999507e-3),
    np.float32(8.3334519073e-3),
)
_C3, _C4, _C5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(0.5)
_instruction: Any = intrinsic
_inner: Any = njit(fastmath=FLAGS)
"""Decorators of what the sweep consists of: a compiler reads it, and nobody else calls it."""

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_LEAST = np.float32(-87)
"""Exponentials of less are 0."""
_NONE = np.float32(-np.inf)
_FAR, _FIRST = np.int32(2**31 - 1), np.int32(-(2**31))
_BITS = ir.IntType(32)


def _flipped(builder: Any, bits: Any) -> Any:
    """Bits of a float as an integer in the same order, and back."""
    sign = builder.ashr(bits, ir.Constant(_BITS, 31))
    return builder.xor(bits, builder.and_(sign, ir.Constant(_BITS, 2**31 - 1)))


@_instruction
def _ordered(context, number):  # noqa: ANN001
    """An integer for a float, in the same order."""

    def code(context, builder, signature, args):  # noqa: ANN001
        return _flipped(builder, builder.bitcast(args[0], _BITS))

    return types.int32(types.float32), code


@_instruction
def _of_ordered(context, integer):  # noqa: ANN001
    """The float of such an integer."""

    def code(context, builder, signature, args):  # noqa: ANN001
        return builder.bitcast(_flipped(builder, args[0]), ir.FloatType())

    return types.float32(types.int32), code


@_instruction
def _larger(context, a, b):  # noqa: ANN001
    """The larger of two integers."""

    def code(context, builder, signature, args):  # noqa: ANN001
        return builder.select(builder.icmp_signed(">", *args), *args)

    return types.int32(types.int32, types.int32), code


@_instruction
def _two_to(context, integer):  # noqa: ANN001
    """2 to the power of an integer that is given as a float."""

    def code(context, builder, signature, args):  # noqa: ANN001
        exponent = builder.add(builder.fptosi(args[0], _BITS), ir.Constant(_BITS, 127))
        return builder.bitcast(builder.shl(exponent, ir.Constant(_BITS, 23)), ir.FloatType())

    return types.float32(types.float32), code


@_inner
def _exp(number):
    """The exponential of a number that is not positive, to 1e-7 of its size.

    Reference: Cephes, expf.c, https://www.netlib.org/cephes/
    """
    x = _LEAST if number < _LEAST else number
    power = np.floor(x * _LOG2E + _HALF)
    r = x - power * _HIGH - power * _LOW
    sum_ = ((((_C0 * r + _C1) * r + _C2) * r + _C3) * r + _C4) * r + _C5
    exponential = (sum_ * r * r + r + _ONE) * _two_to(power)
    return _ZERO if number < _LEAST else exponential


@_inner
def _largest(row, penalty):
    """The largest score, and the largest after penalties."""
    top, best = _FIRST, _FIRST
    for k in range(len(row)):
        top = _larger(top, _ordered(row[k]))
        best = _larger(best, _ordered(row[k] + penalty[k]))
    return _of_ordered(top), _of_ordered(best)


@_inner
def _first_of(row, penalty, best):
    """The first key with a score after penalties; 0 if there is none."""
    found = -_FAR
    for k in range(len(row)):
        found = _larger(found, np.int32(-k) if row[k] + penalty[k] == best else -_FAR)
    return 0 if found == -_FAR else -found


@_inner
def _exponentials(row, top):
    """Make scores exponentials; their sum, and their sum times the scores."""
    total, weighted = _ZERO, _ZERO
    for k in range(len(row)):
        z = row[k] - top
        x = _exp(z)
        row[k] = x
        total += x
        weighted += x * z if x > _ZERO else _ZERO
    return total, weighted


@_inner
def _scale(row, factor):
    for k in range(len(row)):
        row[k] *= factor


@_inner
def _scale_and_add(row, factor, column):
    for k in range(len(row)):
        row[k] *= factor
        column[k] += row[k]


@_inner
def _query(row, low, high, penalty, first, begins, content, found, keys):
    """Softmax of one query's scores; its largest weights, their keys, and its entropy."""
    row[:low] = _ZERO
    row[high:] = _ZERO
    if low >= high:  # nothing is seen
        row[:] = _ONE / np.float32(len(row))
        found[0], found[2], keys[0], keys[1] = _ZERO, _ZERO, content[0], content[1]
        return _ONE, low, high
    seen = row[low:high]
    top, best = _largest(seen, penalty[low:high])
    later = first + low + _first_of(seen, penalty[low:high], best)
    start = row[0] if begins and low == 0 else _NONE
    total, weighted = _exponentials(seen, top)
    scale = _ONE / total
    is_weightless = best - top < _LEAST  # as if no content key were seen
    keys[1] = content[1] if is_weightless else later
    largest = start if start >= best else best
    keys[0] = 0 if start >= best and start > _NONE else content[0] if is_weightless else later
    found[0] = _exp(largest - top) * scale
    found[2] = np.log(total) - weighted * scale
    return scale, low, high


def _sweep(
    scores, spans, penalty, special, flags, measured, content, place, offsets, found, keys, column
):
    """Make the scores of a block weights; fill in statistics.

    Weights are added up by key apart for each part of the queries.
    """
    first_row, first_head, first_query, first_key, part = place
    rows, heads, num_queries, num_keys = scores.shape
    last = first_key + num_keys
    for head_of_row in range(rows * heads):
        row, head = first_row + head_of_row // heads, first_head + head_of_row % heads
        of_mask = row if len(spans[0]) > 1 else 0
        added = column[row, head, part, first_key:last]
        for index in range(num_queries):
            q = first_query + index
            weights = scores[head_of_row // heads, head_of_row % heads, index]
            scale, low, high = _query(
                weights,
                max(0, spans[0, of_mask, q] - first_key),
                max(0, spans[1, of_mask, q] - first_key),
                penalty[row, first_key:last],
                first_key,
                flags[row] and first_key == 0,
                content[:, row],
                found[:3, row, head, q],
                keys[:, row, head, q],
            )
            if measured[row, q]:
                _scale_and_add(weights[low:high], scale, added[low:high])
                if low >= high:
                    _scale_and_add(weights, scale, added)
            else:
                _scale(weights[low:high], scale)
            its = found[:, row, head, q]
            for s in range(special.shape[1]):
                k = special[row, s] - first_key
                if 0 <= k < num_keys and weights[k] > its[1]:
                    its[1] = weights[k]
            its[3] = weights[0] if first_key == 0 else _ZERO
            for o in range(len(offsets)):
                k = q + offsets[o] - first_key
                its[4 + o] = weights[k] if 0 <= k < num_keys else _ZERO


_SIGNATURE = (
    "void(float32[:,:,:,::1], int32[:,:,::1], float32[:,::1], int32[:,::1], boolean[::1], "
    "boolean[:,::1], int64[:,::1], UniTuple(int64, 5), int64[::1], float32[:,:,:,::1], "
    "int64[:,:,:,::1], float32[:,:,:,::1])"
)


def compiled() -> tuple[Callable[..., None], bool]:
    """The sweep in machine code, and whether a cache holds it for later processes."""
    options: dict[str, Any] = {"nogil": True, "fastmath": FLAGS}
    try:
        return njit(_SIGNATURE, cache=True, **options)(_sweep), True
    except (RuntimeError, OSError):  # no folder can be written
        return njit(_SIGNATURE, **options)(_sweep), False
