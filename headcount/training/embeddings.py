r"""Embeddings: how far those of two models are apart, where a task has no answers with logits.

$$\frac{1}{S} \sum_i \lVert t_i - s_i \rVert^2 = \frac{2}{S} \sum_i (1 - \cos(t_i, s_i))$$

t and s are the teacher's and the student's embeddings of S sentences, at unit length. They say more
of a teacher than its cosines of the pairs do.

Reference: Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation
(Reimers and Gurevych, 2020), section 3, https://arxiv.org/abs/2004.09813
Departure: embeddings have unit length, since only their angles are ever compared.
"""

from jaxtyping import Float
from torch import Tensor


def embedding_distance(
    teacher_SW: Float[Tensor, "sentence width"], student_SW: Float[Tensor, "sentence width"]
) -> Float[Tensor, ""]:
    """How far the student's embeddings are from the teacher's: from 0 to 4, a mean of sentences."""
    return (student_SW - teacher_SW).pow(2).sum(-1).mean()
