"""A cache that streams: groups of one layer keep different numbers of keys, and are read apart.

A layer holds two runs of keys of its streaming groups: *slots*, of which slot j of a row holds the
key of the row's j-th token once that was read, and the *last* keys, whose first one is at `start`.
A key can be in both; it is then seen among the last ones only. Which keys are seen in one forward
pass is the same in every layer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headcount.cache.groups import cache_index
from headcount.cache.plan import CachePlan
from headcount.cache.split import Part, Split, fused, splits_of
from headcount.core import InputError, amount
from headcount.tap import Anatomy, AnyModel, Call, dispatching, examined

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


_HOW = "Write `with headcount.streaming_cache(model, plan) as cache:` and, inside, pass the model "
_HOW += "`past_key_values=cache`."


@contextmanager
def streaming_cache(
    model: AnyModel, plan: CachePlan, anatomy: Anatomy | None = None
) -> Iterator["StreamingCache"]:
    """A cache of transformers in which the plan's streaming groups keep the first and last keys.

    Inside the block the model's attention is one that reads such a cache; all that the model
    computes must pass it. Outputs are those under `streaming_masks`.

    >>> with headcount.streaming_cache(model, plan) as cache:  # doctest: +SKIP
    ...     model.generate(**inputs, past_key_values=cache)

    `cache.reset()` empties it for another text; `copy.deepcopy(cache)` is a second one. Prompts can
    be read in chunks (`prefill_chunk_size` of `generate`) and padded on the left; beam search and
    assisted decoding work as ever.

    Args:
        model: a transformers model, or what `load` returns.
        plan: which groups stream.
        anatomy: the result of an earlier `examine(model)`; examined now if None.

    Raises:
        InputError: for a plan that is not one of the model.
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    attention, held = _Attention(plan.sink, plan.recent), DynamicCache(config=whole.config).layers
    for layer, module, split in splits_of(plan, whole, anatomy):
        attention.splits[module] = split
        number = cache_index(whole, layer)
        assert number is not None  # a group that streams has a cache of its own
        held[number] = StreamingLayer(attention, split)
    with dispatching(whole, attention.attend, "sdpa", explicit=False):
        attention.is_active = True
        try:
            yield StreamingCache(held)
        finally:
            attention.is_active = False


