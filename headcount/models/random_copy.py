"""Random copy: the same architecture with new weights, the null model for roles."""

import copy

import torch
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
