r"""Learned sink: how much of a head's attention goes to no token.

$$\mathrm{attn}_\mathrm{none}(h) = \frac{1}{|Q|} \sum_{q \in Q} \Big(1 - \sum_{k} A_h(q, k)\Big)
\in [0, 1]$$

Q is all tokens, including special ones but not padding; k runs over all keys. A head with a learned
sink has one more logit in every softmax, which belongs to no key and has no value. What it takes is
neither the weight on the first token, which is a key, nor part of any other number of the head.

Reference: gpt-oss-120b & gpt-oss-20b Model Card (OpenAI, 2025), section 2.2, https://arxiv.org/abs/2508.10925
"""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import WEIGHTS, ColumnEntry


@final
@dataclass(frozen=True)
class LearnedSink(Sums):
    """Mean over all queries of the weight that goes to no key."""

    name = "learned_sink"
    columns = (
        ColumnEntry(
            "attn_none",
            "weight on the learned sink (no token)",
            WEIGHTS,
            "mean weight that goes to no token, which a learned sink takes",
            numbers.percent,
            "[gpt-oss](https://arxiv.org/abs/2508.10925) 2",
            rests="learned sink (no token)",
        ),
    )
    needs = frozenset({Reduction.NONE})

    none: Float[Tensor, " head"]
    """Sum over queries of what their weights lack to 1."""
    queries: Int[Tensor, ""]
    """Number of queries."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Layers with a learned sink only."""
        return attention.layer.has_learned_sink

    @classmethod
    def of(cls, attention: Attention) -> "LearnedSink":
        """The sums over one batch."""
        is_query_BQ = attention.queries.is_token_BN
        return cls(over_queries(attention.none_BHQ, is_query_BQ), is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`attn_none`, between 0 and 1; rounding below 0 is cut off."""
        return {"attn_none": (self.none / self.queries).clamp(0, 1)}
