"""Gate gradients: the gradients of the loss at gates of heads, summed over a task.

One backward pass per batch gives all heads and all examples, since every example has its own gates.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, LayerId
from headcount.importance.choices import Level
from headcount.importance.scores import frozen, slopes
from headcount.tap import Anatomy, AnyModel, Tap, evaluating, examined, input_device
from headcount.tasks import Task, TaskBatch


def summed(
    model: AnyModel,
    task: Task,
    part: Callable[[Tensor], Float64[Tensor, " head"]],
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
    level: Level = "sample",
) -> tuple[dict[LayerId, Float64[Tensor, " head"]], int]:
    """A sum over batches by layer, and the number of terms in the losses.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        part: What a batch adds to a layer's sum, of its gradients (`gate_gradients`).
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
        level: Unit that has a gate of its own.
    """
    model, anatomy = examined(model, anatomy)
    sums: dict[LayerId, Tensor] = {}
    count = 0
    with evaluating(model), frozen(model):
        for batch in task.batches(max_tokens):
            found, num = gate_gradients(model, task, anatomy, batch.to(input_device(model)), level)
            sums = {place: sums.get(place, 0) + part(each).cpu() for place, each in found.items()}
            count += num
    return sums, count


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


def _gates(
    anatomy: Anatomy, batch: TaskBatch, level: Level, model: PreTrainedModel
) -> dict[LayerId, Tensor]:
    """Gates of 1 for every example and head; at level `token`, also for every query."""
    gates = {}
    for layer in anatomy.layers:
        shape = [batch.num_examples]
        if level == "token":
            shape = list(batch.is_query(layer.site).shape)
        gate = torch.ones(*shape, layer.num_heads, device=input_device(model), dtype=model.dtype)
        gates[layer.layer_id] = gate.requires_grad_()
    return gates
