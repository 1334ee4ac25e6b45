"""Seen keys: which keys the queries of a block may see, so that no others are computed.

Under a causal mask a query sees the keys up to its own, in a sliding window only the last few of
them, and no text sees its padding. So for most blocks of queries, two numbers say where the keys
begin and end, and the mask matters only near these ends: all queries of the block see the keys
between them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

LEAST = 2**18
"""Number of weights of a head in a row from which unseen keys are looked for."""

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

    @cached_property
    def is_narrow(self) -> bool:
        """Whether strips of queries leave out many keys that a whole map would have."""
        num_seen = (self.stop_BQ - self.first_BQ).double().mean()
        return bool(num_seen < 3 / 4 * self.num_keys)

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
class SeenByMasks:
    """The seen keys of masks, found once for the layers that share a mask."""

    def __init__(self) -> None:
        self._found = WeakTensorKeyDictionary()

    def keys(self, mask: Tensor) -> SeenKeys | None:
        """The keys that a mask shows, if it is one for all heads, not small, and nothing else."""
        _, heads, num_queries, num_keys = mask.shape
        if heads > 1 or num_queries == 1 or num_queries * num_keys < LEAST:
            return None
        if mask not in self._found:
            is_seen = _is_seen(mask)
            self._found[mask] = None if is_seen is None else SeenKeys.of(is_seen)
        return self._found[mask]


def _is_seen(mask: Tensor) -> Tensor | None:
    """Where a mask is True, or 0 in one of numbers; None if that has others but the lowest."""
    if mask.dtype == torch.bool:
        return mask
    is_seen = mask == 0
    only_hides = bool((is_seen | (mask <= torch.finfo(mask.dtype).min)).all())
    return is_seen if only_hides else None
