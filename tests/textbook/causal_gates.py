"""Causal head gating by definition: one set of gates, one example and one head at a time.

Reference: Causal Head Gating (Nam et al., 2025), section 3, https://arxiv.org/abs/2505.13737
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Loss = Callable[[int, Tensor], Tensor]
"""The loss by term of an example, by its number, under gates of all heads."""


def logits_after(
    start: Sequence[float],
    loss: Loss,
    updates: Sequence[Sequence[int]],
    reward: float,
    rate: float,
) -> list[float]:
    """Logits of gates after updates by Adam, each on some examples.

    A positive reward is for open gates, a negative one for closed gates.
    """
    w, m, v = [list(each) for each in (start, [0.0] * len(start), [0.0] * len(start))]
    for t, examples in enumerate(updates, 1):
        leaf = torch.tensor(w, dtype=torch.float64, requires_grad=True)
        gates = torch.stack([1 / (1 + torch.exp(-each)) for each in leaf])
        nll = torch.stack([loss(example, gates) for example in examples]).sum() / len(examples)
        (slope,) = torch.autograd.grad(nll, leaf)
        gradient = [
            float(slope[h]) - (reward / len(w) if -4 <= w[h] <= 4 else 0.0) for h in range(len(w))
        ]
        norm = math.sqrt(sum(each**2 for each in gradient))
        for h, each in enumerate(gradient):
            g = each / max(norm, 1)
            m[h] = 0.9 * m[h] + 0.1 * g
            v[h] = 0.999 * v[h] + 0.001 * g**2
            step = (m[h] / (1 - 0.9**t)) / (math.sqrt(v[h] / (1 - 0.999**t)) + 1e-8)
            w[h] -= rate * step
    return w


def kinds(opened: float, closed: float) -> tuple[float, float, float]:
    """How far a head is facilitating, interfering and irrelevant.

    Args:
        opened: its gate after training with a reward for open gates.
        closed: its gate after training with a reward for closed gates.
    """
    return closed, 1 - opened, opened * (1 - closed)
