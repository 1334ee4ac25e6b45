r"""The rule of `alpha_beta` for attention, as one module from queries, keys and values to outputs.

$$o_{id} = \sum_j A_{ij} v_{jd}, \quad A_i = \mathrm{softmax}_j(s \, q_i \cdot k_j + m_{ij}), \quad
\frac{\partial o_{id}}{\partial (q_i \cdot k_j)} = C_{ijd} = s A_{ij} (v_{jd} - o_{id})$$

So the contributions to $o_{id}$ are $A_{ij} v_{jd}$ for a value's number, $C_{ijd} q_{ie} k_{je}$
for a key's and $\sum_j C_{ijd} k_{je} q_{ie}$ for a query's. The first two are products, whose signs
follow from their factors, so the Jacobian with its $(ND)^2$ numbers is never made. The largest
tensor is C with $N^2 D$ numbers, which is made in blocks.

Reference: Analyzing the Source and Target Contributions to Predictions in Neural Machine Translation (Voita et al., 2021), section 2 and the authors' code, https://arxiv.org/abs/2010.10907
"""  # noqa: E501

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.importance.lrp.rules import (
    BLOCK,
    Function,
    by_sign,
    per_contribution,
    scaled_by_head,
    shared,
    wants_relevance,
)


def attention(
    function: Function,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The rule for torch's `scaled_dot_product_attention`, whose arguments it takes."""
    assert not is_causal, "masks must be explicit"
    assert not dropout_p, "dropout must be 0"
    inputs = (query, key, value)
    q, k, v = (each.detach() for each in inputs)
    mask = None if attn_mask is None else attn_mask.detach()

    def back(R: Tensor) -> list[Tensor]:
        # Key and value heads are repeated for the query heads that share them, then summed
        q_BHQD, k_BHKD, v_BHKD = (
            each.repeat_interleave(q.shape[1] // each.shape[1], 1).to(R.dtype) for each in (q, k, v)
        )
        parts = _relevance(q_BHQD, k_BHKD, v_BHKD, _bias(mask, R), scale, R)
        pairs = zip(scaled_by_head(parts, R), inputs, strict=True)
        return [
            part.unflatten(1, (each.shape[1], -1)).sum(2)
            for part, each in pairs
            if wants_relevance(each)
        ]

    return shared(
        lambda: function(q, k, v, attn_mask=mask, scale=scale, enable_gqa=enable_gqa),
        back,
        *[each for each in inputs if wants_relevance(each)],
    )


def _bias(mask: Tensor | None, like: Tensor) -> Tensor:
    """The mask as numbers that are added to the scores."""
    if mask is None:
        return like.new_zeros(1, 1, 1, 1)
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -torch.inf)


def _relevance(
    q_BHQD: Tensor, k_BHKD: Tensor, v_BHKD: Tensor, bias: Tensor, scale: float | None, R: Tensor
) -> list[Tensor]:
    """Relevance of queries, keys and values, in blocks of rows, heads and queries."""
    batch, num_heads, num_queries, dim = q_BHQD.shape
    num_keys = k_BHKD.shape[2]
    bias = bias.expand(batch, num_heads, num_queries, num_keys).flatten(0, 1)
    q, k, v, R = (each.flatten(0, 1) for each in (q_BHQD, k_BHKD, v_BHKD, R))
    found = [torch.zeros_like(each) for each in (q, k, v)]
    scaling = dim**-0.5 if scale is None else scale
    per_query = v.shape[-1] * (num_keys + dim)
    queries = max(1, min(num_queries, BLOCK // per_query))
    heads = max(1, BLOCK // (queries * per_query))
    for g in range(0, len(q), heads):
        for i in range(0, num_queries, queries):
            cut = slice(g, g + heads), slice(i, i + queries)
            parts = _of_block(q[cut], k[cut[0]], v[cut[0]], bias[cut], scaling, R[cut])
            for whole, place, part in zip(found, (cut, cut[0], cut[0]), parts, strict=True):
                whole[place] += part
    return [each.unflatten(0, (batch, num_heads)) for each in found]


def _of_block(
    q_GQD: Float[Tensor, "head query dim"],
    k_GKD: Float[Tensor, "head key dim"],
    v_GKE: Float[Tensor, "head key value_dim"],
    bias_GQK: Float[Tensor, "head query key"],
    scaling: float,
    R_GQE: Float[Tensor, "head query value_dim"],
) -> tuple[Tensor, Tensor, Tensor]:
    """The shares of one block, before scaling."""
    scores_GQK = q_GQD @ k_GKD.mT * scaling + bias_GQK
    weights_GQK = scores_GQK.softmax(-1).nan_to_num(0)  # NaN if a query may see no key
    output_GQE = weights_GQK @ v_GKE
    slope_GQKE = (weights_GQK * scaling)[..., None] * (v_GKE[:, None] - output_GQE[:, :, None])
    (q_plus, q_minus), (k_plus, k_minus) = by_sign(q_GQD), by_sign(k_GKD)
    (v_plus, v_minus), (slope_plus, slope_minus) = by_sign(v_GKE), by_sign(slope_GQKE)
    alike_GQK1 = (q_plus @ k_plus.mT + q_minus @ k_minus.mT)[..., None]
    unlike_GQK1 = (q_plus @ k_minus.mT + q_minus @ k_plus.mT)[..., None]
    query_GQED = slope_GQKE.mT @ k_GKD[:, None] * q_GQD[:, :, None]
    query_plus, query_minus = by_sign(query_GQED)

    plus_GQE = (slope_plus * alike_GQK1 + slope_minus * unlike_GQK1).sum(2)
    minus_GQE = (slope_plus * unlike_GQK1 + slope_minus * alike_GQK1).sum(2)
    for_plus, for_minus = per_contribution(
        R_GQE,
        plus_GQE + weights_GQK @ v_plus + query_plus.sum(-1),
        minus_GQE + weights_GQK @ v_minus + query_minus.sum(-1),
    )
    a, b = for_plus[:, :, None], for_minus[:, :, None]
    R_query = (a @ query_plus + b @ query_minus)[:, :, 0]
    for_alike = (slope_plus * a + slope_minus * b).sum(-1)
    for_unlike = (slope_minus * a + slope_plus * b).sum(-1)
    R_key = k_plus * (for_alike.mT @ q_plus + for_unlike.mT @ q_minus)
    R_key += k_minus * (for_alike.mT @ q_minus + for_unlike.mT @ q_plus)
    R_value = v_plus * (weights_GQK.mT @ for_plus) + v_minus * (weights_GQK.mT @ for_minus)
    return R_query, R_key, R_value
