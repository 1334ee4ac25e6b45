"""The sweep for GPUs, in Triton: statistics of scores that never leave the chip.

A program takes a tile of queries of one head, and the keys that they see a tile at a time. Given
the log-sum-exp L of a query's scores z, its weights are exp(z - L), and nothing is rescaled. Sums
over queries are integers in units of 2^-40, which add up to the same in any order. What belongs to
listed pairs is computed from products of their own. A pointer that is None is not compiled; no
function returns one, and tuples are flat, as triton 3.6 needs. So a kernel has as many parameters
as it reads arrays: no value of ours can hold several.

It needs triton, which CUDA builds of torch bring along.
"""
# pyright: reportMissingImports=false

from typing import Any

import triton
import triton.language as tl

_jit: Any = triton.jit
"""Decorator of what kernels consist of: a compiler reads it, and nobody else calls it."""

UNIT = 2.0**-40
"""The unit of sums over queries, of which 2^23 fit."""

_UNITS = tl.constexpr(2.0**40)
_LEAST = tl.constexpr(-87.0)
"""Exponentials of less are 0."""
_FAR = tl.constexpr(2**31 - 1)
_NONE = tl.constexpr(-float("inf"))


@_jit
def _seen(products, row, k, spans, biases, starts):
    """Scores of products of a tile's rows and keys; minus infinity where such a key is not seen."""
    first, stop = spans
    scale, cap, position, position_h, position_q, position_k = biases[:6]
    mask, mask_b, mask_h, mask_q, mask_k = biases[6:]
    position_start, mask_start = starts
    scores = products * scale
    if cap is not None:  # its hyperbolic tangent
        scores = cap * (2 * tl.sigmoid(2 * scores / cap) - 1)
    is_seen = (k >= first) & (k < stop)
    if position is not None:
        at = position + position_start + row * position_q + k * position_k
        scores += tl.load(at, mask=is_seen, other=0).to(tl.float32)
    if mask is not None:
        at = mask + mask_start + row * mask_q + k * mask_k
        shown = tl.load(at, mask=is_seen, other=0)
        if shown.dtype == tl.int8:
            is_seen = is_seen & (shown != 0)
        else:
            scores += shown.to(tl.float32)
    return tl.where(is_seen, scores, _NONE)


@_jit
def _loaded(pointer, rows, stride, num_rows, dim, DIM: tl.constexpr):
    """Vectors of queries or keys, zeros where there is none."""
    d = tl.arange(0, DIM)
    is_there = ((rows >= 0) & (rows < num_rows))[:, None] & (d < dim)[None, :]
    return tl.load(
        pointer + rows[:, None].to(tl.int64) * stride + d[None, :], mask=is_there, other=0
    )


@_jit
def _scores(tile, biases, k, DIM: tl.constexpr, IS_INTERPRETED: tl.constexpr):
    """Scores of a tile of queries and a tile of keys."""
    query, row, spans, keys, starts = tile
    key, stride, num_keys, dim = keys
    first, stop = spans
    vectors = tl.trans(_loaded(key, k, stride, num_keys, dim, DIM))
    if IS_INTERPRETED:  # where products of bfloat16 are wrong
        products = tl.dot(query.to(tl.float32), vectors.to(tl.float32))
    else:
        products = tl.dot(query, vectors, input_precision="ieee")
    spans = (first[:, None], stop[:, None])
    return _seen(products, row[:, None], k[None, :], spans, biases, starts)


@_jit
def _pair(tile, biases, k, lse, DIM: tl.constexpr):
    """Weights of listed pairs: of a tile of queries, on a key for each."""
    query, row, spans, keys, starts = tile
    key, stride, num_keys, dim = keys
    vectors = _loaded(key, k, stride, num_keys, dim, DIM).to(tl.float32)
    products = tl.sum(query.to(tl.float32) * vectors, 1)
    scores = _seen(products, row, k, spans, biases, starts)
    return tl.where(scores > _NONE, tl.exp(scores - lse), tl.where(lse == lse, 0, lse))


