r"""Reconstruction: a layer's output is made up for what is pruned from it, by least squares.

Folding: the mean output of the pruned heads moves into the bias of the output projection.

$$b \leftarrow b + \sum_{h \text{ pruned}} \bar o_h W_O^h$$

o-bar is the head's mean output over the queries of a data set, in the dense model. So only a head's
deviations from its mean are lost. Folding costs nothing at run time; a projection without a bias
gets one.

Moments of the heads' outputs over a data set, which folding and rescaling need.

$$n, \quad \sum_q o_q, \quad \sum_q o_q o_q^\top, \qquad o_q = [o_{1,q}; \dots; o_{H,q}]$$

They are taken for every attention layer of the dense model, over all queries except padding. Where
neurons are pruned, too, the same is done for the second map of each feed-forward network, as if
each neuron were a head of one dimension.

Reference: a constant in place of a head is in Revealing the Dark Secrets of BERT (Kovaleva et al.,
2019), section 4.4, https://arxiv.org/abs/1908.08593

Rescaling: the kept heads are scaled so that the layer's output stays close to the dense one.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.compaction import FeedForward, Projection, kept_neurons
from headcount.core import MAX_TOKENS, InputError, LayerId, Plan, added
from headcount.models import Loaded, batch_tokens
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    copied,
    evaluating,
    heard,
    input_device,
    intercepted,
)
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
    fed: Sequence[FeedForward] = (),
) -> dict[LayerId, OutputMoments]:
    """The moments of every layer.

    Args:
        model: the dense model.
        task: the task, which gives the examples.
        anatomy: anatomy of the model.
        max_tokens: largest number of padded tokens in a batch.
        fed: feed-forward networks whose moments are taken, too.

    Raises:
        InputError: if a layer has no output projection of its own.
    """
    check_compensable(anatomy)
    sums: dict[LayerId, OutputMoments] = {}
    batch: TaskBatch | None = None

    def add(place: LayerId, site: str, rows_RO: Tensor) -> None:
        nonlocal sums
        assert batch is not None
        is_query_R = batch.is_query(site, (len(rows_RO), 1)).flatten()
        output_QO = rows_RO[is_query_R.to(rows_RO.device)].double()
        new = OutputMoments(len(output_QO), output_QO.sum(0), output_QO.T @ output_QO)
        sums = added(sums, {place: new})

    def add_heads(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        rows_RO = output_BQHD.reshape(-1, layer.num_heads * layer.head_dim)
        add(layer.layer_id, layer.site, rows_RO)

    network_of = {model.get_submodule(each.output): each for each in fed}

    def add_neurons(module: nn.Module, given: Tensor) -> None:
        place = network_of[module].layer_id
        add(place, f"{place.site.partition('.')[0]}.self", given.reshape(-1, given.shape[-1]))

    with (
        evaluating(model),
        torch.inference_mode(),
        heard(model, anatomy, head_outputs=add_heads),
        intercepted(network_of, add_neurons),
    ):
        for each in task.batches(batch_tokens(model, max_tokens)):
            batch = each.to(input_device(model))
            task.losses(model, batch)
    return sums


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


@final
@dataclass(frozen=True, eq=False)
class Shrinking:
    """A map that adds up what units write, some of which are pruned: heads, or neurons."""

    layer_id: LayerId
    path: str
    width: int
    """Number of dimensions of a unit."""
    is_kept_O: Bool[Tensor, " output"]
    """Whether each dimension is one of a kept unit."""

    def projection(self, model: PreTrainedModel) -> Projection:
        """The map in a model."""
        return Projection(model.get_submodule(self.path))


def shrinking(loaded: Loaded, plan: Plan, fed: Sequence[FeedForward] = ()) -> Iterator[Shrinking]:
    """The maps that lose something by a plan.

    Args:
        loaded: the dense model.
        plan: what is kept.
        fed: feed-forward networks that the plan may name.
    """
    for layer in loaded.anatomy.layers:
        kept = plan.of_layer(loaded.heads, layer.site, layer.layer)
        if len(kept) < layer.num_heads:
            is_kept_H = _marked(kept, layer.num_heads)
            is_kept_O = is_kept_H.repeat_interleave(layer.head_dim)
            yield Shrinking(layer.layer_id, layer.output or "", layer.head_dim, is_kept_O)
    for each in fed:
        if len(kept := kept_neurons(plan, each)) < each.num_neurons:
            yield Shrinking(each.layer_id, each.output, 1, _marked(kept, each.num_neurons))


def _marked(kept: Sequence[int], size: int) -> Tensor:
    """True for what is kept."""
    found = torch.zeros(size, dtype=torch.bool)
    found[list(kept)] = True
    return found


def fold(
    loaded: Loaded,
    plan: Plan,
    sums: Mapping[LayerId, OutputMoments],
    fed: Sequence[FeedForward] = (),
) -> Loaded:
    """A copy of the model whose biases include the mean outputs of what is pruned.

    The loss of the pruned model can be higher with folding than without.

    Args:
        loaded: the dense model.
        plan: what is kept.
        sums: moments of the model over the data that gives the means.
        fed: feed-forward networks that the plan may name.
    """
    maps = [*shrinking(loaded, plan, fed)]
    model = copied(loaded.model, [each.path for each in maps])
    for each in maps:
        projection, mean_O = each.projection(model), sums[each.layer_id].mean_O
        lost_O = (mean_O * ~each.is_kept_O.to(mean_O.device)).to(projection.device)
        projection.add_bias(lost_O @ projection.weight_OM)
    return replace(loaded, model=model)


Per = Literal["head", "dimension", "map"]
RIDGE = 1e-6
"""Ridge that keeps the normal equations solvable, as a share of their mean diagonal."""


def rescale(
    loaded: Loaded,
    plan: Plan,
    sums: Mapping[LayerId, OutputMoments],
    per: Per = "head",
    fold: bool = True,
    fed: Sequence[FeedForward] = (),
) -> Loaded:
    """A copy of the model whose output projections compensate for what is pruned.

    Args:
        loaded: the dense model.
        plan: what is kept.
        sums: moments of the model over the data on which the scales are solved.
        per: what each scale applies to; a neuron has a scale of its own unless it is the whole map.
        fold: whether the bias absorbs a constant too.
        fed: feed-forward networks that the plan may name.
    """
    maps = [*shrinking(loaded, plan, fed)]
    model = copied(loaded.model, [each.path for each in maps])
    for each in maps:
        projection, moment = each.projection(model), sums[each.layer_id]
        old_OM, is_kept_O = projection.weight_OM, each.is_kept_O.to(projection.device)
        width = 1 if per == "dimension" else each.width
        new_OM = (
            _remade(moment, old_OM, is_kept_O, is_map=per == "map", width=width, centred=fold)
            if is_kept_O.any()
            else old_OM
        )
        projection.write(new_OM)
        if fold:
            projection.add_bias(moment.mean_O @ old_OM - (moment.mean_O * is_kept_O) @ new_OM)
    return replace(loaded, model=model)


def _remade(
    moment: OutputMoments,
    weight_OM: Float64[Tensor, "output hidden"],
    kept_O: Tensor,
    is_map: bool,
    width: int,
    centred: bool,
) -> Float64[Tensor, "output hidden"]:
    """The output projection that fits best; rows of pruned units don't matter."""
    second_OO = moment.second(centred)
    if is_map:
        new_OM = weight_OM.clone()
        new_OM[kept_O] = _solved(second_OO[kept_O][:, kept_O], second_OO[kept_O] @ weight_OM)
        return new_OM
    # <o_i W_i, o_j W_j> over all queries is the mean product of o_i and o_j times <W_i, W_j>
    product_OO = second_OO * (weight_OM @ weight_OM.T)
    blocks_GG = product_OO.unflatten(0, (-1, width)).unflatten(2, (-1, width)).sum((1, 3))
    kept_G = kept_O[::width]
    scale_G = torch.ones_like(blocks_GG[0])
    scale_G[kept_G] = _solved(blocks_GG[kept_G][:, kept_G], blocks_GG[kept_G].sum(1)[:, None])[:, 0]
    return scale_G.repeat_interleave(width)[:, None] * weight_OM


def _solved(
    left_GG: Float64[Tensor, "scale scale"], right_GM: Float64[Tensor, "scale many"]
) -> Float64[Tensor, "scale many"]:
    ridge = RIDGE * left_GG.diagonal().mean().clamp_min(1e-30)
    return torch.linalg.solve(left_GG + ridge * torch.eye(len(left_GG)).to(left_GG), right_GM)
