"""Scores of key/value groups by the book: stock models, whole maps, one query and key at a time."""

import cmath
from typing import Any

import numpy as np
import torch

from tests.textbook.streaming import sees


def distances(model: Any, ids: list[int], sink: int, recent: int) -> list[list[float]]:
    """How far the output of each layer's groups moves if they stream, in the mean over queries."""
    config, values = model.config, {}
    hooks = [
        layer.self_attn.v_proj.register_forward_hook(
            lambda module, given, output, number=number: values.__setitem__(number, output[0])
        )
        for number, layer in enumerate(model.model.layers)
    ]
    implementation = config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(torch.tensor([ids]), output_attentions=True, use_cache=False).attentions
    model.set_attn_implementation(implementation)
    for hook in hooks:
        hook.remove()
    size, num_groups = config.head_dim, config.num_key_value_heads
    shared, found = config.num_attention_heads // num_groups, []
    for number, layer in enumerate(model.model.layers):
        weight = layer.self_attn.o_proj.weight.detach()
        of_layer = []
        for group in range(num_groups):
            total = 0.0
            value_KD = values[number][:, group * size : (group + 1) * size]
            for query in range(len(ids)):
                moved = torch.zeros(config.hidden_size)
                for head in range(group * shared, (group + 1) * shared):
                    weights = maps[number][0, head, query]
                    seen = [key for key in range(len(ids)) if sees(query, key, 0, sink, recent)]
                    mass = sum(float(weights[key]) for key in seen)
                    full = sum(weights[key] * value_KD[key] for key in range(query + 1))
                    streaming = sum(weights[key] / mass * value_KD[key] for key in seen)
                    moved += weight[:, head * size : (head + 1) * size] @ (full - streaming)
                total += float(moved.norm())
            of_layer.append(total / len(ids))
        found.append(of_layer)
    return found


def kvpress(model: Any, ids: list[int], copies: int) -> list[list[float]]:
    """What kvpress's `duo_attention_on_the_fly` does; rotations are products of complex numbers."""
    config = model.config
    size, num_groups = config.head_dim, config.num_key_value_heads
    shared, found = config.num_attention_heads // num_groups, []
    base = config.rope_parameters["rope_theta"]
    with torch.no_grad():
        states = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
        for layer, hidden in zip(model.model.layers, states.hidden_states[:-1], strict=True):
            read = layer.input_layernorm(hidden[0])
            query = layer.self_attn.q_proj(read).mean(0).tolist()
            key = layer.self_attn.k_proj(read).mean(0).tolist()
            of_layer = []
            for group in range(num_groups):
                mine = key[group * size : (group + 1) * size]
                areas = []
                for head in range(group * shared, (group + 1) * shared):
                    own = query[head * size : (head + 1) * size]
                    scores = [
                        _rotated_product(own, mine, copies - 1 - place, base) / size**0.5
                        for place in range(copies)
                    ]
                    weights = np.exp(scores) / np.exp(scores).sum()
                    areas.append(np.cumsum(weights).mean())
                of_layer.append(float(np.mean(areas)))
            found.append(of_layer)
    return found


def _rotated_product(query: list[float], key: list[float], apart: int, base: float) -> float:
    """The product of a query with a key that stands some places before it, both rotated."""
    half, total = len(query) // 2, 0.0
    for pair in range(half):
        turned = cmath.exp(1j * apart * base ** (-pair / half))
        one = complex(query[pair], query[pair + half])
        other = complex(key[pair], key[pair + half])
        total += (one * turned * other.conjugate()).real
    return total
