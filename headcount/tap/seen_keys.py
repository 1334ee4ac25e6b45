"""Seen keys: which keys the queries of a block may see, so that no others are computed.

Under a causal mask a query sees the keys up to its own, in a sliding window only the last few of
them, and no text sees its padding. So for most blocks of queries, two numbers say where the keys
begin and end, and the mask matters only near these ends: all queries of the block see the keys
between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Bool, Int, Int32
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

LEAST = 2**18
"""Number of weights of a head in a row from which unseen keys are looked for."""

STRIP = 2**18
"""Number of entries of a row's mask that are made at a time where a whole mask is not needed."""

STRIPS = 8
"""Number of strips that queries are cut into where many keys are unseen. Under a causal mask, 9/16
of all weights are then computed in place of 1/2."""


@final
@dataclass(frozen=True, eq=False)
class SeenKeys:
    """Where the keys that each query may see begin and end, and whether it sees all between.

    The numbers are in main memory, since they cut tensors.
    """

    first_BQ: Int[Tensor, "batch query"]
    stop_BQ: Int[Tensor, "batch query"]
    is_gapless_BQ: Bool[Tensor, "batch query"]
    sees_BQ: Bool[Tensor, "batch query"]
    """Whether the query sees any key, on the device of the mask."""
    num_keys: int

    @classmethod
    def of(cls, mask_B1QK: Bool[Tensor, "batch 1 query key"]) -> "SeenKeys":
        """The keys that a mask shows. A query that sees none has weights on all of them."""
        is_seen_BQK = mask_B1QK[:, 0].contiguous()
        num_keys = is_seen_BQK.shape[-1]
        count_BQ = is_seen_BQK.sum(-1, dtype=torch.int32)
        # torch's arg-max is vectorised for numbers, not for booleans
        first_BQ = is_seen_BQK.view(torch.uint8).argmax(-1)
        stop_BQ = num_keys - is_seen_BQK.flip(-1).view(torch.uint8).argmax(-1)
        is_gapless_BQ = count_BQ == stop_BQ - first_BQ
        return cls(first_BQ.cpu(), stop_BQ.cpu(), is_gapless_BQ.cpu(), count_BQ > 0, num_keys)

    @classmethod
    def join(cls, strips: Sequence["SeenKeys"]) -> "SeenKeys":
        """Those of consecutive queries, one after another."""
        names = ("first_BQ", "stop_BQ", "is_gapless_BQ", "sees_BQ")
        joined = {name: torch.cat([getattr(each, name) for each in strips], 1) for name in names}
        return cls(**joined, num_keys=strips[0].num_keys)

    @cached_property
    def has_no_gaps(self) -> bool:
        """Whether every query sees all keys between its first and last one, or none."""
        return bool((self.is_gapless_BQ | ~self.sees_BQ.cpu()).all())

    @cached_property
    def is_narrow(self) -> bool:
        """Whether strips of queries leave out many keys that a whole map would have."""
        num_seen = (self.stop_BQ - self.first_BQ).double().mean()
        return bool(num_seen < 3 / 4 * self.num_keys)

    @cached_property
    def spans_2BQ(self) -> Int32[Tensor, "2 batch query"] | None:
        """Where the keys of each query begin and end, if it sees all between; both 0 if none."""
        if not self.has_no_gaps:
            return None
        return (torch.stack([self.first_BQ, self.stop_BQ]) * self.sees_BQ.cpu()).int()

    def of_block(self, rows: slice, queries: slice) -> tuple[slice, list[slice]]:
        """The keys that some query of a block sees, and those among them that not all see."""
        rows = rows if len(self.first_BQ) > 1 else slice(None)
        first_BQ, stop_BQ = self.first_BQ[rows, queries], self.stop_BQ[rows, queries]
        seen = slice(int(first_BQ.min()), int(stop_BQ.max()))
        clear = slice(int(first_BQ.max()), int(stop_BQ.min()))
        if clear.start >= clear.stop or not self.is_gapless_BQ[rows, queries].all():
            return seen, [seen]
        edges = [slice(seen.start, clear.start), slice(clear.stop, seen.stop)]
        return seen, [edge for edge in edges if edge.start < edge.stop]


