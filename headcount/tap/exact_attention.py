"""Exact attention: the plain softmax of a call in float64, or the model's own eager function.

It is what the outputs of a call are compared with, by `attention_check`. Beside them it says how
far an output moves when scores and weights are rounded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only
from transformers.integrations.sdpa_attention import repeat_kv

from headcount.tap.attention_interface import eager_function
from headcount.tap.call import Call
from headcount.tap.seen_keys import additive, visible

CHUNK = 2**22
"""Number of float64 weights of a layer that are in memory at a time (32 MiB)."""


@final
@dataclass(frozen=True)
class Exact:
    """The plain softmax of one call in float64, or the model's own eager attention."""

    call: Call
    key_BHKD: Tensor
    value_BHKD: Tensor
    is_seeing_BHQ: Tensor
    """Whether a query sees any key; what comes out of one that does not is nobody's."""
    eager: tuple[Tensor, Tensor] | None
    """Output and weights of the model's own eager function; None for the plain softmax."""

    @classmethod
    def of(cls, call: Call, seeing_BHQ: Tensor, eager: bool) -> "Exact":
        """That of a call, by its own eager function or by the plain softmax."""
        groups = call.query.shape[1] // call.key.shape[1]
        key, value = repeat_kv(call.key, groups), repeat_kv(call.value, groups)
        batch, found = max(call.query.shape[0], key.shape[0]), None
        if eager:
            mask = None if call.mask is None else additive(call.mask, torch.float64)
            own = eager_function(call.module)
            found = own(*replace(call, mask=mask).tensors, **call.kwargs)
        shape = (batch, *call.query.shape[1:3])
        return cls(call, key, value, seeing_BHQ.expand(shape), found)

    def norms(self, output_BQHD: Tensor) -> Tensor:
        """The norm of every head: root mean square over the queries that see a key."""
        squared_BHQ = output_BQHD.double().square().sum(-1).transpose(1, 2)
        squared_BHQ = squared_BHQ.where(self.is_seeing_BHQ, 0).nan_to_num()
        num_H = self.is_seeing_BHQ.sum((0, 2)).clamp_min(1)
        return (squared_BHQ.sum((0, 2)) / num_H).sqrt()

    def chunks(self) -> Iterator[slice]:
        """Queries that are compared at a time."""
        num_queries, num_keys = self.call.query.shape[2], self.key_BHKD.shape[2]
        size = max(1, CHUNK // max(1, self.is_seeing_BHQ[..., 0].numel() * num_keys))
        for first in range(0, num_queries, size):
            yield slice(first, first + size)

    def chunk(self, queries: slice) -> "_Chunk":
        """What some of the queries get."""
        call = self.call
        query = call.query[:, :, queries] * (call.kwargs.get("scaling") or self.head_dim**-0.5)
        scores = query @ self.key_BHKD.mT
        if (cap := call.kwargs.get("softcap")) is not None:
            scores = (scores / cap).tanh() * cap
        if (bias := call.kwargs.get("position_bias")) is not None:
            scores = scores + _of_queries(bias, queries)
        if call.mask is not None:
            scores = scores + _of_queries(additive(call.mask, torch.float64), queries)
        if self.eager is None:
            weights = scores.softmax(-1)
            output = weights @ self.value_BHKD
        else:
            output = self.eager[0][:, queries].transpose(1, 2)
            weights = self.eager[1][:, :, queries]
        seeing_BHQ = self.is_seeing_BHQ[:, :, queries]
        return _Chunk(self, queries, query, scores, weights, output, seeing_BHQ)

    @property
    def head_dim(self) -> int:
        """Number of terms of a score."""
        return self.call.query.shape[-1]


@final
@dataclass(frozen=True)
class _Chunk:
    """Weights and outputs of some queries."""

    exact: Exact
    queries: slice
    query_BHQD: Tensor
    """Scaled."""
    score_BHQK: Tensor
    """Scores, with biases and masks."""
    weights_BHQK: Tensor
    output_BHQD: Tensor
    is_seeing_BHQ: Tensor

    def apart(self, found: Sequence[Tensor]) -> Tensor:
        """How far each way's outputs are from the exact ones: norms over a head's dimensions.

        [way, row, head, query].
        """
        exact_BQHD = self.output_BHQD.transpose(1, 2).contiguous()
        apart_WBQH = torch.stack([(each.double() - exact_BQHD).norm(dim=-1) for each in found])
        apart_WBHQ = apart_WBQH.transpose(2, 3).nan_to_num(nan=torch.inf)
        return apart_WBHQ.where(self.is_seeing_BHQ, 0)

    def _size_BHQK(self, in_double: bool) -> Tensor:
        """Sizes of scores, or of their terms, added up, where those are rounded, too."""
        hidden = self.weights_BHQK == 0  # whose scores may be infinite
        if in_double:
            return self.score_BHQK.abs().masked_fill(hidden, 0)
        sizes = self.query_BHQD.abs() @ self.exact.key_BHKD.abs().mT
        if (bias := self.exact.call.kwargs.get("position_bias")) is not None:
            sizes = sizes + _of_queries(bias, self.queries).abs()
        return sizes.masked_fill(hidden, 0) * (1 + self.exact.head_dim**0.5 / 4)

    def moved_BHQ(self, eps: float, in_double: bool) -> Tensor:
        """How far outputs move when scores and weights are rounded.

        Args:
            eps: Relative step of the format that they are rounded to.
            in_double: Whether terms of scores are added up in float64, and only then rounded.
        """
        values_BHK = self.exact.value_BHKD.norm(dim=-1)
        distance_BHQK = torch.cdist(self.output_BHQD, self.exact.value_BHKD)
        moved_BHQK = 4 * eps * self._size_BHQK(in_double)
        # Weights grow by what their own scores move and by what those of the others do
        others_BHQ1 = (self.weights_BHQK * moved_BHQK).sum(-1, keepdim=True)
        share_BHQK = (moved_BHQK + others_BHQ1).clamp_max(50).expm1()
        moved_BHQK = share_BHQK * distance_BHQK + 4 * eps * values_BHK[:, :, None]
        return (self.weights_BHQK * moved_BHQK).sum(-1)


def seeing_BHQ(call: Call) -> Tensor:
    """Whether each query sees any key; an axis of size 1 stands for all."""
    if call.mask is None:
        return torch.ones(1, 1, 1, dtype=torch.bool, device=call.query.device)
    return visible(call.mask).any(-1)


def in_double(call: Call) -> Call:
    """A call with its tensors in float64."""

    def widened(each: Tensor) -> Tensor:
        return each.double() if each.is_floating_point() else each

    tensors = (call.query, call.key, call.value, call.mask)
    query, key, value, mask = tree_map_only(Tensor, widened, tensors)
    kwargs = tree_map_only(Tensor, widened, call.kwargs)
    return Call(call.module, query, key, value, mask, kwargs)


def _of_queries(bias: Tensor, queries: slice) -> Tensor:
    """A bias of some queries; it may have size 1 along their axis."""
    return bias if bias.shape[-2] == 1 else bias[..., queries, :]
