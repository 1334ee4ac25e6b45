r"""Sink: how little of its attention a head leaves on the first token, where it does nothing.

$$\mathrm{sink}(h) = - \frac{1}{|Q|} \sum_{q \in Q} A_h(q, 0) \in [-1, 0]$$

Q are all tokens that attend, padding apart, the first one included; key 0 is the first token that is
not padding (of the source, in cross-attention). The sign is turned so that higher = more important:
0 is a head that never looks there, -1 one that does nothing else.

Reference: Garbage Attention in Large Language Models (Sok et al., 2026), BOS sink score, https://arxiv.org/abs/2601.06787
Departure: the sign. The first token need not be a beginning-of-sentence symbol: the tokenizer says.
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
        """The weight itself."""
        return masses_BHQC.squeeze(-1)


def sink(
    model: PreTrainedModel, task: Task, anatomy: Anatomy | None = None, max_tokens: int = 4096
) -> dict[Place, Float64[Tensor, " head"]]:
    """Minus the mean weight on the first token, from one forward over a task.

    Args:
        model: what to score.
        task: gives the examples; its labels are not used.
        anatomy: what `examine(model)` found; examined now if None.
        max_tokens: padded tokens in a batch.
    """
    means = query_means(model, task, FirstMass(), anatomy, max_tokens)
    return {place: -mean_H for place, mean_H in means.items()}
