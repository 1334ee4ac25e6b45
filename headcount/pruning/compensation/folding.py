r"""Folding: the mean output of the pruned heads moves into the bias of the output projection.

$$b \leftarrow b + \sum_{h \text{ pruned}} \bar o_h W_O^h$$

o-bar is the head's mean output over the queries of a data set, in the dense model. So only a head's
deviations from its mean are lost. Folding costs nothing at run time; a projection without a bias
gets one.

Reference: a constant in place of a head is in Revealing the Dark Secrets of BERT (Kovaleva et al.,
2019), section 4.4, https://arxiv.org/abs/1908.08593
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from headcount.compaction import Projection
from headcount.core import LayerId, Plan
from headcount.models import Loaded
from headcount.pruning.compensation.output_moments import OutputMoments
from headcount.tap import AttentionLayer


def fold(loaded: Loaded, plan: Plan, sums: Mapping[LayerId, OutputMoments]) -> Loaded:
    """A copy of the model whose biases include the mean outputs of the pruned heads.

    The loss of the pruned model can be higher with folding than without.

    Args:
        loaded: the dense model.
        plan: which heads are kept.
        sums: `moments` of the model over the data that gives the means.
    """
    model = copy.deepcopy(loaded.model)
    for layer in loaded.anatomy.layers:
        pruned_O = pruned_outputs(plan, loaded, layer)
        if not pruned_O.any():
            continue
        projection = Projection.of(model, layer)
        lost_O = sums[layer.layer_id].mean_O * pruned_O
        projection.add_bias(lost_O @ projection.weight_OM)
    return replace(loaded, model=model)


def pruned_outputs(plan: Plan, loaded: Loaded, layer: AttentionLayer) -> Float64[Tensor, " output"]:
    """1 for every output dimension of a pruned head, 0 for those of kept heads."""
    where = Projection.of(loaded.model, layer).device
    is_kept_H = torch.zeros(layer.num_heads, dtype=torch.float64, device=where)
    is_kept_H[list(plan.of_layer(loaded.heads, layer.site, layer.layer))] = 1
    return (1 - is_kept_H).repeat_interleave(layer.head_dim)
