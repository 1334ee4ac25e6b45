r"""Ceiling: the largest speedup of a plan if time is proportional to FLOPs, and of any plan.

$$\mathrm{ceiling} = \frac{F}{F - \sum_l (C_l - C_l')}$$

F are the FLOPs of a forward of the model and C those of one attention layer: its maps W_Q, W_K,
W_V, W_O and the products of scores and values; C' counts kept heads only. All of C is proportional
to the number of heads, except that shared keys and values are proportional to the number of groups
with a kept head. A layer without heads costs nothing. Every term is proportional to the batch size,
so the ceiling does not depend on it; it does depend on the length. The maps of a feed-forward
network are proportional to its neurons, where a plan prunes some. Everything else is unchanged: the
vocabulary, norms.

No knowledge of architectures is needed: a forward of the model itself is counted by module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, final

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from headcount.compaction import FeedForward, named_feed_forwards
from headcount.core import Heads, InputError, LayerId, Plan, amount
from headcount.models import Loaded, check_plan, max_length
from headcount.numbers import percent
from headcount.speed.costs import counter
from headcount.speed.inputs import TokenRows, check_takes_tokens, forward
from headcount.tap import (
    ERRORS,
    Anatomy,
    AnyModel,
    AttentionLayer,
    check_not_split,
    dispatching,
    evaluating,
    examined,
    input_device,
    plain_attention,
)

_PRODUCTS = ("bmm", "baddbmm", "scaled_dot_product")
"""Names of the operations that multiply activations with each other: scores and values."""


@final
@dataclass(frozen=True)
class LayerFlops:
    """FLOPs of one attention layer, per head and per group."""

    per_head: float
    """FLOPs of queries, scores, values and the output projection of one head."""
    per_group: float
    """FLOPs of the keys and values of one head, or of one group of heads that shares them."""
    group_size: int

    def of(self, kept: tuple[int, ...]) -> float:
        """FLOPs of the layer with only the kept heads."""
        groups = {index // self.group_size for index in kept}
        return self.per_head * len(kept) + self.per_group * len(groups)


@final
@dataclass(frozen=True)
class ModelFlops:
    """FLOPs of one forward of one example."""

    total: int
    heads: Heads
    layers: Mapping[LayerId, LayerFlops]
    neurons: Mapping[LayerId, float] = field(default_factory=dict)
    """FLOPs of one neuron, by layer, where some are pruned."""
    counts: Mapping[LayerId, int] = field(default_factory=dict)
    """Number of neurons of these layers."""

    def of(self, plan: Plan) -> float:
        """FLOPs of the model that a plan makes."""
        spared = 0.0
        for (site, layer), costs in self.layers.items():
            everything = tuple(range(self.heads.counts[site][layer]))
            kept = plan.of_layer(self.heads, site, layer)
            spared += costs.of(everything) - costs.of(kept)
        for (site, layer), cost in self.neurons.items():
            count = self.counts[LayerId(site, layer)]
            kept = plan.neurons.get(site, {}).get(layer)
            spared += 0 if kept is None else cost * (count - len(kept))
        return self.total - spared

    def ceiling(self, plan: Plan) -> float:
        """Largest speedup that a plan can reach."""
        return self.total / self.of(plan)


def ceiling(
    model: AnyModel, plan: Plan, length: int = 128, anatomy: Anatomy | None = None
) -> float:
    """Largest speedup of one forward at a length that a plan can reach, at any batch size.

    Args:
        model: Model that the plan is for; it is not changed.
        plan: Plan of the kept heads.
        length: Number of tokens; for an encoder-decoder, on each side.
        anatomy: Result of an earlier `examine(model)`; examined now if None.

    Raises:
        InputError: If the plan is not for this model, or the length is below 1 or too large.
    """
    model, anatomy = examined(model, anatomy)
    check_plan(plan, model, anatomy)
    fed = named_feed_forwards(model, anatomy, plan)
    return model_flops(model, anatomy, length, fed).ceiling(plan)


def model_flops(
    model: PreTrainedModel,
    anatomy: Anatomy,
    length: int = 128,
    fed: Sequence[FeedForward] = (),
) -> ModelFlops:
    """Count one forward of one example and each attention layer in it; meta models work too.

    Args:
        model: Model to count.
        anatomy: Its attention layers.
        length: Number of tokens.
        fed: Feed-forward networks to count, too.

    Raises:
        InputError: If the length is below 1 or too large for the model.
        ModelError: If the model reads no tokens, or is split over processes.
    """
    check_takes_tokens(model)
    check_not_split(model, "counts of FLOPs")
    limit = max_length(model, None)
    if length < 1 or (limit is not None and length > limit):
        most = "" if limit is None else f" and at most {limit}"
        raise InputError(f"Expected a length of at least 1 token{most}, got {length}.")
    rows = TokenRows.random(Loaded(model, None, ""), length)
    ids_BN = rows.rows(1, length).to(input_device(model))
    # Fused attention can be counted; caps and sinks change values, not the FLOPs
    with (
        evaluating(model),
        torch.inference_mode(),
        dispatching(model, plain_attention),
        counter() as found,
    ):
        forward(model, ids_BN, 0)()
    counts = _by_path(model, found)
    layers = {each.layer_id: _layer(each, counts, anatomy) for each in anatomy.layers}
    neurons = {
        each.layer_id: sum(sum(counts[path].values()) for path in (*each.rows, each.output))
        / each.num_neurons
        for each in fed
    }
    sizes = {each.layer_id: each.num_neurons for each in fed}
    return ModelFlops(found.get_total_flops(), anatomy.heads, layers, neurons, sizes)


Counts = Mapping[str, Mapping[Any, int]]
"""FLOPs by path of a module and operation."""


def _by_path(model: PreTrainedModel, found: FlopCounterMode) -> Counts:
    """The counts of all modules by path in the model, whether the model or its body ran."""
    dense, body = (f"{type(each).__name__}." for each in (model, model.base_model))
    prefix = f"{model.base_model_prefix}."
    return {
        name.removeprefix(dense)
        if name.startswith(dense)
        else prefix + name.removeprefix(body): each
        for name, each in found.get_flop_counts().items()
    }


def _layer(layer: AttentionLayer, counts: Counts, anatomy: Anatomy) -> LayerFlops:
    """Split the count of an attention module into products, W_O, and W_Q, W_K, W_V."""
    inside = counts[layer.module]
    products = sum(count for name, count in inside.items() if _is_product(name))
    out = 0 if layer.output is None else sum(counts[layer.output].values())
    within = layer.output is not None and layer.output.startswith(f"{layer.module}.")
    maps = sum(inside.values()) - products - (out if within else 0)
    heads, groups = layer.num_heads, layer.num_key_value_heads
    calls = len(anatomy.by_module()[layer.module])
    of_keys = maps * 2 * groups / (heads + 2 * groups)
    return LayerFlops(
        (products + out + maps - of_keys) / (heads * calls),
        of_keys / (groups * calls),
        heads // groups,
    )


def _is_product(operation: Any) -> bool:
    return any(name in str(operation) for name in _PRODUCTS)


LENGTH = 128
"""Number of tokens whose FLOPs are counted."""


@final
@dataclass(frozen=True)
class Limits:
    """The share of the heads in a model's weights and FLOPs."""

    heads: Heads
    weights_of_heads: int
    weights: int
    flops: float
    """Share of the FLOPs; NaN for a model that reads no text or can't be counted."""

    @property
    def share(self) -> float:
        """Share of the weights, and so of the file."""
        return self.weights_of_heads / self.weights

    def speedup(self, pruned: float = 1.0) -> float:
        """Largest speedup without a share of the heads; NaN if it is not known."""
        return 1 / (1 - pruned * self.flops)

    def sentence(self, num_pruned: int | None = None) -> str:
        """What heads are, and what can be gained without all of them, and without some."""
        total = len(self.heads)
        said = (
            f"heads are {percent(self.share)} of the model's file "
            f"({self.weights_of_heads / 1e6:,.1f} of {self.weights / 1e6:,.1f} M weights)"
        )
        if not isnan(self.flops):
            said += f" and {percent(self.flops)} of the FLOPs of {LENGTH} tokens"
        said += f", so without all {amount(total, 'head')} it is {self._gain(1.0)}"
        if num_pruned is not None and 0 < num_pruned < total:
            said += f"; without {num_pruned:,}, about {self._gain(num_pruned / total)}"
        return said

    def _gain(self, pruned: float) -> str:
        smaller = f"{percent(pruned * self.share)} smaller"
        if isnan(self.flops):
            return smaller
        return f"{smaller} and at most {self.speedup(pruned):.2f} times as fast"