@final
class IntervalMask(Tensor):
    """A mask [batch, 1, query, key] of which only the interval of each query's keys is in memory.

    It has the shape and type of the whole mask. Any operation on it makes the whole mask first.
    """

    seen: SeenKeys

    @staticmethod
    def __new__(cls, seen: SeenKeys) -> "IntervalMask":
        """The mask that shows these keys, which have no gaps."""
        batch, num_queries = seen.sees_BQ.shape
        mask = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            (batch, 1, num_queries, seen.num_keys),
            dtype=torch.bool,
            device=seen.sees_BQ.device,
        )
        mask.seen = seen
        return mask

    def __repr__(self) -> str:  # type: ignore[override]
        return f"IntervalMask({list(self.shape)})"

    def block(self, rows: slice, queries: slice, keys: slice) -> Bool[Tensor, "row 1 query key"]:
        """A part of the mask."""
        seen = self.seen
        rows = rows if len(seen.sees_BQ) > 1 else slice(None)
        device = seen.sees_BQ.device
        key_K = torch.arange(seen.num_keys, device=device)[keys]
        first, stop = (
            each[rows, queries, None].to(device) for each in (seen.first_BQ, seen.stop_BQ)
        )
        is_seen_BQK = (key_K >= first) & (key_K < stop) & seen.sees_BQ[rows, queries, None]
        return is_seen_BQK[:, None]

    def whole(self) -> Bool[Tensor, "row 1 query key"]:
        """The whole mask."""
        return self.block(slice(None), slice(None), slice(None))

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = tree_map_only(IntervalMask, IntervalMask.whole, (args, kwargs or {}))
        return function(*given[0], **given[1])


def interval_mask(
    part: Callable[[int, int], Tensor | None], num_queries: int, num_keys: int
) -> IntervalMask | None:
    """A mask as intervals, made in strips; None if it is small, shows all or has gaps.

    Args:
        part: makes the mask of some queries, from one to before another.
        num_queries: number of all queries.
        num_keys: number of keys.
    """
    if num_queries == 1 or num_queries * num_keys < LEAST:
        return None
    size, strips = max(1, STRIP // num_keys), list[SeenKeys]()
    for start in range(0, num_queries, size):
        mask = part(start, min(start + size, num_queries))
        if mask is None or mask.shape[1] > 1:
            return None
        strips.append(SeenKeys.of(mask))
        if not strips[-1].has_no_gaps:
            return None
    return IntervalMask(SeenKeys.join(strips))


@final
class MaskFacts:
    """What the layers that share a mask need of it, each found once.

    It holds no mask itself, so that a mask lives no longer than the model needs it.
    """

    def __init__(self, mask: Tensor) -> None:
        self._biases: dict[torch.dtype, Tensor] = {}
        self.seen = _seen_keys(mask, LEAST)
        self._every: SeenKeys | None = None
        self.sees_BQ: Bool[Tensor, "batch query"] | None = None
        """Whether each query sees any key; None if all do, or if the mask is numbers."""
        if mask.dtype == torch.bool:
            sees_BQ = mask.any(-1)[:, 0] if self.seen is None else self.seen.sees_BQ
            self.sees_BQ = None if sees_BQ.all() else sees_BQ

    def every(self, mask: Tensor) -> SeenKeys | None:
        """The keys that a mask of any size shows, if it is one for all heads and nothing else."""
        self._every = self._every or self.seen or _seen_keys(mask, 0)
        return self._every

    def bias(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        """The mask in a form that is added to scores."""
        if mask.dtype == dtype:
            return mask
        if dtype not in self._biases:
            self._biases[dtype] = additive(mask, dtype)
        return self._biases[dtype]


@final
class Masks:
    """The facts of every mask that lives."""

    def __init__(self) -> None:
        self._found = WeakTensorKeyDictionary()

    def facts(self, mask: Tensor | None) -> MaskFacts | None:
        """The facts of a mask; None without one."""
        if mask is None:
            return None
        if mask not in self._found:
            self._found[mask] = MaskFacts(mask)
        return self._found[mask]


def last_seen(mask: Tensor | None, size: tuple[int, int, int]) -> Int[Tensor, "batch query"] | None:
    """The last key that each query sees; None if that is its own place, as in a causal model.

    Args:
        mask: the mask of a call; None if everything is seen.
        size: rows, queries and keys of the call.
    """
    num_rows, num_queries, num_keys = size
    if mask is None:
        return torch.full((num_rows, num_queries), num_keys - 1)
    seen = _seen_keys(mask, 0)
    if seen is None:
        return None
    last_BQ = (seen.stop_BQ - 1).expand(num_rows, -1)
    place_Q = torch.arange(num_keys - num_queries, num_keys)
    return None if (last_BQ <= place_Q).all() else last_BQ.contiguous()


def visible(mask: Tensor) -> Tensor:
    """Where a mask lets a query see a key, whether it is boolean or added to scores."""
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as numbers that are added to scores."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


def _seen_keys(mask: Tensor, least: int) -> SeenKeys | None:
    """The keys that a mask shows, if it is one for all heads, not small, and nothing else."""
    if isinstance(mask, IntervalMask):
        return mask.seen
    _, heads, num_queries, num_keys = mask.shape
    if heads > 1 or num_queries == 1 or num_queries * num_keys < least:
        return None
    if mask.dtype == torch.bool:
        return SeenKeys.of(mask)
    is_seen = mask == 0
    only_hides = bool((is_seen | (mask <= torch.finfo(mask.dtype).min)).all())
    return SeenKeys.of(is_seen) if only_hides else None
