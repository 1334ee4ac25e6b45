"""The first token: which queries say something about whether a head looks at it.

A head that looks at the first token may look at what is near, or at what is rare. So these queries
are no cases: the first token and its neighbour, the first `EARLY` queries of a causal model, which
see few keys but the first, and those of which the first token is one of the two rarest that they
see.
"""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from headcount.corpora.frequencies import NOWHERE

EARLY = 10
"""Number of first queries of a causal model that are no cases: they see few keys but the first."""

FIRST_TOKENS = f"rarest-{EARLY}"
"""Name of this convention in signatures."""


def rarest_so_far(
    count_BN: Int64[Tensor, "batch token"],
    is_content_BN: Bool[Tensor, "batch token"],
    is_rare_BN: Bool[Tensor, "batch token"],
) -> Int64[Tensor, "batch token 2"]:
    """Positions of the two rarest content tokens up to each token, as `Frequencies.rarest`."""
    num_tokens = count_BN.shape[1]
    position_N = torch.arange(num_tokens, device=count_BN.device)
    never = torch.iinfo(torch.int64).max
    # The earlier is the rarer in a tie
    order_BN = (count_BN * num_tokens + position_N).masked_fill(~is_content_BN, never)
    rarest_BN = order_BN.cummin(1).values
    before_BN = torch.cat([torch.full_like(rarest_BN[:, :1], never), rarest_BN[:, :-1]], 1)
    second_BN = torch.maximum(order_BN, before_BN).cummin(1).values
    found_BN2 = torch.stack([rarest_BN, second_BN], -1)
    place_BN2 = torch.where(found_BN2 == never, NOWHERE, found_BN2 % num_tokens)
    has_rare_BN = is_rare_BN.gather(1, place_BN2[..., 0].clamp_min(0))
    return place_BN2.masked_fill(~has_rare_BN[..., None], NOWHERE)


def first_cases(
    rarest_BQ2: Int64[Tensor, "batch query 2"], is_causal: bool, is_self: bool = True
) -> Bool[Tensor, "batch query"]:
    """Which queries are cases of attention to the first token.

    Args:
        rarest_BQ2: positions of the two rarest content tokens that each query sees.
        is_causal: whether queries see no later tokens.
        is_self: whether the first query stands at the first token.
    """
    position_Q = torch.arange(rarest_BQ2.shape[1], device=rarest_BQ2.device)
    least = EARLY if is_causal else 2 if is_self else 0
    return (rarest_BQ2 != 0).all(-1) & (position_Q >= least)
