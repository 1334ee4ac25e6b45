"""Formats: number formats of a model's tensors, which need not all be the same.

transformers keeps some weights in single precision whatever the rest is in (T5's `wo`), so the
format of a model is that of each of its tensors.
"""

from collections.abc import Mapping

from torch import Tensor
from transformers import PreTrainedModel


def keep_formats(model: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Bring a model's tensors into the formats that those of a state have."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in state:
            tensor.data = tensor.data.to(state[name].dtype)
