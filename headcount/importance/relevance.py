r"""Relevance: the part of the top-1 logit that comes through a head.

$$R_h = \sum_{q, d} o_{h,q,d} \, G_{h,q,d} = g_h \frac{\partial\, \mathrm{logit}}{\partial g_h},
\qquad \mathrm{relevance}(h) = \frac{1}{T} \sum_t \frac{R_h(t)}{\sum_{h'} |R_{h'}(t)|}$$

o is the head's output, G its gradient under the rules of layer-wise relevance propagation, g_h its
gate at 1, h' runs over the heads of the layer, t over the T target steps. Between -1 and 1; positive:
the head speaks for what the model says, negative: against it. Under `alpha_beta` a share, between 0
and 1: what a head pushes with and what it pushes against count alike (lrp_shares.py). One forward
and one backward pass give all heads of a batch. LRP is covered by patents of its inventors (see
lrp.py).

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
Departure: a layer is divided by the sum of absolute values, since the plain sum can be about 0. The
    steps of an example start together (their logits are summed; gradients are linear, shares almost)
    and are normalised together, with the weight of so many steps; `per_step=True` is the paper's
    average, with a backward pass for every step. Where relevance starts is said in
    relevance_starts.py.
"""  # noqa: E501

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.heads import Place
from headcount.importance.lrp import Lrp
from headcount.importance.lrp_rule_sets import Rules, listener
from headcount.importance.relevance_starts import Start, Starts, start_of
from headcount.models.anatomy import Anatomy
from headcount.models.selfcheck import examine
from headcount.tap import Tap
from headcount.tasks.task import Task, TaskBatch

WHOLE = 2**62
"""Weights in a block: all of a layer's, since the backward pass needs them anyway."""


@final
@dataclass(frozen=True, eq=False)
class Relevance:
    """Relevance of every head on a task."""

    scores: Mapping[Place, Float64[Tensor, " head"]]
    """By site and layer, between -1 and 1; absolute values add up to 1 at most in a layer."""
    num_steps: int
    """Target steps that relevance started at."""
    rules: str
    """Name of the rule set."""


def relevance(
    model: PreTrainedModel,
    task: Task,
    rules: Rules = "voita2019",
    anatomy: Anatomy | None = None,
    max_tokens: int = 4096,
    start: Start | None = None,
    per_step: bool = False,
) -> Relevance:
    """Relevance of every head.

    Args:
        model: what to score.
        task: gives the examples; its labels only say what is predicted.
        rules: `voita2019`, `attnlrp` or `alpha_beta`.
        anatomy: what `examine(model)` found; examined now if None.
        max_tokens: padded tokens in a batch.
        start: where relevance starts; by the kind of task if None.
        per_step: normalise every target step by itself, at the cost of as many backward passes.

    Raises:
        ModelError: if the model uses an operation that has no rule; names it.
        InputError: if there is no such rule set, or it is not known where relevance starts.
    """
    anatomy, start = anatomy or examine(model), start or start_of(task)
    sums: dict[Place, Tensor] = {}
    num_steps = 0
    for batch in task.batches(max_tokens):
        for weight_E, parts in _of_batch(
            model, anatomy, batch.to(model.device), rules, start, per_step
        ):
            for place, part_EH in parts.items():
                summed_H = (_normalised(part_EH) * weight_E[:, None]).sum(0)
                sums[place] = sums.get(place, torch.zeros_like(summed_H)) + summed_H
            num_steps += int(weight_E.sum())
    return Relevance({place: sum_H / num_steps for place, sum_H in sums.items()}, num_steps, rules)


def _of_batch(
    model: PreTrainedModel,
    anatomy: Anatomy,
    batch: TaskBatch,
    rules: str,
    start: Start,
    per_step: bool,
) -> Iterator[tuple[Tensor, dict[Place, Tensor]]]:
    """Relevance of every example and head, with the number of steps it is of."""
    gates = {
        (layer.site, layer.layer): torch.ones(
            batch.num_examples, layer.num_heads, device=model.device, dtype=model.dtype
        ).requires_grad_()
        for layer in anatomy.layers
    }
    leaves = list(gates.values())
    with torch.enable_grad():
        spread = {place: gate_EH[batch.example_R] for place, gate_EH in gates.items()}
    with (
        Tap(model, anatomy, listener(rules), gates=spread, block=WHOLE),
        Lrp(model, rules, leaves) as lrp,
    ):
        starts = start(model, batch)
    lrp.check(starts.value_ES)
    with torch.enable_grad():
        steps = _columns(starts) if per_step else [starts]
        sums = [step.value_ES.where(step.is_step_ES, 0).sum() for step in steps]
    for number, (step, summed) in enumerate(zip(steps, sums, strict=True), 1):
        parts = lrp.relevance(summed, leaves, again=number < len(steps))
        weight_E = step.is_step_ES.sum(1)
        yield weight_E.cpu(), dict(zip(gates, (part.double().cpu() for part in parts), strict=True))


def _columns(starts: Starts) -> list[Starts]:
    count = starts.value_ES.shape[1]
    return [
        Starts(starts.value_ES[:, [step]], starts.is_step_ES[:, [step]]) for step in range(count)
    ]


def _normalised(relevance_EH: Tensor) -> Tensor:
    """Divided by the sum of absolute values over the heads; zeros stay zeros."""
    size_E1 = relevance_EH.abs().sum(1, keepdim=True)
    return relevance_EH / size_E1.clamp_min(torch.finfo(torch.float64).tiny)
