"""Why a head looks there, by the book: hooks on the stock model, one pair of writers at a time."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

Terms = dict[tuple[str, str], float]
"""What a writer of the query and one of the key add to a score, by both names."""


@torch.no_grad()
def terms(model: Any, ids: Tensor, head: tuple[int, int], query: int) -> tuple[list[Terms], Any]:
    """The terms of a query with every key up to it, of a Llama, Qwen3 or GPT-2.

    Returns:
        The terms of each key, and the attention weights of the stock model.
    """
    layer, index = head
    kind = model.config.model_type
    layers = model.transformer.h if kind == "gpt2" else model.model.layers
    seen: dict[Any, Tensor] = {}

    def keep(name: Any, before: bool = False) -> Any:
        def hook(module: Any, given: Any, output: Any = None) -> None:
            state = given[0] if before else output
            seen[name] = (state[0] if isinstance(state, tuple) else state)[0].double()

        return hook

    with ExitStack() as stack:
        if kind == "gpt2":
            for name in ("wte", "wpe"):
                module = getattr(model.transformer, name)
                stack.callback(module.register_forward_hook(keep(name)).remove)
        else:
            stack.callback(model.model.embed_tokens.register_forward_hook(keep("wte")).remove)
        for number, block in enumerate(layers[:layer]):
            attn = block.attn if kind == "gpt2" else block.self_attn
            projection = attn.c_proj if kind == "gpt2" else attn.o_proj
            hook = projection.register_forward_pre_hook(keep(("o", number), True))
            stack.callback(hook.remove)
            stack.callback(block.mlp.register_forward_hook(keep(("mlp", number))).remove)
        model.config._attn_implementation = "eager"
        found = model(input_ids=ids, output_attentions=True)
    weights = found.attentions[layer][0, index, query]
    parts = {"embeddings": seen["wte"]}
    if kind == "gpt2":
        parts["positions"] = seen["wpe"].expand_as(seen["wte"])
        parts["attention biases"] = torch.zeros_like(seen["wte"])
    for number, block in enumerate(layers[:layer]):
        attn = block.attn if kind == "gpt2" else block.self_attn
        weight = attn.c_proj.weight if kind == "gpt2" else attn.o_proj.weight.T
        rows = weight.double().unflatten(0, (model.config.num_attention_heads, -1))
        outputs = seen["o", number].unflatten(1, (model.config.num_attention_heads, -1))
        for each in range(len(rows)):
            parts[f"dec.{number}.{each}"] = outputs[:, each] @ rows[each]
        if kind == "gpt2":
            parts["attention biases"] = parts["attention biases"] + attn.c_proj.bias.double()
        parts[f"mlp.{number}"] = seen["mlp", number]
    state = torch.stack([*parts.values()]).sum(0)
    block = layers[layer]
    of_key = [_sides(model, block, head, state, parts, query, key) for key in range(query + 1)]
    pairs = [
        {
            (one, other): float(left @ right)
            for one, (left, _) in sides.items()
            for other, (_, right) in sides.items()
        }
        for sides in of_key
    ]
    return pairs, weights


def _sides(
    model: Any,
    block: Any,
    head: tuple[int, int],
    state: Tensor,
    parts: dict[str, Tensor],
    query: int,
    key: int,
) -> dict[str, tuple[Tensor, Tensor]]:
    """What each part adds to the query and to the key, both turned, the query scaled."""
    kind, config, index = model.config.model_type, model.config, head[1]
    if kind == "gpt2":
        dim = config.n_embd // config.n_head
        weight, bias = block.attn.c_attn.weight.double(), block.attn.c_attn.bias.double()
        norm, width = block.ln_1, config.n_embd
        places = [slice(start + index * dim, start + index * dim + dim) for start in (0, width)]

        def normed(part: Tensor, at: int) -> Tensor:
            whole = state[at]
            scale = (whole.var(correction=0) + norm.eps).sqrt()
            return (part - part.mean()) / scale * norm.weight.double()

        found = {
            name: (
                normed(part[query], query) @ weight[:, places[0]] / dim**0.5,
                normed(part[key], key) @ weight[:, places[1]],
            )
            for name, part in parts.items()
        }
        more = norm.bias.double() @ weight + bias
        return found | {"biases": (more[places[0]] / dim**0.5, more[places[1]])}
    dim, attn = config.head_dim, block.self_attn
    shared = index // (config.num_attention_heads // config.num_key_value_heads)
    sides = []
    for projection, number, at in ((attn.q_proj, index, query), (attn.k_proj, shared, key)):
        rows = projection.weight.double()[number * dim : (number + 1) * dim]
        gain = block.input_layernorm.weight.double()
        scale = (state[at].square().mean() + config.rms_norm_eps).sqrt()
        each = {name: rows @ (part[at] / scale * gain) for name, part in parts.items()}
        if kind == "qwen3":
            norm = attn.q_norm if projection is attn.q_proj else attn.k_norm
            whole = torch.stack([*each.values()]).sum(0)
            size = (whole.square().mean() + config.rms_norm_eps).sqrt()
            each = {name: part / size * norm.weight.double() for name, part in each.items()}
        sides.append({name: _turned(part, at, config) for name, part in each.items()})
    return {name: (sides[0][name] / dim**0.5, sides[1][name]) for name in parts}


def _turned(vector: Tensor, place: int, config: Any) -> Tensor:
    """A vector with each pair of its dimensions, half of them apart, turned by the place."""
    half = len(vector) // 2
    turned = vector.clone()
    for pair in range(half):
        angle = torch.tensor(
            place * config.rope_parameters["rope_theta"] ** (-pair / half)
        ).double()
        x, y = vector[pair], vector[pair + half]
        turned[pair] = x * angle.cos() - y * angle.sin()
        turned[pair + half] = y * angle.cos() + x * angle.sin()
    return turned
