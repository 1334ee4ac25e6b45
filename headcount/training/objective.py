r"""The training loss: cross-entropy with label smoothing, in one fused call.

$$L = -\frac{1}{T} \sum_{t} \Big( (1 - \varepsilon) \log p(y_t)
  + \frac{\varepsilon}{V} \sum_{v} \log p(v) \Big)$$

T is the number of predicted tokens of the whole step, over accumulated batches and processes.
Reference: Rethinking the Inception Architecture for Computer Vision (Szegedy et al., 2016),
section 7, https://arxiv.org/abs/1512.00567
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers.utils.generic import ModelOutput

from headcount.tasks.likelihood import IGNORED

TrainingLoss = Callable[..., Tensor]


def smoothed(smoothing: float) -> TrainingLoss:
    """A `compute_loss_func` of transformers' Trainer; labels stand where they are predicted."""

    def loss(
        outputs: ModelOutput, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        summed = cross_entropy(
            outputs["logits"].flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=smoothing,
        )
        count = (labels != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        return summed / torch.as_tensor(count).clamp(min=1)  # a batch may have nothing to predict

    return loss
