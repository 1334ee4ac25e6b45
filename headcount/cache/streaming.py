"""A cache that streams: groups of one layer keep different numbers of keys, and are read apart.

A layer holds two runs of keys of its streaming groups: slots for those of the first tokens, filled
once these were read, and the last keys (`holding.py`). Layers that read another layer's keys do so
before that one drops any. A layer of latents returns its slots and last latents, and attention is
given the keys and values that the model makes of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headcount.cache.holding import Pass, Reading, Window, holding_of
from headcount.cache.plan import CachePlan
from headcount.cache.split import Attend, Part, Split, fused, splits_of
from headcount.core import InputError, amount
from headcount.tap import Anatomy, Call, dispatching

_HOW = "Write `with headcount.streaming_cache(model, plan) as cache:` and, inside, pass the model "
_HOW += "`past_key_values=cache`."


@contextmanager
def streaming(
    model: PreTrainedModel,
    plan: CachePlan,
    anatomy: Anatomy,
    around: Callable[[Attend], Attend] = lambda attend: attend,
) -> Iterator["StreamingCache"]:
    """A cache that streams, of a model that was not checked for it (`self_check.py`).

    Args:
        model: a transformers model.
        plan: which groups stream.
        anatomy: the model's anatomy.
        around: what is called in place of the attention that reads the cache.

    Raises:
        InputError: for a plan that is not one of the model.
        ModelError: for a model whose cache can't stream.
    """
    attention, layers = _Attention(plan.sink, plan.recent), DynamicCache(config=model.config).layers
    holding = holding_of(model, anatomy)
    for held, module, split in splits_of(plan, model, anatomy):
        assert held.number is not None  # a group that streams lies in a cache
        attention.splits[module] = split
        if held.is_own:
            readers = len(holding.readers(held.reads))
            layer = StreamingLayer(attention, split, held.number, readers, held.is_latent)
            layers[held.number] = layer
        else:
            attention.sources[module] = held.number
    with dispatching(model, around(attention.attend), "sdpa", explicit=False):
        attention.is_active = True
        try:
            yield StreamingCache(layers)
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
        number: its number in the cache.
        readers: the number of attention layers that read it in each forward pass.
        is_latent: whether it holds latents, one for all heads, of which the model makes keys and
            values.
    """

    def __init__(
        self, attention: "_Attention", split: Split, number: int, readers: int, is_latent: bool
    ) -> None:
        super().__init__()
        self.attention, self.split, self.number = attention, split, number
        self.readers, self.is_latent = readers, is_latent
        self.unread = 0
        """The number of layers that have yet to read what was added last."""
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
            parts = self._parts(part, key_states, value_states)
            return [each.new_zeros(*each.shape[:2], tokens, each.shape[3]) for each in parts]

        self.full = room(self.split.full, 0)
        self.streaming = room(self.split.streaming, self.attention.sink)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add new keys and values, which are returned; the attention that follows reads them all.

        Latents are returned as they are held, the slots and the last ones.

        Raises:
            InputError: if the model's attention is not the one that reads this cache.
        """
        self.attention.announce(self)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)

        def longer(held: list[Tensor], part: Part) -> list[Tensor]:
            new = self._parts(part, key_states, value_states)
            return [torch.cat(pair, 2) for pair in zip(held, new, strict=True)]

        self._forget()
        self.full = longer(self.full, self.split.full)
        self.streaming = longer(self.streaming, self.split.streaming)
        self.length += key_states.shape[2]
        self.unread = self.readers
        if self.is_latent:
            key_states, value_states = self.streaming
        return key_states, value_states

    def _parts(self, part: Part, *states: Tensor) -> list[Tensor]:
        """What is held of keys and values for some groups; latents are all groups'."""
        is_whole = self.is_latent and part is self.split.streaming
        return [each if is_whole else part.of_groups(each) for each in states]

    def seen(self, reading: Reading, call: Call) -> Iterator[tuple[Window, Tensor, Tensor]]:
        """Keys and values for each window of a pass; what no later query sees is then dropped."""
        self.streaming = list(map(reading.filled, self.streaming))
        self.firsts = reading.firsts
        held = self.streaming
        if self.is_latent:
            held = list(map(reading.filled, (call.key, call.value)))
        for window in reading.windows:
            keys, values = (window.of(each, self.attention.sink) for each in held)
            yield window, keys, values
        self.unread -= 1
        if not self.unread:
            self._forget()

    def _forget(self) -> None:
        """Drop the last keys that no later query sees, unless `crop` shall do so."""
        if not self.record_past:
            self._drop()

    def _drop(self) -> None:
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
        self._drop()

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
        self.sources: dict[nn.Module, int] = {}
        """The cache's layer that a module reads, of those that read the keys of another one."""
        self.is_active = False
        self._announced: StreamingLayer | None = None
        self._written: dict[int, StreamingLayer] = {}
        """Layers of the cache that others have yet to read, by number."""
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

    def _layer(self, call: Call, split: Split) -> StreamingLayer:
        """The layer of the cache that a call reads.

        Raises:
            InputError: if the call came without the cache.
        """
        if (number := self.sources.get(call.module)) is not None:
            if (layer := self._written.get(number)) is not None:
                return layer
        else:
            layer, self._announced = self._announced, None
            is_new = call.key.shape[2] == call.query.shape[2]
            if layer is not None and layer.split is split and (is_new or layer.is_latent):
                return layer
        raise InputError(f"Expected a call with the streaming cache, got one without. {_HOW}")

    def attend(self, call: Call) -> Tensor:
        """Attention over the layer's cache; that of transformers where no group streams."""
        query, mask, split = call.query, call.mask, self.splits.get(call.module)
        if split is None:
            return sdpa_attention_forward(*call.tensors, **call.kwargs)[0]
        layer = self._layer(call, split)
        split.check(call)
        reading, outputs = self._reading_of(layer, query, mask), list[Tensor]()
        if split.full.groups:
            keys, values = layer.full
            full = replace(call, query=split.full.of_heads(query), key=keys, value=values)
            outputs.append(fused(full, is_causal=mask is None and query.shape[2] > 1))
        narrow = split.streaming.of_heads(query)
        parts = [
            fused(Call(call.module, narrow[:, :, at.queries], keys, values, at.mask, call.kwargs))
            for at, keys, values in layer.seen(reading, call)
        ]
        outputs.append(torch.cat(parts, 1))
        self._written[layer.number] = layer
        if not layer.unread:
            del self._written[layer.number]
        return split.joined(outputs)

    def _reading_of(self, layer: StreamingLayer, query: Tensor, mask: Tensor | None) -> Reading:
        """What the pass reads, found at its first layer that streams."""
        start = layer.length - layer.num_last
        given = Pass(mask, query.shape[2], layer.length, start, query)
        if self._reading is None or not self._reading.is_of(given):
            if mask is not None and mask.shape[3] != layer.length:
                raise InputError(
                    f"Expected a mask of {amount(layer.length, 'token')}, got one of "
                    f"{mask.shape[3]}. Pass a 1 or 0 for every token that was read, also before."
                )
            self._reading = Reading(given, self.sink, self.recent)
            self._reading.check_follows(layer.firsts)
        return self._reading
