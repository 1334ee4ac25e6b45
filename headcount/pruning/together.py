r"""Together: heads and neurons chosen under one budget of time or bytes.

$$F_u = \frac{1}{N} \sum_x \left( \frac{\partial L(x)}{\partial g_u} \right)^2, \qquad
\min \sum_{u \text{ pruned}} F_u \quad \text{such that} \quad
1 - c_H n_H - c_N n_N \le \mathrm{budget}$$

g_u is the gate of a unit, a head or a neuron, at 1, and L(x) the loss of one of N examples: one
backward pass gives the information of both, on one scale. n_H and n_N are the numbers that are
pruned, and c_H and c_N what one head and one neuron save, as shares of the dense model: measured on
compact models without heads, and with a quarter of the neurons. For each number of heads, the heads
and as many neurons as the budget still asks for are pruned by ascending information; the number of
heads that loses least information is taken.

Then each layer is rearranged, its numbers unchanged: of the units of a layer, those are pruned
whose gradients together are shortest,

$$\min_{m} \; m^\top \Big( \frac{1}{N} \sum_x \nabla_x \nabla_x^\top \Big) m$$

where m marks what is pruned; it is searched greedily, one unit added and one given back at a time.

Reference: A Fast Post-Training Pruning Framework for Transformers (Kwon et al., 2022), sections 4.1
and 4.2, https://arxiv.org/abs/2204.09656
Departure: costs are measured on this machine or are bytes; the paper counts FLOPs, or times each
layer by a table. A layer keeps at least one neuron. Heads that share keys and values are one unit,
and are not rearranged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import final

import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from headcount.compaction import kept_neurons, neurons_gated
from headcount.core import Head, InputError, KeptNumbers, LayerId, Plan, amount, sorted_by
from headcount.importance import frozen
from headcount.models import batch_tokens
from headcount.numbers import percent
from headcount.pruning.budget import pruned_heads
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Selection, by_mean
from headcount.tap import Tap, evaluating, input_device

Slopes = Mapping[LayerId, Float32[Tensor, "example unit"]]
"""Gradient of each example's loss at each gate, by layer of heads or of neurons: 4 bytes each, so
that 2,000 examples of 350,000 neurons take 2.8 GB; products are made of one layer at a time."""

QUARTER = 0.25
"""Share of the neurons that the model keeps on which the saving of a neuron is measured: where
nearly none is left, each saves less than its share."""


def slopes(context: PruningContext) -> Slopes:
    """The gradients of every example's loss at the gates of heads and neurons."""
    loaded, task = context.loaded, context.scored("heads and neurons")
    model, anatomy, fed = loaded.model, loaded.anatomy, context.feed_forwards
    sizes = {each.layer_id: each.num_heads for each in anatomy.layers}
    sizes |= {each.layer_id: each.num_neurons for each in fed}
    found = {place: torch.zeros(task.num_examples, size) for place, size in sizes.items()}
    done = 0
    with evaluating(model), frozen(model), torch.enable_grad():
        for each in task.batches(batch_tokens(model, context.max_tokens, anatomy)):
            batch = each.to(input_device(model))
            how = {"device": input_device(model), "dtype": model.dtype, "requires_grad": True}
            leaves = {
                place: torch.ones(batch.num_examples, size, **how) for place, size in sizes.items()
            }
            gates = {place: leaf[batch.example_R] for place, leaf in leaves.items()}
            with Tap(model, anatomy, gates=gates), neurons_gated(model, fed, gates):
                total = task.losses(model, batch).loss_E.sum()
                gradients = torch.autograd.grad(total, list(leaves.values()))
            for place, gradient in zip(leaves, gradients, strict=True):
                found[place][done : done + len(gradient)] = gradient.float().cpu()
            done += batch.num_examples
    return found


def information(slope_EU: Float32[Tensor, "example unit"]) -> Float64[Tensor, " unit"]:
    """Diagonal Fisher information of the gates of one layer."""
    return slope_EU.double().square().mean(0)


