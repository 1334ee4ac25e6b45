"""Scores: one number per head, by site and layer; higher always means more important."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import LayerId, ModelError, amount
from headcount.models import check_passes_gradients

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
