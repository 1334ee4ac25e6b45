r"""Embeddings: the distance between those of two models, for tasks whose answers have no logits.

$$\frac{1}{S} \sum_i \lVert t_i - s_i \rVert^2 = \frac{2}{S} \sum_i (1 - \cos(t_i, s_i))$$

t and s are the teacher's and the student's embeddings of S sentences, scaled to unit length. They
carry more of the teacher's knowledge than its cosines of pairs do.

Reference: Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation
(Reimers and Gurevych, 2020), section 3, https://arxiv.org/abs/2004.09813
Departure: embeddings are scaled to unit length, since only their angles are ever compared.
"""

from jaxtyping import Float
from torch import Tensor


def embedding_distance(
    teacher_SW: Float[Tensor, "sentence width"], student_SW: Float[Tensor, "sentence width"]
) -> Float[Tensor, ""]:
    """Mean squared distance over sentences of student and teacher embeddings, from 0 to 4."""
    return (student_SW - teacher_SW).pow(2).sum(-1).mean()
