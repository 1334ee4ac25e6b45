"""Random copy: the same architecture with new weights, the null model that roles are held against."""

import copy

import torch
from transformers import PreTrainedModel


def random_copy(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """A model of the same class and configuration, initialised anew; global random state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(copy.deepcopy(model.config))
    return fresh.to(device=model.device, dtype=model.dtype).eval()
