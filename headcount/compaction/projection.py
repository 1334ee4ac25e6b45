"""Projection: the output projection W_O of an attention layer, read and written head by head."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headcount.tap import AttentionLayer


@final
@dataclass(frozen=True, eq=False)
class Projection:
    """W_O, with one row for each dimension of the heads' outputs, and its bias."""

    module: nn.Module

    @classmethod
    def of(cls, model: PreTrainedModel, layer: AttentionLayer) -> "Projection":
        """The output projection of one layer."""
        assert layer.output is not None
        return cls(model.get_submodule(layer.output))

    @property
    def device(self) -> torch.device:
        """Device of the projection; a model may be spread over several."""
        weight = self.module.weight
        assert isinstance(weight, Tensor)
        return weight.device

    @property
    def weight_OM(self) -> Float[Tensor, "output hidden"]:
        """A copy of the weights, in float64."""
        weight = self.module.weight
        assert isinstance(weight, Tensor)
        # Conv1D stores its inputs as rows.
        return (weight if isinstance(self.module, Conv1D) else weight.T).detach().double().clone()

    def write(self, weight_OM: Float[Tensor, "output hidden"]) -> None:
        """Replace the weights."""
        weight = self.module.weight
        assert isinstance(weight, Tensor)
        turned = weight_OM if isinstance(self.module, Conv1D) else weight_OM.T
        with torch.no_grad():
            weight.copy_(turned)

    def add_bias(self, more_M: Float[Tensor, " hidden"]) -> None:
        """Add to the bias, creating one if the projection has none."""
        bias, weight = self.module.bias, self.module.weight
        assert isinstance(weight, Tensor)
        if bias is None:
            self.module.bias = nn.Parameter(more_M.to(weight), requires_grad=weight.requires_grad)
        else:
            assert isinstance(bias, Tensor)
            with torch.no_grad():
                bias.add_(more_M.to(bias))
