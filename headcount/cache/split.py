"""Split: attention of one layer in two calls, of groups with all keys and of groups that stream."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, final

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headcount.cache.groups import check_cache_plan
from headcount.cache.holding import Held, holding_of
from headcount.cache.plan import CachePlan
from headcount.core import ModelError, amount
from headcount.tap import Anatomy, Call, device_of

Attend = Callable[[Call], Tensor]
"""What returns the outputs of a call's heads, [batch, query, head, dim]."""


@final
class Part:
    """Some key/value groups of a layer, with their query heads.

    Args:
        groups: the groups, in order.
        shared: the number of query heads that share a group.
        device: where the layer computes.
    """

    def __init__(self, groups: Sequence[int], shared: int, device: torch.device) -> None:
        self.groups = tuple(groups)
        self.heads = tuple(group * shared + head for group in groups for head in range(shared))
        self._groups = _index(self.groups, device)
        self._heads = _index(self.heads, device)

    def of_groups(self, tensor: Tensor) -> Tensor:
        """Their part of keys or values, [batch, group, token, dim]."""
        return _taken(tensor, 1, self._groups)

    def of(self, call: Call, mask: Tensor | None) -> Call:
        """The call of these heads alone, with a mask of theirs."""
        query, key, value = self.of_heads(call.query), *map(self.of_groups, (call.key, call.value))
        return replace(call, query=query, key=key, value=value, mask=mask)

    def of_heads(self, tensor: Tensor) -> Tensor:
        """Their part of queries, [batch, head, token, dim]."""
        return _taken(tensor, 1, self._heads)


Index = slice | Int64[Tensor, " chosen"]
"""Some heads; a slice where they follow each other, which needs no copy."""


def _index(chosen: Sequence[int], device: torch.device) -> Index:
    first = chosen[0] if chosen else 0
    if list(chosen) == list(range(first, first + len(chosen))):
        return slice(first, first + len(chosen))
    return torch.tensor(chosen, device=device)


def _taken(tensor: Tensor, dim: int, index: Index) -> Tensor:
    if isinstance(index, slice):
        return tensor.narrow(dim, index.start, index.stop - index.start)
    return tensor.index_select(dim, index)


@final
class Split:
    """The groups of one layer, those that keep all keys and those that stream.

    Args:
        is_full: whether a group keeps all keys.
        num_heads: the number of the layer's query heads.
        device: where the layer computes.
    """

    def __init__(self, is_full: Sequence[bool], num_heads: int, device: torch.device) -> None:
        self.full, self.streaming = (
            Part(
                [group for group, each in enumerate(is_full) if each is kind],
                num_heads // len(is_full),
                device,
            )
            for kind in (True, False)
        )
        self.num_groups = len(is_full)
        heads = torch.tensor([*self.full.heads, *self.streaming.heads])
        self._order = _index(heads.argsort().tolist(), device)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Split":
        """Nothing changes it, so copies of what holds it share it."""
        return self

    def joined(self, outputs: Sequence[Tensor]) -> Tensor:
        """Outputs of both parts, [batch, query, head, dim], with the heads in their order."""
        return _taken(torch.cat(list(outputs), 2), 2, self._order)

    def check(self, call: Call) -> None:
        """Check that an attention call has the layer's groups, and one boolean mask for all heads.

        Raises:
            ModelError: if it has not.
        """
        kind, key, mask = type(call.module).__name__, call.key, call.mask
        if key.shape[1] != self.num_groups:
            raise ModelError(
                f"Expected {amount(self.num_groups, 'key head')} in {kind}, as "
                f"when the model was examined, got {key.shape[1]}. Its cache can't stream."
            )
        if mask is not None and (mask.dtype != torch.bool or mask.shape[1] != 1):
            raise ModelError(
                f"Expected a boolean mask that all heads of {kind} share, got one "
                f"of {str(mask.dtype).removeprefix('torch.')} for {mask.shape[1]}. Pass the "
                "tokenizer's attention_mask, [row, token]."
            )


def splits_of(
    plan: CachePlan, model: PreTrainedModel, anatomy: Anatomy
) -> Iterator[tuple[Held, nn.Module, Split]]:
    """The layers that read a group that streams, with their modules and the splits of their groups.

    Raises:
        InputError: for a plan that is not one of the model.
        ModelError: for a model whose cache can't stream.
    """
    check_cache_plan(plan, model, anatomy)
    for held in holding_of(model, anatomy).layers:
        if not all(full := plan.full[held.reads]):
            layer, module = held.layer, model.get_submodule(held.layer.module)
            each = full * layer.num_key_value_heads if held.is_latent else full
            yield held, module, Split(each, layer.num_heads, device_of(module))


def fused(call: Call, is_causal: bool = False) -> Tensor:
    """Attention by torch's fused function, [batch, query, head, dim].

    Raises:
        ModelError: for arguments that it does not know.
    """
    for name in ("softcap", "s_aux", "position_bias"):
        if call.kwargs.get(name) is not None:
            raise ModelError(
                f"Expected attention that torch's fused function computes, got `{name}` from "
                f"{type(call.module).__name__}. Its cache can't stream."
            )
    known = {name: each for name, each in call.kwargs.items() if name in ("scaling", "dropout")}
    return sdpa_attention_forward(*call.tensors, is_causal=is_causal, **known)[0]
