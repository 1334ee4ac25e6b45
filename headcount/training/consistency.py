r"""Consistency (R-Drop): two passes with different dropout should give the same predictions.

Every example is in its batch twice, once for each pass.

$$L = \frac{1}{2} \big(L_1 + L_2\big) + \frac{\alpha}{4 T} \sum_t
  \big(\mathrm{KL}(p_t \,\|\, q_t) + \mathrm{KL}(q_t \,\|\, p_t)\big)$$

$L_1$ and $L_2$ are the losses of the two passes, with label smoothing; p and q their distributions
at each of T predicted tokens. Both terms of the sum combine to $\sum_v (p - q)(\log p - \log q)$.

Reference: R-Drop: Regularized Dropout for Neural Networks (Liang et al., 2021), section 2,
https://arxiv.org/abs/2106.14448
Departure: the loss is half the paper's, so that a weight of 0 is plain training; alpha is the same.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss
from transformers.utils.generic import ModelOutput

from headcount.tasks.likelihood import IGNORED
from headcount.training.objective import TrainingLoss


def twice(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One batch with every example twice: rows i and E + i are example i of E."""
    return {name: torch.cat([each, each]) for name, each in inputs.items()}


def consistent(smoothing: float, weight: float) -> TrainingLoss:
    """A `compute_loss_func` of transformers' Trainer for batches made by `twice`.

    Args:
        smoothing: label smoothing, as in `smoothed`.
        weight: the paper's alpha.
    """

    def loss(
        outputs: ModelOutput, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        is_counted = labels != IGNORED
        log_p_TV = log_softmax(outputs["logits"][is_counted].float(), -1)
        summed = (1 - smoothing) * nll_loss(log_p_TV, labels[is_counted], reduction="sum")
        if smoothing:
            summed = summed - smoothing * log_p_TV.mean(-1).sum()
        first_TV, second_TV = log_p_TV.chunk(2)
        apart = ((first_TV.exp() - second_TV.exp()) * (first_TV - second_TV)).sum()
        count = is_counted.sum() if num_items_in_batch is None else num_items_in_batch
        # The count includes both halves. A batch may have nothing to predict.
        return (summed + weight / 2 * apart) / torch.as_tensor(count).clamp(min=1)

    return loss
