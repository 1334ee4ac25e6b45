"""Listeners: what they ask of one layer's attention, and the blocks of it that they receive.

Statistics are what a kernel returns, for the tokens that count in them. A reduction has one of four
forms, and a kernel fills in those of the first three, a block at a time, so that nothing of the
size tokens x tokens has to be kept.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int32, Int64
from torch import Tensor
from torch.nn.functional import pad

from headcount.tap.anatomy import AttentionLayer

MAX_PARTS = 4
"""Largest number of parts that a block is cut into to spare the padding of shorter rows."""

MIN_PART = 2**14
"""Smallest number of weights of one head in a part: calls for fewer cost more than padding."""


@final
class Form(Enum):
    """What a reduction needs of a layer's weights."""

    QUERY = "a sum or maximum over the keys of each query"
    KEY = "a sum over the queries of each key"
    PAIRS = "the weights of listed pairs of a query and a key"
    MAP = "the map itself, which is read block by block"


@final
class Reduction(Enum):
    """What one layer's attention on one batch can be reduced to: what `Attention` offers."""

    PEAK = ("peak_BHQ", Form.QUERY)
    PEAK_KEY = ("peak_key_BHQ", Form.QUERY)
    PEAK_LATER = ("peak_later_BHQ", Form.QUERY)
    PEAK_SPECIAL = ("peak_special_BHQ", Form.PAIRS)
    ENTROPY = ("entropy_BHQ", Form.QUERY)
    DIAGONALS = ("diagonals_BHQO", Form.PAIRS)
    FIRST = ("first_BHQ", Form.PAIRS)
    NONE = ("none_BHQ", Form.QUERY)
    MASS = ("mass", Form.QUERY)
    NORM_MASS = ("norm_mass", Form.QUERY)
    OWN_SEGMENT = ("own_segment_BHQ", Form.QUERY)
    KINDS = ("kinds", Form.QUERY)
    COLUMN = ("column_BHK", Form.KEY)
    VALUE_NORM = ("value_norm_BHK", Form.KEY)
    ARC_HITS = ("arc_hits_AHD", Form.MAP)
    WORD_LOOKS = ("word_looks_HSO", Form.MAP)
    BESIDE = ("beside_BHQO", Form.MAP)
    GRID_MASS = ("grid_mass", Form.MAP)
    CLASS_WEIGHTS = ("class_weights_BHQT", Form.MAP)

    def __init__(self, offered: str, form: Form) -> None:
        self.offered, self.form = offered, form


COLUMNS = frozenset({Reduction.MASS, Reduction.NORM_MASS, Reduction.OWN_SEGMENT, Reduction.KINDS})
"""Reductions that are products with columns beside the values."""

KEYS = frozenset({Reduction.PEAK_KEY, Reduction.PEAK_LATER})
"""Reductions that are numbers of keys."""


