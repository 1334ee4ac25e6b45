r"""Norm: the size of the vector that a head adds to the residual stream, relative to its layer.

$$n_h = \frac{1}{|Q|} \sum_{q \in Q} \Big\| \sum_k A_h(q, k)\, v_h(k)\, W_O^h \Big\|_2, \qquad
\mathrm{norm}(h) = \frac{n_h}{\frac{1}{H} \sum_{h'} n_{h'}}$$

Q are all tokens that attend, special tokens included and padding excluded; H is the number of heads
of the layer. The unit is the layer's mean, so the mean over each layer is 1 (0 where all heads give
zeros). NaN where no output projection was found. Values include their bias; the output bias is
left out, since it belongs to no head.

Reference: Identifying and Evaluating Inactive Heads in Pretrained LLMs (Sandoval-Segura et al., 2025), section 3, layer-normalised average head output norm, https://arxiv.org/abs/2504.03889
Departure: the vector's length is taken after the head's part of W_O, as it enters the residual
    stream. The mean is over all queries of a task, not over means per sequence.
"""  # noqa: E501

from typing import final

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.heads import Place
from headcount.importance.from_measures import Seen, query_means
from headcount.models.anatomy import Anatomy
from headcount.tasks.task import Task


@final
class OutputNorm:
    """||A v W_O|| of every query, as ||A (v R)||, without making vectors of the model's width."""

    def columns(self, seen: Seen) -> Float[Tensor, "row head key column"]:
        """The products v R, with one column per dimension of a head."""
        if seen.root_HDD is None:
            return torch.full_like(seen.value_BHKD[..., :1], torch.nan)
        return seen.value_BHKD @ seen.root_HDD.to(seen.value_BHKD)

    def per_query(
        self, masses_BHQC: Float[Tensor, "row head query column"]
    ) -> Float[Tensor, "row head query"]:
        """The length of A v R."""
        return torch.linalg.vector_norm(masses_BHQC, dim=-1)


def norm(
    model: PreTrainedModel, task: Task, anatomy: Anatomy | None = None, max_tokens: int = 4096
) -> dict[Place, Float64[Tensor, " head"]]:
    """Layer-normalised mean norm of every head's output, from one forward over a task.

    Args:
        model: Model to score.
        task: Task that provides the examples; its labels are not used.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    means = query_means(model, task, OutputNorm(), anatomy, max_tokens)
    tiny = torch.finfo(torch.float64).tiny  # heads of zeros stay zeros
    return {place: mean_H / mean_H.mean().clamp_min(tiny) for place, mean_H in means.items()}
