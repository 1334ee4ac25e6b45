r"""Gate gradients: the sensitivity of the loss to a head's gate, and its Fisher information.

$$I_h = \frac{1}{N} \sum_x \left| \frac{\partial L(x)}{\partial g_h} \right|
= \frac{1}{N} \sum_x \Big| \sum_q \Big\langle o_{h,q}, \frac{\partial L(x)}{\partial o_{h,q}}
\Big\rangle \Big|$$

L(x) is the summed loss of one example, g_h the head's gate at 1, o_h its output, and N the number
of examples or predicted tokens that the task's loss averages over. One backward pass per batch
gives all heads and all examples, since every example has its own gates. Higher = more important.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.1, https://arxiv.org/abs/1905.10650
Departure: none at level `sample`. The authors' code takes the absolute value per position
(`token`), and later ports take it per batch (`batch`, which depends on how examples are batched).

$$F_h = \frac{1}{N} \sum_x \left( \frac{\partial L(x)}{\partial g_h} \right)^2$$

To second order around a converged model, the loss rises by half the sum of the Fisher information F
over the pruned heads, all layers on one scale. Its unit is the square of the task's unit of loss.

Reference: A Fast Post-Training Pruning Framework for Transformers (Kwon et al., 2022), section 4.1
(the diagonal Fisher information of masks), https://arxiv.org/abs/2204.09656
Departure: only heads are scored, and pruned under a budget of heads instead of FLOPs. The paper's
later steps (rearranging within layers by blocks, tuning the kept gates) are not part of the score.
"""

import torch
from jaxtyping import Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, LayerId, check_choice
from headcount.importance.choices import Level
from headcount.importance.scores import Scores, frozen, slopes
from headcount.tap import Anatomy, AnyModel, Tap, evaluating, examined
from headcount.tasks import Task, TaskBatch


def gradient(
    model: AnyModel,
    task: Task,
    level: Level = "sample",
    normalise: bool = True,
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
) -> Scores:
    """Gradient importance of every head.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        level: Quantity whose absolute value is summed.
        normalise: Whether to divide by the L2 norm over the layer's heads, to compare layers.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Returns:
        One score per head, by site and layer, in the unit of the task's loss unless normalised.
    """
    check_choice("a level", level, Level)
    model, anatomy = examined(model, anatomy)
    sums: dict[LayerId, Tensor] = {}
    count = 0
    with evaluating(model), frozen(model):
        for batch in task.batches(max_tokens):
            parts, num = gate_gradients(model, task, anatomy, batch.to(model.device), level)
            sums = {place: sums.get(place, 0) + _size(each, level) for place, each in parts.items()}
            count += num
    return {
        place: _normalised(total / count) if normalise else total / count
        for place, total in sums.items()
    }


def fisher(
    model: AnyModel, task: Task, anatomy: Anatomy | None = None, max_tokens: int = MAX_TOKENS
) -> Scores:
    """The diagonal Fisher information of every head's gate.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    model, anatomy = examined(model, anatomy)
    sums: dict[LayerId, Tensor] = {}
    with evaluating(model), frozen(model):
        for batch in task.batches(max_tokens):
            gradients, _ = gate_gradients(model, task, anatomy, batch.to(model.device))
            for place, gradient_EH in gradients.items():
                part_H = gradient_EH.square().sum(0).cpu()
                sums[place] = sums.get(place, torch.zeros_like(part_H)) + part_H
    return {place: sum_H / task.num_examples for place, sum_H in sums.items()}


@torch.enable_grad()
def gate_gradients(
    model: PreTrainedModel,
    task: Task,
    anatomy: Anatomy,
    batch: TaskBatch,
    level: Level = "sample",
) -> tuple[dict[LayerId, Float64[Tensor, "*rows head"]], int]:
    """The gradients of the summed losses at gates of 1, and the number of terms in the losses.

    There is one gate per example or, at level `token`, per query. Parameters should be frozen.
    """
    gates = _gates(anatomy, batch, level, model)
    spread = {
        place: gate if level == "token" else gate[batch.example_R] for place, gate in gates.items()
    }
    with Tap(model, anatomy, gates=spread):
        losses = task.losses(model, batch)
        gradients = slopes(losses.loss_E.sum(), list(gates.values()))
    found = {place: each.double() for place, each in zip(gates, gradients, strict=True)}
    return found, int(losses.count_E.sum())


def _size(gradient: Tensor, level: Level) -> Tensor:
    """The sum of absolute values, or, at level `batch`, the absolute value of the sum."""
    size_H = gradient.sum(0).abs() if level == "batch" else gradient.abs().flatten(0, -2).sum(0)
    return size_H.cpu()


def _gates(
    anatomy: Anatomy, batch: TaskBatch, level: Level, model: PreTrainedModel
) -> dict[LayerId, Tensor]:
    """Gates of 1 for every example and head; at level `token`, also for every query."""
    gates = {}
    for layer in anatomy.layers:
        shape = [batch.num_examples]
        if level == "token":
            shape = list(batch.is_query(layer.site).shape)
        gate = torch.ones(*shape, layer.num_heads, device=model.device, dtype=model.dtype)
        gates[layer.layer_id] = gate.requires_grad_()
    return gates


def _normalised(scores_H: Tensor) -> Tensor:
    """The scores divided by their L2 norm; zeros stay zeros."""
    return scores_H / scores_H.norm().clamp_min(torch.finfo(scores_H.dtype).tiny)
