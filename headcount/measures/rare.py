r"""Rare tokens: how often a head looks at the least frequent token of the sentence.

$$\mathrm{rare}(h) = \frac{|\{q \in Q : \arg\max_{k \in K} A_h(q, k) = r\}|}{|Q|}$$

Q and K are content tokens of the sentences whose least frequent token r is outside the 500 most
frequent of the corpus; in a tie, r is the earlier token. `rare2_share` counts the two least
frequent tokens.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 5.3, https://arxiv.org/abs/1905.09418
"""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import ColumnEntry

_GROUP = "Rare words"


@final
@dataclass(frozen=True)
class Rare(Sums):
    """Share of content queries whose largest weight is on the rarest, or one of the two rarest."""

    name = "rare"
    columns = (
        ColumnEntry(
            "rare_share",
            "share at the rarest token",
            _GROUP,
            "share of queries whose largest weight is on the sentence's rarest token",
            numbers.percent,
            "V 5.3",
        ),
        ColumnEntry(
            "rare2_share",
            "share at the two rarest",
            _GROUP,
            "share of queries whose largest weight is on one of the two rarest tokens",
            numbers.percent,
            "V 5.3",
        ),
        ColumnEntry(
            "rare_cases",
            "queries counted for rare words",
            _GROUP,
            "queries of sentences that have a token outside the 500 most frequent",
            numbers.count,
            "V 5.3",
        ),
    )
    needs = frozenset({Reduction.PEAK_KEY})

    rarest: Float[Tensor, " head"]
    """Number of queries that look at the rarest token."""
    two_rarest: Float[Tensor, " head"]
    """Number of queries that look at one of the two rarest tokens."""
    queries: Int[Tensor, ""]
    """Number of queries in sentences whose rarest token is rare enough."""

    @classmethod
    def of(cls, attention: Attention) -> "Rare":
        """The sums over one batch."""
        rarest_B11, second_B11 = attention.keys.rarest_B2[:, :, None, None].unbind(1)
        is_query_BQ = attention.queries.is_content_BN & (rarest_B11[..., 0] >= 0)
        at_rarest_BHQ = attention.peak_key_BHQ == rarest_B11
        at_second_BHQ = attention.peak_key_BHQ == second_B11
        found = (at_rarest_BHQ, at_rarest_BHQ | at_second_BHQ)
        rarest, two_rarest = (over_queries(each, is_query_BQ) for each in found)
        return cls(rarest, two_rarest, is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`rare_share`, `rare2_share` and the number of queries that they refer to."""
        cases = self.queries.double().expand_as(self.rarest)
        shares = (self.rarest / cases, self.two_rarest / cases)
        return dict(zip(self.names(), (*shares, cases), strict=True))
