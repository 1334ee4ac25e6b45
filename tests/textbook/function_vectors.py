"""Function vectors by the book: the stock model, one prompt and one head at a time."""

from typing import Any

import numpy as np
import torch


def last_inputs(model: Any, ids: list[int]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Of each layer of a Llama, what enters the output projection at the last token; the logits."""
    seen: list[torch.Tensor] = []
    hooks = [
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda module, given: seen.append(given[0][0, -1].clone())
        )
        for layer in model.model.layers
    ]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    for hook in hooks:
        hook.remove()
    return seen, logits


def patched_probability(
    model: Any, ids: list[int], answer: int, layer: int, head: int, value: torch.Tensor
) -> float:
    """Probability of a token if one head's output at the last token of a prompt is another."""

    def patch(module: Any, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        size = value.shape[0]
        patched = given[0].clone()
        patched[0, -1, head * size : (head + 1) * size] = value
        return (patched,)

    hook = model.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(patch)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    hook.remove()
    return float(logits.double().softmax(-1)[answer])


def indirect_effects(model: Any, clean: list[list[int]], asked: list[tuple[list[int], int]]):
    """Effects [prompt, head] on shuffled prompts and their answers, of means over clean ones.

    The mean for a prompt is over the other clean prompts whose number is as odd or even.
    """
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    outputs = [last_inputs(model, ids)[0] for ids in clean]
    rows = []
    for n, (ids, answer) in enumerate(asked):
        before = float(last_inputs(model, ids)[1].double().softmax(-1)[answer])
        row = []
        for layer in range(layers):
            others = [m for m in range(len(clean)) if m != n and (m - n) % 2 == 0]
            mean = torch.stack([outputs[m][layer] for m in others]).mean(0)
            size = len(mean) // heads
            for head in range(heads):
                value = mean[head * size : (head + 1) * size]
                row.append(patched_probability(model, ids, answer, layer, head, value) - before)
        rows.append(row)
    return np.array(rows)
