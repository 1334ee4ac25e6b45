r"""Jensen-Shannon divergence between the attention of all heads, added up block by block.

$$\mathrm{JS}(A_i, A_j) = \sum_q H\!\left(\tfrac{p_i + p_j}{2}\right) - \tfrac{1}{2} H(p_i) -
\tfrac{1}{2} H(p_j), \qquad p = 0.999\,A(q, \cdot) + 0.001 / n$$

in nats, over all queries q of a text, special tokens included; n is the number of its tokens that
can be attended to, and H the entropy. Its mean over queries lies between 0 and $\ln 2$.

Reference: What Does BERT Look At? (Clark et al., 2019), section 6, https://arxiv.org/abs/1906.04341
"""

from dataclasses import dataclass, field
from math import log
from typing import final

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

SMOOTHING = 0.001
"""Share of the uniform distribution that is mixed in."""

_CHUNK = 4096
"""Number of weights of each head that are compared at a time; they stay in the cache."""


@final
@dataclass
class Divergence:
    """Sums over queries for the heads of one site, which add."""

    num_heads: int
    mixed_HH: Float64[Tensor, "head head"] = field(init=False)
    """Sum of $-(p_i + p_j) \\ln(p_i + p_j)$ over queries and keys, above the diagonal."""
    alone_H: Float64[Tensor, " head"] = field(init=False)
    """Sum over queries of each head's entropy."""
    num_queries: int = 0

    def __post_init__(self) -> None:
        self.mixed_HH = torch.zeros(self.num_heads, self.num_heads, dtype=torch.float64)
        self.alone_H = torch.zeros(self.num_heads, dtype=torch.float64)

    def add(
        self,
        weights_HBQK: Float[Tensor, "head batch query key"],
        is_query_BQ: Bool[Tensor, "batch query"],
        is_key_BK: Bool[Tensor, "batch key"],
    ) -> None:
        """Add the queries of some texts.

        Args:
            weights_HBQK: the weights of all heads of the site.
            is_query_BQ: which queries count.
            is_key_BK: which keys there are.
        """
        num_keys_B1K = is_key_BK.sum(1)[:, None, None].expand(-1, 1, is_key_BK.shape[1])
        counts_BQK = is_query_BQ[:, :, None] & is_key_BK[:, None]
        uniform_M = (SMOOTHING / num_keys_B1K).expand(counts_BQK.shape)[counts_BQK]
        self.num_queries += int(is_query_BQ.sum())
        places_M = counts_BQK.flatten().nonzero().squeeze(1)
        flat_HN = weights_HBQK.flatten(1)
        buffers = torch.empty(2, self.num_heads, _CHUNK, dtype=flat_HN.dtype, device=flat_HN.device)
        for start in range(0, len(places_M), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            p_HM = flat_HN[:, places_M[chunk]].mul_(1 - SMOOTHING).add_(uniform_M[chunk])
            self.alone_H -= (p_HM * p_HM.log()).sum(1).double().cpu()
            both, logs = buffers[:, :, : p_HM.shape[1]]
            for head in range(self.num_heads - 1):
                later = slice(head + 1, None)
                torch.add(p_HM[later], p_HM[head], out=both[later])
                torch.log(both[later], out=logs[later])
                self.mixed_HH[head, later] -= both[later].mul_(logs[later]).sum(1).double().cpu()

    def mean(self) -> Float64[Tensor, "head head"]:
        """Mean divergence over queries between every two heads, in nats."""
        # -y/2 ln(y/2) = (-y ln y + y ln 2) / 2, and y adds up to 2 over the keys of a query
        upper_HH = self.mixed_HH / 2 + self.num_queries * log(2)
        upper_HH = (upper_HH - (self.alone_H[:, None] + self.alone_H) / 2).triu(1).clamp_min(0)
        return (upper_HH + upper_HH.T) / max(1, self.num_queries)
