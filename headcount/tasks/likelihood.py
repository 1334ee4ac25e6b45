r"""Negative log-likelihood of tokens, and perplexity.

$$\mathrm{NLL}(e) = -\sum_{t} \log p(y_t), \qquad
  \mathrm{perplexity} = \exp \frac{\sum_e \mathrm{NLL}(e)}{\sum_e |e|}$$

NLL is in nats, perplexity at least 1. There is no label smoothing.
Reference: Perplexity - a measure of the difficulty of speech recognition tasks (Jelinek et al.,
1977), https://doi.org/10.1121/1.2016299
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from headcount.tasks.task import Evaluation, Losses, Resampled

IGNORED = -100
"""Label of a token that is not predicted."""


def likelihoods(
    logits_RNV: Float[Tensor, "row token vocabulary"], labels_RN: Int[Tensor, "row token"]
) -> Losses:
    """Summed NLL of each row's labels, which are aligned with the predictions."""
    precise = torch.promote_types(logits_RNV.dtype, torch.float32)
    loss_P = cross_entropy(
        logits_RNV.to(precise).flatten(0, 1),
        labels_RN.flatten(),
        ignore_index=IGNORED,
        reduction="none",
    )
    loss_R = loss_P.view(labels_RN.shape).sum(1)
    return Losses(loss_R, (labels_RN != IGNORED).sum(1), torch.full_like(loss_R, torch.nan))


def perplexity(evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None) -> float:
    """Perplexity over all examples, or over those drawn."""
    if index_S is None:
        index_S = np.arange(len(evaluation.loss_N))
    return float(perplexities(evaluation)(index_S[None])[0])


def perplexities(evaluation: Evaluation) -> Resampled:
    """Perplexity as a function of the examples drawn."""

    def scores(index_DS: Int[np.ndarray, "draw sample"]) -> Float[np.ndarray, " draw"]:
        with np.errstate(over="ignore"):  # a broken model's perplexity is infinite
            mean_D = evaluation.loss_N[index_DS].sum(1) / evaluation.count_N[index_DS].sum(1)
            return np.exp(mean_D)

    return scores
