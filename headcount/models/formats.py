"""Formats: number formats of a model's tensors, which may differ within a model.

transformers keeps some weights in single precision regardless of the others (T5's `wo`), so a
model's format is that of each of its tensors.
"""

from collections.abc import Mapping

from torch import Tensor
from transformers import PreTrainedModel


def keep_formats(model: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Convert a model's tensors to the formats of those in a state."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in state:
            tensor.data = tensor.data.to(state[name].dtype)
