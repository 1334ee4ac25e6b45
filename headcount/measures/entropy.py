r"""Entropy: how widely a head spreads its attention.

$$H(h) = -\frac{1}{|Q|} \sum_{q \in Q} \sum_{k \in K} A_h(q, k) \ln A_h(q, k) \in [0, \ln |K|]$$

Q and K are all tokens, including special ones but not padding; in nats.

Reference: What Does BERT Look At? (Clark et al., 2019), section 3.3, https://arxiv.org/abs/1906.04341
Departure: no smoothing (the paper mixes in 0.0001 of a uniform distribution).
"""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import IMAGES, TEXTS, ColumnEntry


@final
@dataclass(frozen=True)
class Entropy(Sums):
    """Mean over all queries of the entropy of the weights, in nats."""

    name = "entropy"
    takes = (TEXTS, IMAGES)
    columns = (
        ColumnEntry(
            "entropy",
            "entropy (nats)",
            "Sharpness",
            "mean entropy of a query's weights, natural log",
            numbers.weight,
            "C 3.3",
        ),
    )
    needs = frozenset({Reduction.ENTROPY})

    entropy: Float[Tensor, " head"]
    """Sum over queries of the entropy."""
    queries: Int[Tensor, ""]
    """Number of queries."""

    @classmethod
    def of(cls, attention: Attention) -> "Entropy":
        """The sums over one batch."""
        is_query_BQ = attention.queries.is_token_BN
        return cls(over_queries(attention.entropy_BHQ, is_query_BQ), is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`entropy`, in nats."""
        return {"entropy": self.entropy / self.queries}
