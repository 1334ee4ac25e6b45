"""The loss of training from scratch: cross-entropy with label smoothing, by `soft_cross_entropy`.

It is divided by the number of predicted tokens in the step, over all accumulated batches and
processes.
"""

from collections.abc import Callable

from torch import Tensor
from transformers.utils.generic import ModelOutput

from headcount.training.soft_targets import Targets, soft_cross_entropy

TrainingLoss = Callable[..., Tensor]


def smoothed(smoothing: float) -> TrainingLoss:
    """A `compute_loss_func` of transformers' Trainer; labels are at the positions that predict."""

    def loss(
        outputs: ModelOutput, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        targets = Targets(smoothing)
        return soft_cross_entropy(outputs["logits"], labels, targets, count=num_items_in_batch)

    return loss
