r"""Positional: how often a head looks at one fixed offset.

$$\mathrm{share}(h, o) = \frac{|\{q \in Q : \arg\max_{k \in K} A_h(q, k) = q + o\}|}{|Q|}$$

Q and K are content tokens of sentences that have both. The offset o is key minus query in tokens,
counting special ones. A head is positional when one offset has nearly all queries.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 5.1, https://arxiv.org/abs/1905.09418
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums
from headcount.measures.units import counts, most_frequent
from headcount.tap import Reduction
from headcount.vocabulary import ColumnEntry


@final
@dataclass(frozen=True)
class Positional(Sums):
    """Histogram of the offset of the largest weight, for every head."""

    name = "positional"
    columns = (
        ColumnEntry(
            "positional_offset",
            "most frequent offset",
            "Position",
            "key minus query, in tokens",
            numbers.signed,
            "V 5.1",
            has_signs=True,
        ),
        ColumnEntry(
            "positional_share",
            "share at that offset",
            "Position",
            "share of queries whose largest weight lies at the most frequent offset",
            numbers.percent,
            "V 5.1",
        ),
    )
    needs = frozenset({Reduction.PEAK_KEY})

    offsets: Int[Tensor, "head offset"]
    """Number of queries whose largest weight lies at each offset; offset 0 is in the middle."""

    @classmethod
    def of(cls, attention: Attention) -> "Positional":
        """The sums over one batch."""
        _, num_heads, num_queries = attention.peak_key_BHQ.shape
        reach = max(num_queries, attention.keys.ids_BN.shape[1]) - 1
        width = 2 * reach + 1
        position_Q = torch.arange(num_queries, device=attention.peak_key_BHQ.device)
        first_H1 = width * torch.arange(num_heads, device=position_Q.device)[:, None]
        bin_BHQ = attention.peak_key_BHQ + (first_H1 + (reach - position_Q))
        has_key_B1 = attention.keys.is_content_BN.any(1, keepdim=True)
        is_query_BQ = attention.queries.is_content_BN & has_key_B1
        num_bins = num_heads * width
        bin_BHQ.masked_fill_(~is_query_BQ[:, None], num_bins)  # one more bin, for the others
        return cls(counts(bin_BHQ, num_bins + 1)[:num_bins].view(num_heads, width))

    def shares(self) -> Float[Tensor, "head offset"]:
        """The offset profile: share of queries at each offset, offset 0 in the middle."""
        return self.offsets.double() / self.offsets.sum(-1, keepdim=True)

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`positional_offset`, the most frequent offset (the nearest in a tie), and its share."""
        share, best = most_frequent(self.shares())
        offset = best.double().masked_fill(share.isnan(), torch.nan)
        return {"positional_offset": offset, "positional_share": share}
