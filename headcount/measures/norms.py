r"""Norms: where a head's output comes from, taking into account the size of what is added.

$$f_h(x_j) = (x_j W_V + b_V) W_O^h, \qquad
\mathrm{norm}_c(h) = \frac{\sum_i \sum_{j \in c} A_{ij} \|f_h(x_j)\|}{\sum_i \sum_j A_{ij}
\|f_h(x_j)\|}$$

i and j run over all tokens except padding; c is the first token, separators or punctuation, as in
`surface`. `value_norm` is the mean of ||f_h(x_j)|| over keys, in the model's own unit. The output
bias is excluded, since it belongs to no head.

Reference: Attention is Not Only a Weight (Kobayashi et al., 2020), section 2, https://arxiv.org/abs/2004.10102
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import IMAGES, ColumnEntry

_GROUP = "Norm-weighted"
VALUE_NORM = ColumnEntry(
    "value_norm",
    "norm of the values",
    _GROUP,
    "mean norm of the values, ‖f(x)‖",
    numbers.weight,
    "N 2",
)


@dataclass(frozen=True)
class Norms(Sums):
    """Mean value norm, and the share of the weighted norms on three classes of keys."""

    name = "norms"
    columns = (
        VALUE_NORM,
        ColumnEntry(
            "norm_first",
            "norm share of the first token",
            _GROUP,
            "share of the sum of ‖A f(x)‖ that comes from the first token",
            numbers.percent,
            "N 2",
        ),
        ColumnEntry(
            "norm_sep",
            "norm share of separators",
            _GROUP,
            "share of the sum of ‖A f(x)‖ that comes from separators",
            numbers.percent,
            "N 2",
        ),
        ColumnEntry(
            "norm_punct",
            "norm share of punctuation",
            _GROUP,
            "share of the sum of ‖A f(x)‖ that comes from punctuation",
            numbers.percent,
            "N 2",
        ),
    )
    needs = frozenset({Reduction.VALUE_NORM, Reduction.NORM_MASS})

    value_norm: Float[Tensor, " head"]
    """Sum over keys of ||f(x_j)||."""
    keys: Int[Tensor, ""]
    """Number of keys."""
    weighted: Float[Tensor, "head kind"]
    """Sum over queries and keys of A ||f(x_j)||, in the order of `NORM_MASSES`."""

    @classmethod
    def of(cls, attention: Attention) -> "Norms":
        """The sums over one batch."""
        is_query_BQ = attention.queries.is_token_BN
        is_key_BK = attention.sides.measured_keys.is_token_BN
        weighted = over_queries(attention.norm_masses_BHQM, is_query_BQ)
        value_norm = over_queries(attention.value_norm_BHK, is_key_BK)
        return cls(value_norm, is_key_BK.sum(), weighted)

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`value_norm` and three shares; NaN if no output projection was found."""
        shares = self.weighted[:, 1:] / self.weighted[:, :1]
        return dict(
            zip(Norms.names(), (self.value_norm / self.keys, *shares.unbind(-1)), strict=True)
        )


@final
@dataclass(frozen=True)
class PatchNorms(Norms):
    """Mean value norm, and the share of the weighted norms on the class token, of images."""

    name = "patch_norms"
    takes = (IMAGES,)
    columns = (
        VALUE_NORM,
        ColumnEntry(
            "norm_class",
            "norm share of the class token",
            _GROUP,
            "share of the sum of ‖A f(x)‖ that comes from the class token",
            numbers.percent,
            "N 2",
        ),
    )

    has_class: Int[Tensor, ""]
    """Number of images whose first token is special; 0 in models without a class token."""

    @classmethod
    def of(cls, attention: Attention) -> "PatchNorms":
        """The sums over one batch."""
        keys = attention.keys
        has_class = (keys.is_token_BN & ~keys.is_content_BN)[:, 0].sum()
        return cls(**Norms.of(attention).state(), has_class=has_class)

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """`value_norm` and one share; NaN if no output projection was found."""
        values = super().value()
        has_class = self.has_class > 0
        norm_class = values["norm_first"].where(has_class, torch.nan)
        return {"value_norm": values["value_norm"], "norm_class": norm_class}