@_jit
def _begin(queries, keys, seen, biases, QUERIES: tl.constexpr, DIM: tl.constexpr):
    """Row, head and queries of a program, whether these attend, and the tile of their scores."""
    query, query_b, query_h, query_n, heads, num_queries = queries
    key, key_b, key_h, key_n, shared, num_keys, dim = keys
    spans, spans_side, spans_b, attending = seen
    scale, cap, position, position_h, position_q, position_k = biases[:6]
    mask, mask_b, mask_h, mask_q, mask_k = biases[6:]
    unit = tl.program_id(1).to(tl.int64)
    b, h = unit // heads, unit % heads
    start, row = tl.program_id(0).to(tl.int64) * QUERIES, tl.arange(0, QUERIES)
    q = tl.program_id(0) * QUERIES + row
    vectors = _loaded(query + b * query_b + h * query_h, q, query_n, num_queries, dim, DIM)
    attends = tl.load(attending + b * num_queries + q, mask=q < num_queries, other=0) != 0
    first = tl.load(spans + b * spans_b + q, mask=attends, other=_FAR)
    stop = tl.load(spans + b * spans_b + spans_side + q, mask=attends, other=0)
    starts = (h * position_h + start * position_q, b * mask_b + h * mask_h + start * mask_q)
    its_keys = (key + b * key_b + (h // shared) * key_h, key_n, num_keys, dim)
    tile = (vectors, row, (first, stop), its_keys, starts)
    return (b, h, unit * num_queries + q, q), attends & (first < stop), tile


@_jit
def _range(tile, KEYS: tl.constexpr):
    """Where the keys begin and end that some query of a tile sees."""
    first, stop = tile[2]
    return tl.min(first) // KEYS * KEYS, tl.max(stop)


@_jit
def log_sums(
    queries, keys, seen, biases, lse,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr, IS_INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Log-sum-exp of each query's scores, where no operation of torch returns it."""
    place, attends, tile = _begin(queries, keys, seen, biases, QUERIES, DIM)
    b, h, at, q = place
    most = tl.full([QUERIES], _NONE, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    begin, end = _range(tile, KEYS)
    for start in range(begin, end, KEYS):
        scores = _scores(tile, biases, start + tl.arange(0, KEYS), DIM, IS_INTERPRETED)
        larger = tl.maximum(most, tl.max(scores, 1))
        shift = tl.where(larger > _NONE, larger, 0)
        total = total * tl.exp(most - shift) + tl.sum(tl.exp(scores - shift[:, None]), 1)
        most = larger
    found = tl.where(attends, most + tl.log(tl.where(attends, total, 1)), 0)
    tl.store(lse + at, found, mask=q < queries[5])


@_jit
def _store_pairs(place, attends, tile, biases, lse, listed, found, DIM: tl.constexpr):
    """Weights of listed pairs: on the first key, at offsets, and the largest on a special key."""
    b, h, at, q = place
    special, num_special, offsets, num_offsets, size = listed
    first, diagonals, peak_special = found
    if first is not None:
        tl.store(first + at, _pair(tile, biases, q * 0, lse, DIM), mask=attends)
    if diagonals is not None:
        for o in range(0, num_offsets):
            weight = _pair(tile, biases, q + tl.load(offsets + o), lse, DIM)
            tl.store(diagonals + o * size + at, weight, mask=attends)
    if peak_special is not None:
        largest = tl.zeros_like(lse)
        for s in range(0, num_special):
            k = q * 0 + tl.load(special + b * num_special + s)
            largest = tl.maximum(largest, _pair(tile, biases, k, lse, DIM))
        tl.store(peak_special + at, largest, mask=attends)


@_jit
def _larger(z, k, content, b, num_keys, tops):
    """The largest logarithms of weights on content keys so far: on the first token, and others."""
    first_z, later_z, later_key = tops
    if content is not None:
        is_content = tl.load(content + b * num_keys + k, mask=k < num_keys, other=0) != 0
        z = tl.where(is_content[None, :] & (z > _NONE), z, _NONE)
        first_z = tl.maximum(first_z, tl.max(tl.where(k[None, :] == 0, z, _NONE), 1))
        z = tl.where(k[None, :] == 0, _NONE, z)
        its_z, index = tl.max(z, 1, return_indices=True)
        is_larger = its_z > later_z
        later_key = tl.where(is_larger, tl.min(k) + index, later_key)
        later_z = tl.where(is_larger, its_z, later_z)
    return first_z, later_z, later_key


@_jit
def _store_peaks(place, attends, first_content, rows, found, tops):
    """The largest weight on content keys, and its keys with and without the first token.

    Without any weight it is the first content key, seen or not.
    """
    b, h, at, q = place
    first_z, later_z, later_key = tops
    peak, peak_key, peak_later = found
    is_later, begins = later_z >= _LEAST, (first_z >= later_z) & (first_z > _NONE)
    if peak is not None:
        z = tl.maximum(first_z, later_z)
        tl.store(peak + at, tl.where(z >= _LEAST, tl.exp(z), 0), mask=attends)
    if peak_key is not None:
        key = tl.where(is_later, later_key, tl.load(first_content + b))
        tl.store(peak_key + at, tl.where(begins, 0, key), mask=attends)
    if peak_later is not None:
        key = tl.where(is_later, later_key, tl.load(first_content + rows + b))
        tl.store(peak_later + at, key, mask=attends)


@_jit
def sweep(
    queries, keys, seen, biases, lse, contents, peaks, listed, pairs, sums, columns,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr, COLUMNS: tl.constexpr,
    IS_INTERPRETED: tl.constexpr, MASSES_HOW: tl.constexpr,
):  # fmt: skip
    """Fill in what is asked for of a tile of queries, whose weights pass by once."""
    place, attends, tile = _begin(queries, keys, seen, biases, QUERIES, DIM)
    b, h, at, q = place
    content, first_content, measured, rows = contents
    entropy, none, column, wrong, most_wrong = sums
    value, value_b, value_h, value_k, masses, masses_q, masses_c, num_columns = columns
    heads, num_queries, num_keys = queries[4], queries[5], keys[5]
    its_lse = tl.load(lse + at, mask=attends, other=0)
    _store_pairs(place, attends, tile, biases, its_lse, listed, pairs, DIM)
    counts = attends
    if measured is not None:
        counts = tl.load(measured + b * num_queries + q, mask=attends, other=0) != 0
    if masses is not None:
        value += b * value_b + h * value_h
    none_z = tl.full([QUERIES], _NONE, tl.float32)
    tops = (none_z, none_z, tl.zeros([QUERIES], tl.int32))
    total, weighted = tl.zeros([QUERIES], tl.float32), tl.zeros([QUERIES], tl.float32)
    mass, c = tl.zeros([QUERIES, COLUMNS], tl.float32), tl.arange(0, COLUMNS)
    begin, end = _range(tile, KEYS)
    for start in range(begin, end, KEYS):
        k = start + tl.arange(0, KEYS)
        z = _scores(tile, biases, k, DIM, IS_INTERPRETED) - its_lse[:, None]
        weights = tl.where(z > _NONE, tl.exp(z), 0)
        total += tl.sum(weights, 1)
        weighted += tl.sum(weights * tl.where(weights > 0, z, 0), 1)
        tops = _larger(z, k, content, b, num_keys, tops)
        if column is not None:
            units = (tl.sum(tl.where(counts[:, None], weights, 0), 0) * _UNITS).to(tl.int64)
            where = column + (b * heads + h) * num_keys + k
            tl.atomic_add(where, units, mask=k < num_keys, sem="relaxed")
        if masses is not None:
            vectors = _loaded(value, k, value_k, num_keys, num_columns, COLUMNS)
            mass += tl.dot(weights, vectors, input_precision=MASSES_HOW)
    if entropy is not None:
        tl.store(entropy + at, -weighted, mask=attends)
    if none is not None:
        tl.store(none + at, 1 - total, mask=attends)
    if content is not None:
        _store_peaks(place, attends, first_content, rows, peaks, tops)
    if masses is not None:
        is_there = attends[:, None] & (c < num_columns)[None, :]
        where = masses + at[:, None] * masses_q + c[None, :] * masses_c
        tl.store(where, mass, mask=is_there)
    if wrong is not None:
        differs = attends & (its_lse == its_lse) & (tl.abs(total - 1) > most_wrong)
        tl.atomic_add(wrong, tl.sum(differs.to(tl.int32)), sem="relaxed")
