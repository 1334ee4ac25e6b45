"""Streaming: a stock eager model in which every head of every layer gets a mask of its own."""

from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


def sees(query: Any, key: Any, first: int, sink: int, recent: int) -> Any:
    """Whether queries of a streaming group see keys; `first` is the row's first real token."""
    is_among_first = key - first < sink
    is_among_last = query - key < recent
    return (first <= key) & (key <= query) & (is_among_first | is_among_last)


def added(firsts: Sequence[int], size: int, window: tuple[int, int] | None) -> Tensor:
    """What is added to the scores of one head, [row, query, key]; no window: all keys are kept."""
    sink, recent = window or (size, size)
    query, key = torch.arange(size)[:, None], torch.arange(size)
    rows = [sees(query, key, first, sink, recent) for first in firsts]
    return torch.where(torch.stack(rows), 0.0, torch.finfo(torch.float32).min)


def logits(
    model: PreTrainedModel,
    modules: Sequence[str],
    full: Sequence[Sequence[bool]],
    sink: int,
    recent: int,
    ids_BN: Tensor,
    firsts: Sequence[int],
) -> Tensor:
    """Logits of a whole text, read at once and without a cache.

    Args:
        model: a decoder whose attention modules take `attention_mask`.
        modules: their paths, by layer.
        full: whether a group keeps all keys, by layer.
        sink: the number of first tokens that a streaming group sees.
        recent: the number of last tokens that it sees.
        ids_BN: the tokens, padded on the left.
        firsts: each row's first real token.
    """
    stock: Any = deepcopy(model)
    stock.set_attn_implementation("eager")
    batch, size = ids_BN.shape
    everything, narrow = added(firsts, size, None), added(firsts, size, (sink, recent))
    is_token_BN = torch.tensor([[n >= first for n in range(size)] for first in firsts])
    positions_BN = torch.tensor([[max(0, n - first) for n in range(size)] for first in firsts])
    with ExitStack() as stack:
        for path, groups in zip(modules, full, strict=True):
            shared = stock.config.num_attention_heads // len(groups)
            heads = [everything if keeps else narrow for keeps in groups for _ in range(shared)]
            mask = torch.stack(heads, 1)

            def with_mask(module: nn.Module, args: Any, kwargs: Any, mask: Tensor = mask) -> Any:
                assert "attention_mask" in kwargs
                return args, kwargs | {"attention_mask": mask}

            module = stock.get_submodule(path)
            stack.callback(module.register_forward_pre_hook(with_mask, with_kwargs=True).remove)
        with torch.no_grad():
            return stock(
                input_ids=ids_BN, attention_mask=is_token_BN.long(), position_ids=positions_BN
            ).logits
