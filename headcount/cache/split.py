"""Split: attention of one layer in two calls, of groups with all keys and of groups that stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headcount.core import ModelError


@final
@dataclass(frozen=True)
class Part:
    """Some key/value groups of a layer, with their query heads."""

    groups: Int64[Tensor, " group"]
    heads: Int64[Tensor, " head"]


@final
class Split:
    """The groups of one layer, those that keep all keys and those that stream.

    Args:
        is_full: whether a group keeps all keys.
        num_heads: the number of the layer's query heads.
        device: where the layer computes.
    """

    def __init__(self, is_full: Sequence[bool], num_heads: int, device: torch.device) -> None:
        shared = num_heads // len(is_full)

        def part(kind: bool) -> Part:
            groups_G = torch.tensor([i for i, each in enumerate(is_full) if each is kind]).long()
            heads_GS = groups_G[:, None] * shared + torch.arange(shared)
            return Part(groups_G.to(device), heads_GS.flatten().to(device))

        self.num_groups = len(is_full)
        self.full, self.streaming = part(True), part(False)
        self._order_H = torch.cat([self.full.heads, self.streaming.heads]).argsort()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Split":
        """Nothing changes it, so copies of what holds it share it."""
        return self

    @property
    def parts(self) -> tuple[Part, Part]:
        """Those that keep all keys, and those that stream."""
        return self.full, self.streaming

    def joined(self, outputs: Sequence[Tensor]) -> Tensor:
        """Outputs of both parts, [batch, query, head, dim], with the heads in their order."""
        return torch.cat(list(outputs), 2).index_select(2, self._order_H)

    def check(self, module: nn.Module, key: Tensor, mask: Tensor | None) -> None:
        """Check that an attention call has the layer's groups, and one boolean mask for all heads.

        Raises:
            ModelError: if it has not.
        """
        if key.shape[1] != self.num_groups:
            raise ModelError(
                f"Expected {self.num_groups} key heads in {type(module).__name__}, as when the "
                f"model was examined, got {key.shape[1]}. Its cache can't stream."
            )
        if mask is not None and (mask.dtype != torch.bool or mask.shape[1] != 1):
            raise ModelError(
                f"Expected a boolean mask that all heads of {type(module).__name__} share, got one "
                f"of {str(mask.dtype).removeprefix('torch.')} for {mask.shape[1]}. Pass the "
                "tokenizer's attention_mask, [row, token]."
            )


def fused(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Bool[Tensor, "batch one query key"] | None,
    kwargs: dict[str, Any],
    is_causal: bool = False,
) -> Tensor:
    """Attention by torch's fused function, [batch, query, head, dim].

    Raises:
        ModelError: for arguments that it does not know.
    """
    for name in ("softcap", "s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise ModelError(
                f"Expected attention that torch's fused function computes, got `{name}` from "
                f"{type(module).__name__}. Its cache can't stream."
            )
    known = {name: kwargs[name] for name in ("scaling", "dropout") if name in kwargs}
    return sdpa_attention_forward(module, query, key, value, mask, is_causal=is_causal, **known)[0]
