"""Knockout by definition: a stock eager model in whose masks single scores are minus infinity."""

from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Score = tuple[int, int, int, int]
"""Row, head, query and key of a score."""


def run(
    model: PreTrainedModel,
    batch: Mapping[str, Tensor],
    modules: Mapping[str, tuple[int, list[Score]]],
) -> Any:
    """Run a stock eager model with its attention maps, some of whose scores are masked.

    Args:
        model: a model whose attention modules take masks by name.
        batch: its inputs.
        modules: for the path of each module, its number of heads and the scores to mask.
    """
    stock: Any = deepcopy(model)
    stock.set_attn_implementation("eager")
    with ExitStack() as stack:
        for path, (num_heads, scores) in modules.items():

            def masked(
                module: nn.Module,
                args: tuple[Any, ...],
                kwargs: dict[str, Any],
                num_heads: int = num_heads,
                scores: list[Score] = scores,
            ) -> Any:
                name = "attention_mask" if "attention_mask" in kwargs else "mask"  # T5
                mask = kwargs[name]
                if mask is None:  # nothing is masked
                    given = args[0] if args else kwargs["hidden_states"]
                    keys = kwargs.get("key_value_states")
                    sizes = given.shape[1], (given if keys is None else keys).shape[1]
                    mask = given.new_zeros(len(given), 1, *sizes)
                mask = mask.expand(-1, num_heads, -1, -1).clone()
                for row, head, query, key in scores:
                    mask[row, head, query, key] = torch.finfo(mask.dtype).min
                return args, kwargs | {name: mask}

            module = stock.get_submodule(path)
            stack.callback(module.register_forward_pre_hook(masked, with_kwargs=True).remove)
        with torch.no_grad():
            return stock(**batch, output_attentions=True)
