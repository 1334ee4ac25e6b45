"""Holding: which of a cache's keys each attention layer reads, found by what a model does.

A layer that keeps keys of its own *holds* them. Most layers read what they hold, group by group.
Others differ, and no list says which: a layer may read the keys of an earlier one (Gemma-3n and
Gemma-4 in their last layers), or the cache may hold latents, of which each head's keys and values
are made behind it (DeepSeek, MiniCPM3, GLM-4.7-Flash). One forward pass with a cache shows it. If
attention is called with the very tensors that the cache returned, the layer reads these; if not,
it reads what is made of those that the cache returned last.

A plan names what is held: a layer that reads another's keys has no group of its own, and streams as
the one that it reads does; latents are one group, which all heads of the layer share.

Which keys the streaming groups see in one forward pass is the same in every layer. A row's *slots*
are its first tokens: slot j of a row is the place of the row's j-th token. Behind them come the
*last* tokens, of which the first one is at `start`. A token can be both; its key is then seen among
the last ones only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from headcount.core import InputError, ModelError, reason
from headcount.tap import (
    ERRORS,
    Anatomy,
    AttentionLayer,
    Call,
    dispatching,
    evaluating,
    plain_attention,
    tiny_inputs,
)

SITE = "decoder.self"
"""The only site of a model whose cache can stream."""


@final
@dataclass(frozen=True)
class Held:
    """What an attention layer reads of a cache."""

    layer: AttentionLayer
    """The layer."""
    number: int | None
    """The number of the cache's layer that it reads; None if it reads no cache."""
    reads: int
    """The attention layer that writes what it reads: its own number, or that of an earlier one."""
    is_latent: bool
    """Whether its keys and values are made of what is held, so that no head has a part of it."""

    @property
    def is_own(self) -> bool:
        """Whether it holds the keys that it reads."""
        return self.reads == self.layer.layer

    @property
    def num_read(self) -> int:
        """The number of groups that it reads."""
        return 1 if self.is_latent else self.layer.num_key_value_heads

    @property
    def num_groups(self) -> int:
        """The number of groups that it holds."""
        return self.num_read if self.is_own else 0


@final
@dataclass(frozen=True, eq=False)
class Holding:
    """What every layer of `decoder.self` reads of a cache."""

    layers: tuple[Held, ...]
    """The layers, in order."""
    num_layers: int
    """Their number, with those that lost all heads."""

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of groups that each layer holds; 0 for dead ones, too."""
        found = {each.layer.layer: each.num_groups for each in self.layers}
        return tuple(found.get(layer, 0) for layer in range(self.num_layers))

    def readers(self, layer: int) -> list[Held]:
        """The layers that read what one holds, itself among them."""
        return [each for each in self.layers if each.reads == layer]

    def of_groups(self, scores: Float[np.ndarray, " read"]) -> Float[np.ndarray, " group"]:
        """Scores of the groups that are held, of those of the groups that every layer reads.

        What several layers read counts by the one that needs it most: by the largest score.
        """
        ends = np.cumsum([each.num_read for each in self.layers])
        largest = dict[int, Float[np.ndarray, " group"]]()
        for each, score_G in zip(self.layers, np.split(scores, ends[:-1]), strict=True):
            largest[each.reads] = np.maximum(largest.get(each.reads, score_G), score_G)
        return np.concatenate([largest[each.layer.layer] for each in self.layers if each.is_own])


def holding_of(model: PreTrainedModel, anatomy: Anatomy) -> Holding:
    """What each layer of a model reads of a cache, found once for a model.

    Raises:
        ModelError: for a model that does not run with a cache.
    """
    known = _FOUND.get(model)
    if known is None or known[0] != anatomy:
        known = _FOUND[model] = anatomy, _found(model, anatomy)
    return known[1]


_FOUND = WeakKeyDictionary[PreTrainedModel, tuple[Anatomy, Holding]]()


def _found(model: PreTrainedModel, anatomy: Anatomy) -> Holding:
    heard = _Heard(model)
    attending = dispatching(model, heard.attend, anatomy.implementation or "sdpa")
    with evaluating(model), torch.no_grad(), attending:
        try:
            model(**tiny_inputs(model), past_key_values=heard.cache, use_cache=True)
        except ERRORS as error:
            raise ModelError(
                f"Expected a model that runs with a cache, got {type(model).__name__}, which does "
                f"not: {reason(error)}. Its cache can't stream."
            ) from error
    found, writers = list[Held](), dict[int, int]()
    for layer in anatomy.layers:
        if layer.site == SITE:
            number, is_latent = heard.by_module.get(layer.module, (None, False))
            reads = layer.layer if number is None else writers.setdefault(number, layer.layer)
            found.append(Held(layer, number, reads, is_latent))
    return Holding(tuple(found), len(anatomy.heads.counts.get(SITE, ())))


class _Heard:
    """Hears which of a cache's tensors each attention call reads."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.cache = _Recorded(model)
        self.by_module: dict[str, tuple[int, bool]] = {}
        """By module, the number of the cache's layer that it reads, and whether latents."""
        self._paths = {module: path for path, module in model.named_modules()}

    def attend(self, call: Call) -> Tensor:
        """Attention as ever; notes what was read."""
        returned, self.cache.newest = self.cache.newest, None
        for number, tensors in self.cache.returned.items():
            if all(map(_is_same, tensors, (call.key, call.value))):
                self.by_module[self._paths[call.module]] = number, False
                break
        else:
            if returned is not None:
                self.by_module[self._paths[call.module]] = returned, True
        return plain_attention(call)


class _Recorded(DynamicCache):
    """A cache that remembers what it returned."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(config=model.config)
        self.returned: dict[int, tuple[Tensor, Tensor]] = {}
        """By the number of a layer, its keys and values."""
        self.newest: int | None = None
        """The layer that was updated since the last attention call."""

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Update a layer."""
        found = super().update(key_states, value_states, layer_idx, *args, **kwargs)
        self.returned[layer_idx], self.newest = found, layer_idx
        return found


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape


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
@dataclass(frozen=True, eq=False)
class Pass:
    """One forward pass as a streaming layer meets it."""

    mask: Bool[Tensor, "batch 1 query key"] | None
    """What the model sees; None for all that is not later."""
    num_new: int
    """The number of tokens that the pass reads."""
    length: int
    """The number of tokens that are read after it."""
    start: int
    """Position of the first of the last keys."""
    like: Tensor
    """A tensor of the batch, on the layer's device."""


@final
class Reading:
    """Which keys the streaming groups see in one forward pass, and which slots it fills.

    Args:
        given: the pass.
        sink: the number of slots.
        recent: the number of last tokens that a query sees.
    """

    def __init__(self, given: Pass, sink: int, recent: int) -> None:
        self.mask, self.length, self.start = given.mask, given.length, given.start
        self.num_new, self.sink, self.recent = given.num_new, sink, recent
        self.device = given.like.device
        first_B = _first(given.mask, given.length, given.like)
        self.firsts: list[int] = first_B.tolist()
        """Each row's first token; `length` if none was read."""
        self._slot_BS = first_B[:, None] + torch.arange(sink, device=self.device)
        self.windows = list(self._windows())

    @property
    def before(self) -> int:
        """The number of tokens that were read before."""
        return self.length - self.num_new

    def is_of(self, given: Pass) -> bool:
        """Whether it is that of a layer with this mask, these keys and queries like these."""
        same = (given.num_new, given.length, given.start) == (self.num_new, self.length, self.start)
        alike = (len(given.like), given.like.device) == (len(self.firsts), self.device)
        return same and given.mask is self.mask and alike

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
