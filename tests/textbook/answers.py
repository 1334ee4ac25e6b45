"""LOCOS by the book: whole maps of the stock model, and loops over answer tokens and keys."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headcount.skills.indirect import IndirectNeedle


def added_shares(model: Any, needle: IndirectNeedle, place: int) -> list[float]:
    """Share of every head of what all add to the answer from the tokens at a place."""
    ids = [*needle.ids, *needle.answer]
    inputs: list[torch.Tensor] = []
    projections = [layer.self_attn.v_proj for layer in model.model.layers]
    hooks = [
        each.register_forward_hook(lambda module, given, value: inputs.append(value[0]))
        for each in projections
    ]
    with torch.no_grad():
        maps = model(torch.tensor([ids]), output_attentions=True, use_cache=False).attentions
    for hook in hooks:
        hook.remove()
    found = []
    for layer, (weights, values) in enumerate(zip(maps, inputs, strict=True)):
        output = model.model.layers[layer].self_attn.o_proj.weight.detach()
        heads, size = weights.shape[1], output.shape[1] // weights.shape[1]
        shared = heads // (values.shape[1] // size)
        for head in range(heads):
            of_head = output[:, head * size : (head + 1) * size]
            group = head // shared
            total = 0.0
            for t, token in enumerate(needle.answer):
                query = len(needle.ids) - 1 + t
                towards = model.get_output_embeddings().weight[token].detach() @ of_head
                inside = outside = 0.0
                others = 0
                for key in range(query + 1):
                    value = values[key, group * size : (group + 1) * size]
                    phi = float(weights[0, head, query, key]) * float(towards @ value)
                    if place <= key < place + needle.size:
                        inside += phi
                    else:
                        outside, others = outside + phi, others + 1
                total += inside - needle.size / others * outside
            found.append(total / len(needle.answer))
    return _shares(found)


def _shares(found: Sequence[float]) -> list[float]:
    return list(np.array(found) / sum(map(abs, found)))
