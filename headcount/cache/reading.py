"""Reading: which keys the streaming groups see in one forward pass, the same in every layer.

A row's *slots* are its first tokens: slot j of a row is the place of the row's j-th token. Behind
them come the *last* tokens, of which the first one is at `start`. A token can be both; its key is
then seen among the last ones only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from headcount.core import InputError

BLOCK = 512
"""Number of queries that are read at once: a prompt's queries see as many keys and a window."""


@final
@dataclass(frozen=True)
class Window:
    """Some queries of a forward pass with the keys that they see: slots, then last keys."""

    queries: slice
    last: slice
    """Their part of the last keys, from `start`."""
    mask: Bool[Tensor, "batch 1 query key"] | None
    """What each sees; None for everything."""

    def of(self, held: Tensor, sink: int) -> Tensor:
        """The slots and these last keys, of all that a layer holds, [batch, group, key, dim]."""
        begin, end = sink + self.last.start, sink + self.last.stop
        if (begin, end) == (sink, held.shape[2]):
            return held
        return torch.cat([held[:, :, :sink], held[:, :, begin:end]], 2)


@final
class Reading:
    """Which keys the streaming groups see in one forward pass, and which slots it fills.

    Args:
        mask: what the model sees, [batch, 1, query, token]; None for all that is not later.
        num_new: the number of tokens that the pass reads.
        length: the number of tokens that are read after it.
        start: position of the first of the last keys.
        sink: the number of slots.
        recent: the number of last tokens that a query sees.
        like: a tensor of the batch, on the layer's device.
    """

    def __init__(
        self,
        mask: Bool[Tensor, "batch 1 query key"] | None,
        num_new: int,
        length: int,
        start: int,
        sink: int,
        recent: int,
        like: Tensor,
    ) -> None:
        self.mask, self.length, self.num_new, self.start = mask, length, num_new, start
        self.sink, self.recent, self.device = sink, recent, like.device
        first_B = _first(mask, length, like)
        self.firsts: list[int] = first_B.tolist()
        """Each row's first token; `length` if none was read."""
        self._slot_BS = first_B[:, None] + torch.arange(sink, device=self.device)
        self.windows = list(self._windows())

    @property
    def before(self) -> int:
        """The number of tokens that were read before."""
        return self.length - self.num_new

    def is_of(
        self, mask: Tensor | None, num_new: int, length: int, start: int, like: Tensor
    ) -> bool:
        """Whether it is that of a layer with this mask, these keys and queries like these."""
        same = (num_new, length, start) == (self.num_new, self.length, self.start)
        alike = (len(like), like.device) == (len(self.firsts), self.device)
        return same and mask is self.mask and alike

    def check_follows(self, firsts: list[int] | None) -> None:
        """Check that each row's first token is where it was in the pass before.

        Raises:
            InputError: if it is not.
        """
        if firsts is None or len(firsts) != len(self.firsts):
            return
        for row, (old, new) in enumerate(zip(firsts, self.firsts, strict=True)):
            if old < self.before and old != new:
                raise InputError(
                    f"Expected an attention mask of the whole text, whose row {row} began at token "
                    f"{old} before, got one that begins at {new}. Pass a 1 or 0 for every token "
                    "that was read, also before."
                )

    def filled(self, held: Tensor) -> Tensor:
        """Slots and last keys, [batch, group, key, dim], with the slots that this pass fills."""
        if self.before >= max(self.firsts) + self.sink:
            return held
        slots, last = held[:, :, : self.sink], held[:, :, self.sink :]
        is_new_BS = (self._slot_BS >= self.before) & (self._slot_BS < self.length)
        source_BS = (self._slot_BS - self.start).clamp(0, last.shape[2] - 1)
        source = source_BS[:, None, :, None].expand(-1, last.shape[1], -1, last.shape[3])
        slots = torch.where(is_new_BS[:, None, :, None], last.gather(2, source), slots)
        return torch.cat([slots, last], 2)

    def _windows(self) -> Iterator[Window]:
        for begin in range(0, self.num_new, BLOCK):
            queries = slice(begin, min(begin + BLOCK, self.num_new))
            low = max(self.start, self.before + begin - self.recent + 1)
            high = self.before + queries.stop
            mask = self._seen(queries, low, high)
            if self.num_new == 1 and mask.all():
                mask = None
            yield Window(queries, slice(low - self.start, high - self.start), mask)

    def _seen(self, queries: slice, low: int, high: int) -> Bool[Tensor, "batch 1 query key"]:
        """What some queries see of the slots, and of the last keys from `low` to `high`."""
        last_K = torch.arange(low, high, device=self.device)
        query_Q1 = torch.arange(
            self.before + queries.start, self.before + queries.stop, device=self.device
        )[:, None]
        is_near_QK = query_Q1 - last_K < self.recent
        is_first_BK = (last_K >= self._slot_BS[:, :1]) & (last_K <= self._slot_BS[:, -1:])
        kept_B1QK = (is_near_QK | is_first_BK[:, None])[:, None]
        in_slot_B1QS = (self._slot_BS < low)[:, None, None].expand(-1, -1, len(query_Q1), -1)
        if self.mask is None:
            last_B1QK = kept_B1QK & (last_K <= query_Q1)
        else:
            rows_B1QK = self.mask[:, :, queries]
            last_B1QK = kept_B1QK & rows_B1QK[..., low:high]
            slot = self._slot_BS.clamp_max(self.length - 1)[:, None, None]
            in_slot_B1QS = in_slot_B1QS & rows_B1QK.gather(3, slot.expand_as(in_slot_B1QS))
        return torch.cat([in_slot_B1QS, last_B1QK], 3)


def _first(mask: Tensor | None, length: int, like: Tensor) -> Int64[Tensor, " batch"]:
    """Position of the first token that each row's last query sees; `length` if it sees none."""
    if mask is None:
        return torch.zeros(len(like), dtype=torch.long, device=like.device)
    seen_BK = mask[:, 0, -1].expand(len(like), -1)
    return torch.where(seen_BK.any(1), seen_BK.byte().argmax(1), length)
