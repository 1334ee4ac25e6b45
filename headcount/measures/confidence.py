r"""Confidence: how sharply a head looks at one token.

$$\mathrm{conf}(h) = \frac{1}{|Q|} \sum_{q \in Q} \max_{k \in K} A_h(q, k) \in (0, 1]$$

Q and K are content tokens: special tokens and padding are left out on both sides, and the weights
on what is left are not normalised again.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
Departure: the paper leaves out the end-of-sentence symbol only, the one special token of its
    models.
"""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from headcount.attention import Attention
from headcount.measures.sums import Sums, over_queries


@final
@dataclass(frozen=True)
class Confidence(Sums):
    """Mean over content queries of the largest weight on a content key."""

    columns = ("confidence",)

    peak: Float[Tensor, " head"]
    """Sum over queries of the largest weight."""
    queries: Int[Tensor, ""]
    """Number of queries."""

    @classmethod
    def of(cls, attention: Attention) -> "Confidence":
        """The sums over one batch."""
        is_query_BQ = attention.queries.is_content_BN
        return cls(over_queries(attention.peak_BHQ, is_query_BQ), is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`confidence`, between 0 and 1."""
        return {"confidence": self.peak / self.queries}
