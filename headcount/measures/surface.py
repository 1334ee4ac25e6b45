r"""Surface: how much attention goes to the token itself, to neighbours, and to kinds of tokens.

$$\mathrm{attn}_c(h) = \frac{1}{|Q|} \sum_{q \in Q} \sum_{k \in c(q)} A_h(q, k) \in [0, 1]$$

Q is all tokens, including special ones but not padding. c(q) is the token at the same, the previous
or the next index, the first token, all separators ([SEP], </s>: the tokenizer's separator and
end-of-sentence tokens), or all punctuation; if there is none, the weight counts as 0. In
cross-attention the index is that of the other sequence.

Reference: What Does BERT Look At? (Clark et al., 2019), section 3, https://arxiv.org/abs/1906.04341
Departure: punctuation is every token of Unicode category P; the paper counts periods and commas.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import OFFSETS, Attention
from headcount.measures.sums import Sums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import WEIGHTS, ColumnEntry

ON_ITSELF = ColumnEntry(
    "attn_self",
    "weight on itself",
    WEIGHTS,
    "mean weight on the token itself",
    numbers.percent,
    "C 3.1",
)


@final
@dataclass(frozen=True)
class Surface(Sums):
    """Mean over all queries of the weight on six kinds of keys."""

    name = "surface"
    columns = (
        ON_ITSELF,
        ColumnEntry(
            "attn_prev",
            "weight on the previous token",
            WEIGHTS,
            "mean weight on the token before",
            numbers.percent,
            "C 3.1",
        ),
        ColumnEntry(
            "attn_next",
            "weight on the next token",
            WEIGHTS,
            "mean weight on the token after",
            numbers.percent,
            "C 3.1",
        ),
        ColumnEntry(
            "attn_first",
            "weight on the first token",
            WEIGHTS,
            "mean weight on the first token",
            numbers.percent,
            "C 3.2",
            rests="first token",
            norm="norm_first",
        ),
        ColumnEntry(
            "attn_sep",
            "weight on separators",
            WEIGHTS,
            "mean weight on separator tokens",
            numbers.percent,
            "C 3.2",
            rests="separators",
            norm="norm_sep",
        ),
        ColumnEntry(
            "attn_punct",
            "weight on punctuation",
            WEIGHTS,
            "mean weight on punctuation",
            numbers.percent,
            "C 3.2",
            rests="punctuation",
            norm="norm_punct",
        ),
    )
    needs = frozenset({Reduction.DIAGONALS, Reduction.FIRST, Reduction.MASS})

    weight: Float[Tensor, "head kind"]
    """Sum over queries of the weight on each kind, in the order of `columns`."""
    queries: Int[Tensor, ""]
    """Number of queries."""

    @classmethod
    def of(cls, attention: Attention) -> "Surface":
        """The sums over one batch."""
        is_query_BQ = attention.queries.is_token_BN
        neighbours_HO = over_queries(attention.diagonals_BHQO, is_query_BQ).unbind(-1)
        kinds = [neighbours_HO[OFFSETS.index(offset)] for offset in (0, -1, 1)]
        kinds.append(over_queries(attention.first_BHQ, is_query_BQ))
        masses_HM = over_queries(attention.masses_BHQM, is_query_BQ)
        return cls(torch.stack([*kinds, *masses_HM.unbind(-1)], -1), is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """The six shares, each between 0 and 1."""
        return dict(zip(self.names(), (self.weight / self.queries).unbind(-1), strict=True))
