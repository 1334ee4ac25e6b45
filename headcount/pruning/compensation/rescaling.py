r"""Rescaling: the kept heads are scaled so that the layer's output stays close to the dense one.

$$\min_s \sum_q \Big\| \sum_h o_{h,q} W_O^h
- \sum_{h \text{ kept}} s_h\, o_{h,q} W_O^h - c \Big\|^2$$

It is solved by its normal equations from the mean products of the heads' outputs. There is one
scale for every head (`head`), one for every dimension of a head's output (`dimension`), or a new
map in place of W_O (`map`). c is a constant, folded into the bias (`fold`), or 0. Scales are folded
into W_O.

Reference: A Fast Post-Training Pruning Framework for Transformers (Kwon et al., 2022), section 4.3,
https://arxiv.org/abs/2204.09656
Departure: one pass over the model solves all layers; the inputs of a layer are those of the dense
model, not of the pruned one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from headcount.compaction import Projection
from headcount.core import LayerId, Plan
from headcount.models import Loaded
from headcount.pruning.compensation.folding import OutputMoments, pruned_outputs
from headcount.tap import AttentionLayer, copied

Per = Literal["head", "dimension", "map"]
RIDGE = 1e-6
"""Ridge that keeps the normal equations solvable, as a share of their mean diagonal."""


def rescale(
    loaded: Loaded,
    plan: Plan,
    sums: Mapping[LayerId, OutputMoments],
    per: Per = "head",
    fold: bool = True,
) -> Loaded:
    """A copy of the model whose output projections compensate for the pruned heads.

    Args:
        loaded: the dense model.
        plan: which heads are kept.
        sums: `moments` of the model over the data on which the scales are solved.
        per: what each scale applies to.
        fold: whether the bias absorbs a constant too.
    """
    model = copied(loaded.model)
    for layer in loaded.anatomy.layers:
        pruned_O = pruned_outputs(plan, loaded, layer)
        if not pruned_O.any():
            continue
        projection, moment = Projection.of(model, layer), sums[layer.layer_id]
        old_OM = projection.weight_OM
        new_OM = (
            old_OM
            if pruned_O.all()
            else _remade(moment, old_OM, pruned_O == 0, per=per, centred=fold, layer=layer)
        )
        projection.write(new_OM)
        if fold:
            kept_O = 1 - pruned_O
            projection.add_bias(moment.mean_O @ old_OM - (moment.mean_O * kept_O) @ new_OM)
    return replace(loaded, model=model)


def _remade(
    moment: OutputMoments,
    weight_OM: Float64[Tensor, "output hidden"],
    kept_O: Tensor,
    per: Per,
    centred: bool,
    layer: AttentionLayer,
) -> Float64[Tensor, "output hidden"]:
    """The output projection that fits best; rows of pruned heads don't matter."""
    if per == "map":
        return _new_map(moment, weight_OM, kept_O, centred)
    width = layer.head_dim if per == "head" else 1
    return _scales(moment, weight_OM, kept_O, width, centred)[:, None] * weight_OM


def _scales(
    moment: OutputMoments,
    weight_OM: Float64[Tensor, "output hidden"],
    kept_O: Tensor,
    width: int,
    centred: bool,
) -> Float64[Tensor, " output"]:
    """The best scale for every `width` dimensions of kept heads; 1 for those of pruned heads."""
    # <o_i W_i, o_j W_j> over all queries is the mean product of o_i and o_j times <W_i, W_j>
    product_OO = moment.second(centred) * (weight_OM @ weight_OM.T)
    blocks_GG = product_OO.unflatten(0, (-1, width)).unflatten(2, (-1, width)).sum((1, 3))
    kept_G = kept_O[::width]
    scale_G = torch.ones_like(blocks_GG[0])
    scale_G[kept_G] = _solved(blocks_GG[kept_G][:, kept_G], blocks_GG[kept_G].sum(1)[:, None])[:, 0]
    return scale_G.repeat_interleave(width)


def _new_map(
    moment: OutputMoments,
    weight_OM: Float64[Tensor, "output hidden"],
    kept_O: Tensor,
    centred: bool,
) -> Float64[Tensor, "output hidden"]:
    """The best map from the kept heads' outputs; rows of pruned heads are not changed."""
    second_OO = moment.second(centred)
    new_OM = weight_OM.clone()
    new_OM[kept_O] = _solved(second_OO[kept_O][:, kept_O], second_OO[kept_O] @ weight_OM)
    return new_OM


def _solved(
    left_GG: Float64[Tensor, "scale scale"], right_GM: Float64[Tensor, "scale many"]
) -> Float64[Tensor, "scale many"]:
    ridge = RIDGE * left_GG.diagonal().mean().clamp_min(1e-30)
    return torch.linalg.solve(left_GG + ridge * torch.eye(len(left_GG)).to(left_GG), right_GM)