def limits(loaded: Loaded) -> Limits:
    r"""The share of the heads in a model's weights and FLOPs; runs the model once.

    $$\mathrm{size} = 1 - r \frac{P_h}{P}, \qquad \mathrm{speedup} = \frac{F}{F - r F_h}$$

    r is the share of the heads that is pruned. P are the weights of the model and P_h those of its
    attention modules and their output projections (norms inside them included); F are the FLOPs of
    a forward of `LENGTH` tokens, and F_h those of attention. Heads of layers of different size cost
    differently, and heads that share keys and values free these only together, so the numbers of a
    share between 0 and 1 are rough.
    """
    model = loaded.model
    paths = {path for layer in loaded.anatomy.layers for path in (layer.module, layer.output)}
    parts = [model.get_submodule(path) for path in paths if path is not None]
    found = {id(each): each.numel() for part in parts for each in part.parameters()}
    try:
        flops = model_flops(model, loaded.anatomy, min(LENGTH, loaded.max_length or LENGTH))
        share = 1 - flops.of(Plan.keeping(loaded.heads, [])) / flops.total
    except ERRORS:  # models of images, split models, and some with attention of their own
        share = nan
    num = sum(each.numel() for each in model.parameters())
    return Limits(loaded.heads, sum(found.values()), num, share)
