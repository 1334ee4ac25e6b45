"""Weights of tiny models that look trained, as far as rounding is concerned."""

import torch
from torch import nn
from transformers import PreTrainedModel

from headcount.tap.discovery import discover

OUTLIER = 30.0
"""How much larger a few dimensions of hidden states are than others, as in trained models."""
NUM_OUTLIERS = 2


def trained_looking(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """Make some dimensions of a model's norms large, and rescale and fold its output projections.

    Scales of heads lie between 1/8 and 8, and biases are as large as what heads add.
    """
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    anatomy = discover(model)
    with torch.no_grad():
        for name, module in model.named_modules():
            weight = getattr(module, "weight", None)
            if "norm" in name.lower() and isinstance(weight, nn.Parameter) and weight.ndim == 1:
                large = torch.randperm(len(weight), generator=generator)[:NUM_OUTLIERS]
                weight[large] *= OUTLIER
        for layer in anatomy.layers:
            projection = model.get_submodule(layer.output or "")
            weight = getattr(projection, "weight", None)
            if not isinstance(weight, nn.Parameter):
                continue
            scale_H = 8 ** drawn(layer.num_heads).clamp(-1, 1)
            scale_O = scale_H.repeat_interleave(layer.head_dim)
            is_linear = isinstance(projection, nn.Linear)
            weight.mul_(scale_O if is_linear else scale_O[:, None])
            bias = getattr(projection, "bias", None)
            if isinstance(bias, nn.Parameter):
                bias.add_(weight.norm(dim=1 if is_linear else 0) * drawn(len(bias)))
    return model
