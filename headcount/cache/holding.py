"""Holding: which of a cache's keys each attention layer reads, found by what a model does.

A layer that keeps keys of its own *holds* them. Most layers read what they hold, group by group.
Others differ, and no list says which: a layer may read the keys of an earlier one (Gemma-3n and
Gemma-4 in their last layers), or the cache may hold latents, of which each head's keys and values
are made behind it (DeepSeek, MiniCPM3, GLM-4.7-Flash). One forward pass with a cache shows it. If
attention is called with the very tensors that the cache returned, the layer reads these; if not,
it reads what is made of those that the cache returned last.

A plan names what is held: a layer that reads another's keys has no group of its own, and streams as
the one that it reads does; latents are one group, which all heads of the layer share.
"""

from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from headcount.core import ModelError, reason
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