@final
@dataclass(frozen=True, eq=False)
class Counted:
    """Which tokens count in the statistics of a batch's attention; the same in all its layers."""

    is_attending_BQ: Bool[Tensor, "batch query"]
    """Tokens that attend, without padding."""
    is_measured_BQ: Bool[Tensor, "batch query"]
    """Those among them whose weights are added up by key."""
    is_key_BK: Bool[Tensor, "batch key"]
    """Tokens attended to, without padding."""
    is_content_BK: Bool[Tensor, "batch key"]
    """Those among them where the largest weight is looked for; the others are special."""
    offsets: tuple[int, ...]
    """Listed pairs: keys at these distances from each query."""
    host: "Counted | None" = None
    """The same in main memory, where facts are found without waiting; None if these are there."""
    _found: dict[tuple[object, ...], Any] = field(default_factory=dict, init=False, repr=False)
    """What was found once of a place."""

    @property
    def known(self) -> "Counted":
        """The same in main memory."""
        return self.host or self

    @cached_property
    def has_content_first(self) -> bool:
        """Whether the first key of some row is content: models without a first special token."""
        return bool(self.known.is_content_BK[:, 0].any())

    @cached_property
    def has_padding(self) -> bool:
        """Whether some tokens that attend are padding."""
        return not bool(self.known.is_attending_BQ.all())

    @cached_property
    def is_first_special_B11(self) -> Bool[Tensor, "batch 1 1"]:
        """Rows whose first key is no content."""
        return ~self.is_content_BK[:, :1, None]

    @cached_property
    def special_BS(self) -> Int32[Tensor, "batch special"]:
        """Special keys of each row; -1 after the last."""
        is_special_BK = self.known.is_key_BK & ~self.known.is_content_BK
        most = int(is_special_BK.sum(1).max())
        key_BK = torch.arange(is_special_BK.shape[1], device=is_special_BK.device)
        key_BS = key_BK.where(is_special_BK, -1).topk(most, 1).values.int().contiguous()
        return key_BS.to(self.is_key_BK.device)

    def parts(self, rows: slice) -> list[tuple[slice, int, int]]:
        """Cuts of some rows, each with its number of queries and keys up to the last token.

        Batches are sorted by length, so that a few parts spare most of the padding. On a GPU calls
        cost more than padding, so there is one part.
        """
        place = (rows.start, rows.stop)
        if place not in self._found:
            self._found[place] = self._cut(rows)
        return self._found[place]

    def _cut(self, rows: slice) -> list[tuple[slice, int, int]]:
        is_query_BQ, is_key_BK = self.known.is_attending_BQ, self.known.is_key_BK
        stop = min(rows.stop, len(is_key_BK))
        num_weights = (stop - rows.start) * is_query_BQ.shape[1] * is_key_BK.shape[1]
        num_parts = max(1, min(MAX_PARTS, num_weights // MIN_PART))
        if self.is_key_BK.device.type != "cpu":
            num_parts = 1
        size = max(1, -(-(stop - rows.start) // num_parts))
        cuts = [slice(row, min(row + size, stop)) for row in range(rows.start, stop, size)]
        return [(cut, _longest(is_query_BQ[cut]), _longest(is_key_BK[cut])) for cut in cuts]

    def special_keys(self, rows: slice, keys: slice, first: bool = False) -> tuple[Tensor, ...]:
        """Row and position, counted from the first ones, of special tokens among some keys.

        Args:
            rows: the rows.
            keys: the keys.
            first: whether the first token is one of them, whatever it is.
        """
        place = (rows.start, rows.stop, keys.start, keys.stop, first)
        if place not in self._found:
            known, device = self.known, self.is_key_BK.device
            is_special_BK = known.is_key_BK[rows, keys] & ~known.is_content_BK[rows, keys]
            if first and keys.start == 0:
                is_special_BK[:, 0] = True
            found = is_special_BK.nonzero(as_tuple=True)
            self._found[place] = tuple(each.to(device) for each in found)
        return self._found[place]

    def near(self, queries: slice, keys: slice) -> tuple[Tensor, Tensor]:
        """The key at each of the offsets from some queries, and whether it is among some keys.

        Keys are counted from the first of these.
        """
        place = (queries.start, queries.stop, keys.start, keys.stop)
        if place not in self._found:
            device, num_keys = self.is_key_BK.device, keys.stop - keys.start
            position_Q1 = torch.arange(queries.start, queries.stop, device=device)[:, None]
            key_QO = position_Q1 + torch.tensor(self.offsets, device=device) - keys.start
            is_key_QO = (key_QO >= 0) & (key_QO < num_keys)
            self._found[place] = key_QO.clamp(0, num_keys - 1), is_key_QO
        return self._found[place]

    def first_content(self, begin: int) -> Int64[Tensor, " batch"]:
        """The first content key of each row from `begin` on; 0 if there is none."""
        is_content_BK = self.is_content_BK.long()
        is_content_BK[:, :begin] = 0
        return is_content_BK.argmax(1)


def _longest(is_token_BN: Tensor) -> int:
    """Number of tokens up to the last one of the longest row, at least 1."""
    positions = is_token_BN.any(0).nonzero()
    return int(positions[-1]) + 1 if len(positions) else 1


@final
@dataclass(frozen=True, eq=False)
class Statistics:
    """What a listener asks of one layer's attention: a kernel fills it in, block by block."""

    columns_BHKC: Float[Tensor, "batch head key column"] | None = None
    """Columns that the weights are multiplied with, beside the values."""
    counted: Counted | None = None
    """The tokens that count; None if nothing but columns is asked for."""
    numbers: Mapping[Reduction, Tensor] = field(default_factory=dict)
    """Reductions by query [batch, head, query], by key, or by listed pair [offset, ...]."""
    masses_BHQC: Float[Tensor, "batch head query column"] | None = None
    """The products with the columns."""
    needs_map: bool = True
    """Whether blocks are read afterwards, so that their weights must stay."""

    @classmethod
    def zeros(
        cls,
        counted: Counted,
        value_BHKD: Float[Tensor, "batch head key dim"],
        needs: Collection[Reduction],
        columns_BHKC: Tensor | None = None,
        needs_map: bool = False,
    ) -> "Statistics":
        """Room for those of some reductions that a kernel fills in; padding stays zero."""
        batch, num_heads, num_keys, _ = value_BHKD.shape
        per_query = (batch, num_heads, counted.is_attending_BQ.shape[1])
        zeros, by_query = value_BHKD.new_zeros, (Form.QUERY, Form.PAIRS)
        single = {each for each in needs if each.form in by_query} - COLUMNS
        keys, floats = [*single & KEYS], [*single - KEYS - {Reduction.DIAGONALS}]
        num_offsets = len(counted.offsets) if Reduction.DIAGONALS in single else 0
        num_columns = 0 if columns_BHKC is None else columns_BHKC.shape[-1]
        # Few allocations: on a GPU each costs as much as a small operation
        numbers = dict(zip(keys, zeros(len(keys), *per_query, dtype=torch.long), strict=True))
        found_RBHQ = zeros(len(floats) + num_offsets + num_columns, *per_query)
        numbers |= dict(zip(floats, found_RBHQ, strict=False))
        if num_offsets:
            numbers[Reduction.DIAGONALS] = found_RBHQ[len(floats) :][:num_offsets]
        if Reduction.COLUMN in needs:
            numbers[Reduction.COLUMN] = zeros(batch, num_heads, num_keys)
        masses = None
        if columns_BHKC is not None:
            masses = found_RBHQ[len(floats) + num_offsets :].movedim(0, -1)
        return cls(columns_BHKC, counted, numbers, masses, needs_map)

    def with_map(self) -> "Statistics":
        """The same, to be filled in by a kernel that leaves the map."""
        return replace(self, needs_map=True)


Asked = Tensor | Statistics | None
"""What a listener asks of a layer: columns alone, statistics, or nothing but the blocks."""


def statistics_of(asked: Asked) -> Statistics:
    """What a listener asks of a layer, as statistics."""
    return asked if isinstance(asked, Statistics) else Statistics(asked)


@final
@dataclass(frozen=True)
class Block:
    """A part of one layer's attention: some rows of the batch, heads and queries."""

    layer: AttentionLayer
    rows: slice
    heads: slice
    queries: slice
    seen_BHQK: Float[Tensor, "rows heads queries seen"]
    """Weights on the keys from `first_key` on that some query of the block may see."""
    masses_BHQC: Float[Tensor, "rows heads queries columns"]
    """Weights times the columns that the listener asked for in addition to the values."""
    first_key: int = 0
    num_keys: int | None = None
    """Number of all keys; None if all are in `seen_BHQK`."""

    @cached_property
    def weights_BHQK(self) -> Float[Tensor, "rows heads queries key"]:
        """Weights on all keys."""
        if not self.is_partial:
            return self.seen_BHQK
        return pad(self.seen_BHQK, (self.first_key, (self.num_keys or 0) - self.keys.stop))

    @property
    def is_partial(self) -> bool:
        """Whether some keys are left out."""
        return self.num_keys not in (None, self.seen_BHQK.shape[-1])

    @property
    def keys(self) -> slice:
        """The keys that are in `seen_BHQK`."""
        return slice(self.first_key, self.first_key + self.seen_BHQK.shape[-1])


@final
class WholeMap:
    """All weights of one layer, put together from its blocks.

    Args:
        value_BHKD: the layer's values.
        num_queries: the number of its queries.
        dtype: data type of the weights; that of the values by default.
    """

    def __init__(
        self,
        value_BHKD: Float[Tensor, "batch head key dim"],
        num_queries: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        rows, heads, keys, _ = value_BHKD.shape
        self.weights_BHQK = value_BHKD.new_zeros(rows, heads, num_queries, keys, dtype=dtype)

    def add(self, block: Block) -> None:
        """Put a block in its place."""
        self.weights_BHQK[block.rows, block.heads, block.queries] = block.weights_BHQK


@runtime_checkable
class Listener(Protocol):
    """Receives attention: for each layer `begin`, then `block` at least once, then `end`.

    A listener that asks for statistics alone may receive no block (`Statistics.needs_map`).
    """

    def begin(
        self,
        layer: AttentionLayer,
        value_BHKD: Float[Tensor, "batch head key dim"],
        num_queries: int,
    ) -> Asked:
        """Begin a layer; returned columns are multiplied by the weights, statistics filled in."""

    def block(self, block: Block) -> None:
        """Receive a block of the layer's attention."""

    def end(self, layer: AttentionLayer) -> None:
        """Finish the layer, after all of its blocks."""


@final
class FunctionListener:
    """A listener that calls one function with every block."""

    def __init__(self, function: Callable[[Block], None]) -> None:
        self.function = function

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Ask for no columns."""

    def block(self, block: Block) -> None:
        """Pass the block on."""
        self.function(block)

    def end(self, layer: AttentionLayer) -> None:
        """Do nothing."""
