r"""Folding: the mean output of the pruned heads moves into the bias of the output projection.

$$b \leftarrow b + \sum_{h \text{ pruned}} \bar o_h W_O^h$$

o-bar is the head's mean output over the queries of a data set, in the dense model. So only a head's
deviations from its mean are lost. Folding costs nothing at run time; a projection without a bias
gets one.

Moments of the heads' outputs over a data set, which folding and rescaling need.

$$n, \quad \sum_q o_q, \quad \sum_q o_q o_q^\top, \qquad o_q = [o_{1,q}; \dots; o_{H,q}]$$

They are taken for every attention layer of the dense model, over all queries except padding.

Reference: a constant in place of a head is in Revealing the Dark Secrets of BERT (Kovaleva et al.,
2019), section 4.4, https://arxiv.org/abs/1908.08593
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.compaction import Projection
from headcount.core import MAX_TOKENS, InputError, LayerId, Plan
from headcount.models import Loaded
from headcount.tap import Anatomy, AttentionLayer, copied, evaluating, heard, input_device
from headcount.tasks import Task, TaskBatch


@final
@dataclass(frozen=True, eq=False)
class OutputMoments:
    """Sums over the queries of one layer, which add; O is the heads' dimensions, head by head."""

    queries: int
    output_O: Float64[Tensor, " output"]
    output_OO: Float64[Tensor, "output output"]

    def __add__(self, other: "OutputMoments") -> "OutputMoments":
        return OutputMoments(
            self.queries + other.queries,
            self.output_O + other.output_O,
            self.output_OO + other.output_OO,
        )

    @property
    def mean_O(self) -> Float64[Tensor, " output"]:
        """Mean output of the heads."""
        return self.output_O / self.queries

    def second(self, centred: bool) -> Float64[Tensor, "output output"]:
        """Mean products of outputs, or of their deviations from the mean if centred."""
        mean_O, second_OO = self.mean_O, self.output_OO / self.queries
        return second_OO - torch.outer(mean_O, mean_O) if centred else second_OO


def output_moments(
    model: PreTrainedModel,
    task: Task,
    anatomy: Anatomy,
    max_tokens: int = MAX_TOKENS,
) -> dict[LayerId, OutputMoments]:
    """The moments of every layer.

    Args:
        model: the dense model.
        task: the task, which gives the examples.
        anatomy: anatomy of the model.
        max_tokens: largest number of padded tokens in a batch.

    Raises:
        InputError: if a layer has no output projection of its own.
    """
    check_compensable(anatomy)
    listener = _OutputListener()
    with evaluating(model), torch.inference_mode(), heard(model, anatomy, head_outputs=listener):
        for batch in task.batches(max_tokens):
            listener.batch = batch.to(input_device(model))
            task.losses(model, listener.batch)
    return listener.sums


def check_compensable(anatomy: Anatomy) -> None:
    """Check that every layer has an output projection of its own.

    Raises:
        InputError: if one has not; the error names the module.
    """
    for layer in anatomy.layers:
        if layer.output is None:
            raise InputError(
                f"Expected an output projection after {layer.module} to change its weights, got "
                "none. Leave folding and rescaling out."
            )
    for path, layers in anatomy.by_module().items():
        if len(layers) > 1:
            raise InputError(
                f"Expected layers with weights of their own, got {path}, which is {len(layers)} "
                "layers at once. Leave folding and rescaling out."
            )


class _OutputListener:
    """Sums up the heads' outputs of the announced batch."""

    def __init__(self) -> None:
        self.sums: dict[LayerId, OutputMoments] = {}
        self.batch: TaskBatch | None = None

    def __call__(
        self, layer: AttentionLayer, output_BQHD: Float[Tensor, "batch query head dim"]
    ) -> None:
        """Add one layer's outputs."""
        assert self.batch is not None
        rows_RO = output_BQHD.reshape(-1, layer.num_heads * layer.head_dim)
        is_query_R = self.batch.is_query(layer.site, (len(rows_RO), 1)).flatten()
        output_QO = rows_RO[is_query_R.to(rows_RO.device)].double()
        new = OutputMoments(len(output_QO), output_QO.sum(0), output_QO.T @ output_QO)
        place = layer.layer_id
        self.sums[place] = self.sums[place] + new if place in self.sums else new


def fold(loaded: Loaded, plan: Plan, sums: Mapping[LayerId, OutputMoments]) -> Loaded:
    """A copy of the model whose biases include the mean outputs of the pruned heads.

    The loss of the pruned model can be higher with folding than without.

    Args:
        loaded: the dense model.
        plan: which heads are kept.
        sums: `moments` of the model over the data that gives the means.
    """
    model = copied(loaded.model)
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
