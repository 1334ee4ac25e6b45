r"""Sink: how little attention a head puts on the first token, where it does nothing.

$$\mathrm{sink}(h) = - \frac{1}{|Q|} \sum_{q \in Q} A_h(q, 0) \in [-1, 0]$$

Q are all tokens that attend, without padding and with the first token; key 0 is the first token that
is not padding (of the source, in cross-attention). The sign is flipped so that higher = more
important: 0 is a head that never looks there, -1 a head that looks nowhere else.

Reference: Garbage Attention in Large Language Models (Sok et al., 2026), BOS sink score, https://arxiv.org/abs/2601.06787
Departure: the sign. The first token need not be a beginning-of-sentence symbol; that depends on the
    tokenizer.
"""  # noqa: E501

from typing import final

from jaxtyping import Float, Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.heads import Place
from headcount.importance.from_measures import Seen, query_means
from headcount.models.anatomy import Anatomy
from headcount.tasks.task import Task


@final
class FirstMass:
    """The weight of every query on the first token."""

    def columns(self, seen: Seen) -> Float[Tensor, "row head key column"]:
        """One column: 1 at the first token."""
        rows, heads, keys, _ = seen.value_BHKD.shape
        column = seen.value_BHKD.new_zeros(rows, heads, keys, 1)
        return column.scatter_(2, seen.first_B[:, None, None, None].expand(rows, heads, 1, 1), 1.0)

    def per_query(
        self, masses_BHQC: Float[Tensor, "row head query column"]
    ) -> Float[Tensor, "row head query"]:
        """The weight of each query."""
        return masses_BHQC.squeeze(-1)


def sink(
    model: PreTrainedModel, task: Task, anatomy: Anatomy | None = None, max_tokens: int = 4096
) -> dict[Place, Float64[Tensor, " head"]]:
    """The negative mean weight on the first token, from one forward over a task.

    Args:
        model: Model to score.
        task: Task that provides the examples; its labels are not used.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    means = query_means(model, task, FirstMass(), anatomy, max_tokens)
    return {place: -mean_H for place, mean_H in means.items()}