@final
class StreamingCache(Cache):
    """Keys and values of a model, in the layers of which some groups stream."""

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that the cache holds now."""
        return cache_bytes(self)


def cache_bytes(cache: Cache) -> int:
    """Bytes of memory that any cache of transformers holds now, with what its tensors only view."""
    storages = {}
    for layer in cache.layers:
        for each in vars(layer).values():
            for tensor in each if isinstance(each, list) else [each]:
                if isinstance(tensor, Tensor):
                    storage = tensor.untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


@final
class StreamingLayer(DynamicLayer):
    """One layer: pairs of keys and values, [batch, group, token, dim].

    Args:
        attention: what reads it.
        split: its groups.
    """

    def __init__(self, attention: "_Attention", split: Split) -> None:
        super().__init__()
        self.attention, self.split = attention, split
        self.full: list[Tensor] = []
        """Those of all tokens, of groups that keep them."""
        self.streaming: list[Tensor] = []
        """Those of the first tokens (slots) and of the last, of groups that stream."""
        self.length = 0
        self.record_past = False
        self.firsts: list[int] | None = None
        """Position of each row's first token, as far as it was read."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Make room for the first tokens, and none for others yet."""

        def room(part: Part, tokens: int) -> list[Tensor]:
            parts = map(part.of_groups, (key_states, value_states))
            return [each.new_zeros(*each.shape[:2], tokens, each.shape[3]) for each in parts]

        self.full = room(self.split.full, 0)
        self.streaming = room(self.split.streaming, self.attention.sink)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add new keys and values, which are returned; the attention that follows reads them all.

        Raises:
            InputError: if the model's attention is not the one that reads this cache.
        """
        self.attention.announce(self)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)

        def longer(held: list[Tensor], part: Part) -> list[Tensor]:
            new = map(part.of_groups, (key_states, value_states))
            return [torch.cat(pair, 2) for pair in zip(held, new, strict=True)]

        self.full = longer(self.full, self.split.full)
        self.streaming = longer(self.streaming, self.split.streaming)
        self.length += key_states.shape[2]
        return key_states, value_states

    def seen(self, reading: Reading) -> Iterator[tuple[Window, Tensor, Tensor]]:
        """Keys and values for each window of a pass; what no later query sees is then dropped."""
        self.streaming = list(map(reading.filled, self.streaming))
        self.firsts = reading.firsts
        for window in reading.windows:
            keys, values = (window.of(each, self.attention.sink) for each in self.streaming)
            yield window, keys, values
        if not self.record_past:
            self._forget()

    def _forget(self) -> None:
        """Drop the last keys that no later query sees."""
        sink, excess = self.attention.sink, self.num_last - self.attention.recent + 1
        if excess > 0:
            self.streaming = [
                torch.cat([each[:, :, :sink], each[:, :, sink + excess :]], 2)
                for each in self.streaming
            ]

    @property
    def num_last(self) -> int:
        """The number of last tokens whose keys are held."""
        return self.streaming[0].shape[2] - self.attention.sink if self.streaming else 0

    def get_seq_length(self) -> int:
        """The number of tokens that were read, whether their keys are kept or not."""
        return self.length

    def activate_past_recording(self) -> None:
        """Drop keys only in `crop`, which can then go back."""
        self.record_past = True

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens.

        Args:
            tokens_to_remove: minus their number.

        Raises:
            InputError: for a number above 0, or if keys that are needed again were dropped.
        """
        removed, kept = -tokens_to_remove, self.attention.recent - 1
        if removed < 0:
            raise InputError(
                f"Expected minus the number of tokens to remove, got {tokens_to_remove}. Pass "
                "cache.crop(-number)."
            )
        length, remaining = max(0, self.length - removed), max(0, self.num_last - removed)
        if removed and remaining < min(kept, length):
            raise InputError(
                f"Expected to keep the last {amount(kept, 'key')}, but cropping "
                f"{amount(removed, 'token')} leaves {remaining}: streaming groups dropped "
                "the keys before. Call cache.activate_past_recording() before the tokens are read, "
                "or read the text again."
            )
        self.length = length
        self.full = [each[:, :, :length] for each in self.full]
        held = self.attention.sink + remaining
        self.streaming = [each[:, :, :held] for each in self.streaming]
        self._forget()

    def reset(self) -> None:
        """Forget all tokens."""
        super().reset()
        self.full, self.streaming = [], []
        self.length, self.firsts, self.record_past = 0, None, False

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Put rows into the order of beam search."""
        self._rows(lambda each: each.index_select(0, beam_idx.to(each.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row."""
        self._rows(lambda each: each.repeat_interleave(repeats, 0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some rows."""
        self._rows(lambda each: each[indices])

    def _rows(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change the rows of everything that is held."""
        self.full = list(map(change, self.full))
        self.streaming = list(map(change, self.streaming))
        self.firsts = None


@final
class _Attention:
    """The attention of a model whose cache streams.

    Args:
        sink: number of first tokens that a streaming group keeps.
        recent: number of last tokens that it keeps.
    """

    def __init__(self, sink: int, recent: int) -> None:
        self.sink, self.recent = sink, recent
        self.splits: dict[nn.Module, Split] = {}
        self.is_active = False
        self._announced: StreamingLayer | None = None
        self._reading: Reading | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Attention":
        """Copies of a cache are read by the same attention."""
        return self

    def announce(self, layer: StreamingLayer) -> None:
        """Say which layer the next call reads.

        Raises:
            InputError: outside the block, or if another function read the layer before.
        """
        if not self.is_active or self._announced is not None:
            self._announced = None
            raise InputError(
                "Expected the attention that reads a streaming cache, but the model has another "
                f"one now. {_HOW} Leave other contexts of headcount outside."
            )
        self._announced = layer

    def attend(self, call: Call) -> Tensor:
        """Attention over the layer's cache; that of transformers where no group streams."""
        query, mask, split = call.query, call.mask, self.splits.get(call.module)
        if split is None:
            return sdpa_attention_forward(*call.tensors, **call.kwargs)[0]
        layer, self._announced = self._announced, None
        if layer is None or layer.split is not split or call.key.shape[2] != query.shape[2]:
            raise InputError(f"Expected a call with the streaming cache, got one without. {_HOW}")
        split.check(call)
        reading, outputs = self._reading_of(layer, query, mask), list[Tensor]()
        if split.full.groups:
            keys, values = layer.full
            full = replace(call, query=split.full.of_heads(query), key=keys, value=values)
            outputs.append(fused(full, is_causal=mask is None and query.shape[2] > 1))
        narrow = split.streaming.of_heads(query)
        parts = [
            fused(Call(call.module, narrow[:, :, at.queries], keys, values, at.mask, call.kwargs))
            for at, keys, values in layer.seen(reading)
        ]
        outputs.append(torch.cat(parts, 1))
        return split.joined(outputs)

    def _reading_of(self, layer: StreamingLayer, query: Tensor, mask: Tensor | None) -> Reading:
        """What the pass reads, found at its first layer that streams."""
        start = layer.length - layer.num_last
        sizes = query.shape[2], layer.length, start
        if self._reading is None or not self._reading.is_of(mask, *sizes, query):
            if mask is not None and mask.shape[3] != layer.length:
                raise InputError(
                    f"Expected a mask of {amount(layer.length, 'token')}, got one of "
                    f"{mask.shape[3]}. Pass a 1 or 0 for every token that was read, also before."
                )
            self._reading = Reading(mask, *sizes, self.sink, self.recent, query)
            self._reading.check_follows(layer.firsts)
        return self._reading
