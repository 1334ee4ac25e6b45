r"""Confidence: how sharply a head looks at one token.

$$\mathrm{conf}(h) = \frac{1}{|Q|} \sum_{q \in Q} \max_{k \in K} A_h(q, k) \in (0, 1]$$

Q and K are content tokens: special tokens and padding are excluded on both sides, and the remaining
weights are not normalised again. Special tokens can be included on either side.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
Departure: the paper excludes only the end-of-sentence symbol, the one special token of its
    models.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import IMAGES, TEXTS, ColumnEntry


@dataclass(frozen=True)
class Confidence(Sums):
    """Mean over content queries of the largest weight on a content key."""

    name = "confidence"
    takes = (TEXTS, IMAGES)
    columns = (
        ColumnEntry(
            "confidence",
            "confidence",
            "Sharpness",
            "mean over queries of the largest weight",
            numbers.weight,
            "V 4",
        ),
    )
    needs = frozenset({Reduction.PEAK})
    exclude_keys: ClassVar[bool] = True
    """Whether special tokens are excluded as keys."""
    exclude_queries: ClassVar[bool] = True
    """Whether special tokens are excluded as queries."""

    peak: Float[Tensor, " head"]
    """Sum over queries of the largest weight."""
    queries: Int[Tensor, ""]
    """Number of queries."""

    @classmethod
    def of(cls, attention: Attention) -> "Confidence":
        """The sums over one batch."""
        peak_BHQ, queries = attention.peak_BHQ, attention.queries
        if not cls.exclude_keys:
            peak_BHQ = torch.maximum(peak_BHQ, attention.peak_special_BHQ)
        is_query_BQ = queries.is_content_BN if cls.exclude_queries else queries.is_token_BN
        return cls(over_queries(peak_BHQ, is_query_BQ), is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`confidence`, between 0 and 1."""
        return {"confidence": self.peak / self.queries}


@final
class ConfidenceOnAllKeys(Confidence):
    """Mean over content queries of the largest weight on any key."""

    needs = frozenset({Reduction.PEAK, Reduction.PEAK_SPECIAL})
    exclude_keys = False


@final
class ConfidenceOfAllQueries(Confidence):
    """Mean over all queries of the largest weight on a content key."""

    exclude_queries = False


@final
class ConfidenceOfAll(Confidence):
    """Mean over all queries of the largest weight on any key."""

    needs = frozenset({Reduction.PEAK, Reduction.PEAK_SPECIAL})
    exclude_keys = exclude_queries = False


def confidence_variant(exclude_keys: bool = True, exclude_queries: bool = True) -> type[Confidence]:
    """The confidence measure that excludes or includes special tokens as keys and as queries."""
    ways = (Confidence, ConfidenceOnAllKeys, ConfidenceOfAllQueries, ConfidenceOfAll)
    wanted = (exclude_keys, exclude_queries)
    return next(way for way in ways if (way.exclude_keys, way.exclude_queries) == wanted)