def rearranged(
    slope_EU: Float32[Tensor, "example unit"], pruned: Sequence[int]
) -> Int64[Tensor, " pruned"]:
    """Find as many units of a layer whose gradients add up to least, by a greedy search.

    Args:
        slope_EU: Gradients at the gates of one layer.
        pruned: The units that are pruned, e.g. those with the least information.
    """
    slope_EU = slope_EU.double()
    product_UU = slope_EU.T @ slope_EU / len(slope_EU)
    is_pruned_U = torch.zeros(len(product_UU), dtype=torch.bool)
    is_pruned_U[list(pruned)] = True
    others = sorted_by(
        (~is_pruned_U).nonzero().flatten().tolist(), product_UU.diagonal().tolist().__getitem__
    )
    with_sum_U = product_UU[is_pruned_U].sum(0)
    for unit in others if len(pruned) else ():
        is_pruned_U[unit] = True
        with_sum_U = with_sum_U + product_UU[unit]
        # ||s - g||^2 - ||s||^2 of each unit that may be given back
        shorter_U = product_UU.diagonal() - 2 * with_sum_U
        back = int(shorter_U.masked_fill(~is_pruned_U, math.inf).argmin())
        is_pruned_U[back] = False
        with_sum_U = with_sum_U - product_UU[back]
    return is_pruned_U.nonzero().flatten()


@final
@dataclass(frozen=True)
class Savings:
    """What pruning one unit saves, as a share of the dense model's cost."""

    head: float
    neuron: float

    def scaled(self, by: float) -> "Savings":
        """The same savings, each times a number."""
        return Savings(self.head * by, self.neuron * by)


@final
@dataclass(frozen=True)
class ChosenTogether:
    """A choice, as a state folder holds it."""

    kept: KeptNumbers
    neurons: KeptNumbers
    scores: Mapping[str, float]
    tried: Mapping[int, float]
    """Measured cost by number of heads, for each choice that was timed."""

    @property
    def plan(self) -> Plan:
        """The plan."""
        return Plan(self.kept, neurons=self.neurons)


@final
@dataclass(frozen=True, eq=False)
class Together:
    """The choice of heads and neurons, from gradients that are computed once."""

    context: PruningContext
    slopes: Slopes

    @classmethod
    def of(cls, context: PruningContext) -> "Together":
        """The gradients of a context's examples."""
        return cls(context, slopes(context))

    def choose(self, savings: Savings, budget: float) -> Selection:
        """The heads and neurons that meet a budget and lose least information.

        Args:
            savings: What each unit saves.
            budget: Largest cost that can be reached, as a share of the dense model's.
        """
        loaded, units = self.context.loaded, self.context.units
        of_head = {
            head: float(information(self.slopes[head.layer_id])[head.index])
            for head in loaded.heads
        }
        order = [*by_mean(units.units, of_head)]
        neurons = self._neurons()
        lost = torch.tensor([0.0, *(each for each, *_ in neurons)]).double().cumsum(0)
        options: dict[tuple[int, int], float] = {}
        for keep in units.possible():
            gone = pruned_heads(order, units, keep)
            rest = 1 - budget - savings.head * len(gone)
            number = max(0, math.ceil(rest / savings.neuron - 1e-9))
            if self.context.is_even:
                number = math.ceil(number / len(self.context.feed_forwards))
                number *= len(self.context.feed_forwards)
            if number <= len(neurons):
                options[keep, number] = sum(of_head[head] for head in gone) + float(lost[number])
        assert options, "check_reachable accepts only budgets that can be met"
        keep, number = sorted_by(options, options.__getitem__)[0]
        return self._selection(pruned_heads(order, units, keep), neurons[:number], of_head)

    def promised(self, savings: Savings, plan: Plan) -> float:
        """The cost that savings promise for a plan, as a share of the dense model's."""
        fed = self.context.feed_forwards
        heads = len(plan.pruned_heads(self.context.loaded.heads))
        neurons = sum(each.num_neurons - len(kept_neurons(plan, each)) for each in fed)
        return 1 - savings.head * heads - savings.neuron * neurons

    def _neurons(self) -> list[tuple[float, LayerId, int]]:
        """Neurons by ascending information, without the best one of each layer.

        Where layers keep equally many, one of each layer follows the other.
        """
        found = []
        for each in self.context.feed_forwards:
            score = information(self.slopes[each.layer_id]).tolist()
            ranked = sorted_by(range(len(score)), score.__getitem__)
            found.append([(score[unit], each.layer_id, unit) for unit in ranked[:-1]])
        if self.context.is_even:
            return [each for row in zip(*found, strict=False) for each in row]
        return sorted_by(chain.from_iterable(found), lambda each: each[0])

    def _selection(
        self,
        heads: Sequence[Head],
        neurons: Sequence[tuple[float, LayerId, int]],
        of_head: Mapping[Head, float],
    ) -> Selection:
        """The plan without some heads and neurons, rearranged within layers."""
        loaded, units = self.context.loaded, self.context.units
        gone: dict[LayerId, list[int]] = {}
        for head in heads:
            gone.setdefault(head.layer_id, []).append(head.index)
        for _, place, unit in neurons:
            gone.setdefault(place, []).append(unit)
        single = {unit[0] for unit in units.units if len(unit) == 1 and not units.groups}
        stay = set(loaded.heads) - set(heads)
        for layer in loaded.anatomy.layers:
            place = layer.layer_id
            free = [index for index in range(layer.num_heads) if Head(*place, index) in single]
            if len(free) < layer.num_heads or place not in gone:
                continue
            new = set(rearranged(self.slopes[place], gone[place]).tolist())
            stay -= {Head(*place, index) for index in new}
            stay |= {Head(*place, index) for index in {*free} - new}
        plan = Plan.keeping(loaded.heads, stay)
        kept = dict[str, dict[int, tuple[int, ...]]]()
        for each in self.context.feed_forwards:
            site, layer = each.layer_id
            pruned = set(
                rearranged(self.slopes[each.layer_id], gone.get(each.layer_id, [])).tolist()
            )
            everything = range(each.num_neurons)
            kept.setdefault(site, {})[layer] = tuple(n for n in everything if n not in pruned)
        scores = {str(head): of_head[head] for unit in units.units for head in unit}
        return Selection(replace(plan, neurons=kept), loaded, scores)


