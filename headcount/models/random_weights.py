"""Copies with random weights, and the number formats of a model's tensors."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel


def random_copy(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The same class and configurations, newly initialised; global random state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # In the model's number format, except for tables that the class keeps in another
        fresh = type(model)._from_config(copy.deepcopy(model.config), dtype=model.dtype)
    if fresh.can_generate():
        fresh.generation_config = copy.deepcopy(model.generation_config)
    return fresh.to(model.device).eval()  # type: ignore[arg-type]


def keep_formats(model: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Convert a model's tensors to the formats of those in a state."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in state:
            tensor.data = tensor.data.to(state[name].dtype)
