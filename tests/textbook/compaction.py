"""The output of a layer with fewer heads, head by head and token by token."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def kept_heads_output(
    states: Tensor,
    maps: Sequence[tuple[Tensor, Tensor]],
    head_dim: int,
    kept: Sequence[int],
    causal: bool = False,
) -> Tensor:
    """Sum over kept heads of (attention x values) W_O^h, plus the output bias.

    `maps` are weight [out, in] and bias of queries, keys, values and output.
    """
    (w_q, b_q), (w_k, b_k), (w_v, b_v), (w_o, b_o) = maps
    total = torch.stack([b_o.clone() for _ in states])
    for head in kept:
        rows = slice(head * head_dim, (head + 1) * head_dim)
        for i, state in enumerate(states):
            query = w_q[rows] @ state + b_q[rows]
            seen = states[: i + 1] if causal else states
            scores = [
                query @ (w_k[rows] @ other + b_k[rows]) / math.sqrt(head_dim) for other in seen
            ]
            weights = torch.softmax(torch.stack(scores), 0)
            for weight, other in zip(weights, seen, strict=True):
                total[i] += weight * (w_o[:, rows] @ (w_v[rows] @ other + b_v[rows]))
    return total
