"""Gate gradients: the gradients of the loss at gates of heads, summed over a task.

Scores are one number per head, by site and layer; higher always means more important. One backward
pass per batch gives all heads and all examples, since every example has its own gates.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, Heads, LayerId, ModelError, added, amount, spread
from headcount.importance.choices import Level
from headcount.models import batch_tokens, check_passes_gradients
from headcount.tap import Anatomy, AnyModel, AttentionLayer, Tap, evaluating, examined, input_device
from headcount.tasks import Task, TaskBatch

Scores = Mapping[LayerId, Float64[Tensor, " _"]]
"""One score per head of each layer."""


@contextmanager
def frozen(model: PreTrainedModel) -> Iterator[None]:
    """Inside, no parameter requires a gradient; each gets its flag back afterwards.

    Gradients are taken of gates and of hidden states, which lie behind the weights.

    Raises:
        ModelError: if no gradient passes through the model's weights.
    """
    check_passes_gradients(model)
    # By name, for accelerate makes new parameters when it fetches weights
    named = model.named_parameters(remove_duplicate=False)
    wanting = {name for name, parameter in named if parameter.requires_grad}
    _set_learning(model, wanting, False)
    try:
        yield
    finally:
        _set_learning(model, wanting, True)


def _set_learning(model: PreTrainedModel, names: Collection[str], learns: bool) -> None:
    """Set whether parameters require a gradient."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in names:
            with torch.inference_mode(parameter.is_inference()):  # where it was fetched
                parameter.requires_grad_(learns)


def slopes(start: Tensor, leaves: Sequence[Tensor], again: bool = False) -> tuple[Tensor, ...]:
    """The gradients of a number at gates or hidden states.

    Args:
        start: The number.
        leaves: Gates or hidden states, each of a layer.
        again: Whether another gradient is taken in the same graph.

    Raises:
        ModelError: if one gets no gradient.
    """
    found: Sequence[Tensor | None] = [None] * len(leaves)
    if start.requires_grad:
        found = torch.autograd.grad(start, leaves, retain_graph=again, allow_unused=True)
    arrived = tuple(each for each in found if each is not None)
    if len(arrived) < len(leaves):
        raise ModelError(
            f"Expected a gradient at all {amount(len(leaves), 'layer')}, but none arrives at "
            f"{len(leaves) - len(arrived)}: behind, the model has a step that passes none (packed "
            "weights, no_grad, detach). Score its heads without gradients (ablation, sink)."
        )
    return arrived


def summed_slopes(
    model: AnyModel,
    task: Task,
    part: Callable[[Tensor], Float64[Tensor, " head"]],
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
    level: Level = "sample",
) -> tuple[dict[LayerId, Float64[Tensor, " head"]], int]:
    """A sum over batches of slopes of the loss, and the number of terms in the losses.

    >>> found, _ = summed_slopes(  # doctest: +SKIP
    ...     loaded, task, lambda slope_EH: slope_EH.square().sum(0)
    ... )

    Args:
        model: Model to score.
        task: Task that defines the loss.
        part: What a batch adds to a layer's sum: a number of each head, of the gradients of the
            examples' losses at its gate, [example, head].
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
        level: Unit that has a gate of its own; of `token`, gradients are [row, query, head].

    Raises:
        ModelError: If no gradient passes through the model.
    """
    model, anatomy = examined(model, anatomy)
    sums: dict[LayerId, Tensor] = {}
    count = 0

    def of_batch(batch: TaskBatch) -> tuple[dict[LayerId, Tensor], int]:
        found, num = gate_gradients(model, task, anatomy, batch.to(input_device(model)), level)
        return {place: part(each).cpu() for place, each in found.items()}, num

    if level != "batch":
        max_tokens = batch_tokens(model, max_tokens, anatomy)
    with evaluating(model), frozen(model):
        for parts, num in spread(of_batch, task.batches(max_tokens), "batches"):
            sums = added(sums, parts)
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
    each_query = level == "token"
    gates = open_gates(
        model,
        anatomy,
        lambda layer: batch.is_query(layer.site).shape if each_query else (batch.num_examples,),
    )
    spread = {place: gate if each_query else gate[batch.example_R] for place, gate in gates.items()}
    with Tap(model, anatomy, gates=spread):
        losses = task.losses(model, batch)
        gradients = slopes(losses.loss_E.sum(), list(gates.values()))
    found = {place: each.double() for place, each in zip(gates, gradients, strict=True)}
    return found, int(losses.count_E.sum())


def open_gates(
    model: PreTrainedModel, anatomy: Anatomy, rows: Callable[[AttentionLayer], Sequence[int]]
) -> dict[LayerId, Tensor]:
    """Gates of 1 that ask for gradients, for every head of a layer, and for each of some rows."""
    how = {"device": input_device(model), "dtype": model.dtype, "requires_grad": True}
    return {
        each.layer_id: torch.ones(*rows(each), each.num_heads, **how) for each in anatomy.layers
    }


def by_layer(heads: Heads, numbers_H: Float[Tensor, "*row head"]) -> dict[LayerId, Tensor]:
    """One number of every head, or one for each of several rows, by its layer."""
    counts = Counter(head.layer_id for head in heads)
    return dict(zip(counts, numbers_H.split([*counts.values()], -1), strict=True))