def check_reachable(context: PruningContext, fewest: Plan, savings: Savings, budget: float) -> None:
    """Check that a budget can be met, before gradients are computed.

    Args:
        context: What can be pruned.
        fewest: The plan without any head that can be pruned.
        savings: What each unit saves.
        budget: Largest cost, as a share of the dense model's.

    Raises:
        InputError: If even one neuron a layer and no head that can be pruned cost more.
    """
    num_neurons = sum(each.num_neurons - 1 for each in context.feed_forwards)
    num_heads = len(fewest.pruned_heads(context.loaded.heads))
    least = 1 - savings.head * num_heads - savings.neuron * num_neurons
    if least > budget:
        raise InputError(
            f"Expected a budget that fewer heads and neurons can reach, but with one neuron a "
            f"layer and no head that can be pruned the model still costs "
            f"{percent(max(0.0, least), 1)} of the dense model, more than {percent(budget, 1)}. "
            "Ask for less (--speedup, --size)."
        )


def thinned(context: PruningContext, share: float = QUARTER) -> Plan:
    """The plan that keeps all heads and a share of the neurons of each layer."""
    kept = dict[str, dict[int, tuple[int, ...]]]()
    for each in context.feed_forwards:
        site, layer = each.layer_id
        number = max(1, round(share * each.num_neurons))
        kept.setdefault(site, {})[layer] = tuple(range(number))
    heads = context.loaded.heads
    return replace(Plan.keeping(heads, heads), neurons=kept)


def measured_savings(
    context: PruningContext, fewest: Plan, cost: Callable[[Plan], float]
) -> Savings:
    """What a head and a neuron save, by the cost of two compact models.

    Args:
        context: What can be pruned.
        fewest: The plan without any head that can be pruned.
        cost: Cost of a plan's compact model, as a share of the dense model's.

    Raises:
        InputError: If fewer neurons cost no less.
    """
    thin, num_neurons = thinned(context), sum(each.num_neurons for each in context.feed_forwards)
    num_kept = sum(len(kept) for layers in thin.neurons.values() for kept in layers.values())
    num_heads = len(fewest.pruned_heads(context.loaded.heads))
    neuron = (1 - cost(thin)) / max(1, num_neurons - num_kept)
    if neuron <= 0:
        raise InputError(
            f"Expected fewer neurons to cost less, but a model with {amount(num_kept, 'neuron')} "
            f"instead of {num_neurons:,} does not. Time a larger case (--batch, --length)."
        )
    return Savings((1 - cost(fewest)) / num_heads if num_heads else 0.0, neuron)
