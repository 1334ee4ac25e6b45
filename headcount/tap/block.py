"""Blocks of attention, and listeners that receive them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from headcount.tap.anatomy import AttentionLayer
from headcount.tap.asked import Asked


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
