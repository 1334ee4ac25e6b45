r"""Attention weights, computed a block at a time: rows of the batch, heads and queries.

$$A_h = \mathrm{softmax}(s\,Q_h K_h^\top + \text{mask})$$
"""

from collections.abc import Iterator
from functools import cached_property
from typing import final

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import repeat_kv

from headcount.tap.attention_interface import Call, eager_function
from headcount.tap.seen_keys import STRIPS, IntervalMask, MaskFacts, additive

Cut = tuple[slice, slice, slice]
"""A block's rows of the batch, heads and queries."""


@final
class AttentionCall:
    """The arguments of one attention call, and its weights, a block at a time.

    Empty queries, from which all keys are blocked, have weights of zero.
    """

    def __init__(
        self,
        call: Call,
        facts: MaskFacts | None,
        empty: Tensor | None = None,
        is_eager: bool = False,
    ) -> None:
        self.module, self.query, self.key, self.value, self.mask = call.tensors
        self.kwargs = call.kwargs
        self.dtype = torch.promote_types(self.query.dtype, torch.float32)
        self.scaling = self.kwargs.get("scaling") or self.query.shape[-1] ** -0.5
        self.facts, self.empty, self.is_eager = facts, empty, is_eager
        self.seen = None if facts is None else facts.seen

    @cached_property
    def bias(self) -> Tensor | None:
        """The mask in a form that is added to scores."""
        if self.mask is None or self.facts is None:
            return None
        return self.facts.bias(self.mask, self.dtype)

    def repeated(self, tensor: Tensor) -> Tensor:
        """Key or value heads, each repeated for the queries that share it."""
        return repeat_kv(tensor, self.query.shape[1] // tensor.shape[1])

    @cached_property
    def scaled_keys_BHDK(self) -> Tensor:
        """Keys, scaled and transposed; BLAS accepts the transpose directly."""
        key = self.repeated(self.key).to(self.dtype)
        if key.requires_grad:
            return (key.contiguous() * self.scaling).transpose(-1, -2)
        scaled = torch.empty(key.shape, dtype=key.dtype, device=key.device)
        # One pass scales and makes contiguous; autograd does not allow `out`.
        return torch.mul(key, self.scaling, out=scaled).transpose(-1, -2)

    def weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights of a block; by the model's own eager function if it needs that."""
        return (self._eager_weights if self.is_eager else self._weights)(rows, heads, queries)

    def _weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """Softmax of the scaled, soft-capped, biased and masked scores of a block.

        The keys outside of the returned slice are seen by no query of the block.
        """
        keys, edges = slice(0, self.key.shape[2]), None
        if self.seen is not None:
            keys, edges = self.seen.of_block(rows, queries)
        scores = self.scores(rows, heads, queries, keys)
        if edges is None and self.bias is not None:
            scores = scores.add_(cut(self.bias, rows, heads, queries))
        for edge in edges or ():
            assert self.mask is not None
            hidden = additive(cut(self.mask, rows, heads, queries, edge), self.dtype)
            scores[..., edge.start - keys.start : edge.stop - keys.start].add_(hidden)
        return scores.softmax(-1), keys

    def scores(self, rows: slice, heads: slice, queries: slice, keys: slice) -> Tensor:
        """The scaled, soft-capped and biased scores of a block, before its mask."""
        scores = (
            self.query[rows, heads, queries].to(self.dtype)
            @ self.scaled_keys_BHDK[rows, heads, :, keys]
        )
        if (cap := self.kwargs.get("softcap")) is not None:
            # The last step is not in place: tanh's gradient needs its result
            scores = scores.div_(cap).tanh_() * cap
        if (position_bias := self.kwargs.get("position_bias")) is not None:
            scores = scores.add_(cut(position_bias, rows, heads, queries, keys))
        return scores

    def _eager_weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights as the model's own eager function computes them, for all heads of a block."""
        eager = eager_function(self.module)
        bias = None if self.bias is None else cut(self.bias, rows, heads, queries)
        kwargs = self.kwargs
        if (position_bias := kwargs.get("position_bias")) is not None:
            kwargs = kwargs | {"position_bias": cut(position_bias, rows, heads, queries)}
        query, key, value = self.query[rows, :, queries], self.key[rows], self.value[rows]
        _, weights = eager(self.module, query, key, value, bias, **kwargs)
        return weights.to(self.dtype), slice(0, key.shape[2])


def blocks(call: AttentionCall, size: int, whole_heads: bool) -> Iterator[Cut]:
    """Cuts of at most `size` weights: complete rows if they fit, else heads, else queries."""
    batch, num_heads, num_queries = call.query.shape[:3]
    num_keys = call.key.shape[2]
    per_head = max(1, num_queries * num_keys)
    heads = num_heads if whole_heads else max(1, min(num_heads, size // per_head))
    rows = max(1, size // (per_head * num_heads)) if heads == num_heads else 1
    queries = max(1, min(num_queries, size // (heads * num_keys)))
    if call.seen is not None and call.seen.is_narrow:
        queries = min(queries, -(-num_queries // STRIPS))
        at_once = max(1, size // (queries * num_keys))
        heads = -(-num_heads // -(-num_heads // at_once))  # alike in all blocks
    for row in range(0, batch, rows):
        for head in range(0, num_heads, heads):
            for query in range(0, num_queries, queries):
                yield (
                    slice(row, row + rows),
                    slice(head, head + heads),
                    slice(query, query + queries),
                )


def cut(
    bias: Tensor, rows: slice, heads: slice, queries: slice, keys: slice = slice(None)
) -> Tensor:
    """A block of a bias that may have size 1 along each axis."""
    if isinstance(bias, IntervalMask):
        return bias.block(rows, queries, keys)
    parts = (
        part if size > 1 else slice(None)
        for part, size in zip((rows, heads, queries, keys), bias.shape, strict=True)
    )
    return bias[tuple(parts)]
