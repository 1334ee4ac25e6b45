"""Visibility: which keys a query sees, under a causal mask or without one.

Sliding windows are not considered: keys outside of a window count as seen, and are never hit.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from headcount.measures.reductions import Sides


def num_visible(is_key_BK: Bool[Tensor, "batch key"], sides: Sides) -> Int[Tensor, "batch query"]:
    """Number of keys of some kind that each query sees."""
    if sides.is_causal:
        return is_key_BK.long().cumsum(1)
    return is_key_BK.sum(1, keepdim=True).expand(sides.queries.ids_BN.shape)


def around(
    is_key_BK: Bool[Tensor, "batch key"], num_queries: int, reach: int, is_causal: bool
) -> Bool[Tensor, "batch query offset"]:
    """Whether the key at each offset from -reach to reach is of some kind, and is seen."""
    missing = max(0, num_queries - is_key_BK.shape[1])
    padded_BK = pad(is_key_BK, (reach, reach + missing))
    around_BQO = padded_BK.unfold(1, 2 * reach + 1, 1)[:, :num_queries].clone()
    if is_causal:
        around_BQO[..., reach + 1 :] = False
    return around_BQO


def far(
    is_key_BK: Bool[Tensor, "batch key"], num_queries: int, reach: int, is_causal: bool
) -> Int[Tensor, "batch query 2"]:
    """Number of keys of some kind more than `reach` before and after each query."""
    before_BK = pad(is_key_BK.long().cumsum(1), (1, 0))  # number of keys before each position
    position_Q = torch.arange(num_queries, device=is_key_BK.device)
    last = before_BK.shape[1] - 1
    left_BQ = before_BK[:, (position_Q - reach).clamp(0, last)]
    right_BQ = before_BK[:, -1:] - before_BK[:, (position_Q + reach + 1).clamp_max(last)]
    return torch.stack([left_BQ, torch.zeros_like(right_BQ) if is_causal else right_BQ], -1)
