r"""Layerwise: how far two models' hidden states are apart, layer by layer.

$$\frac{1}{L} \sum_l \frac{1}{N} \sum_n \left\lVert \frac{t_{ln}}{\lVert t_{ln} \rVert} -
\frac{s_{ln}}{\lVert s_{ln} \rVert} \right\rVert^2$$

t and s are what teacher and student hold of token n, of N, after layer l, of L; of an
encoder-decoder the L layers are those of both. What a layer lost with its heads is felt there, not
only at the model's end. At unit length every layer counts alike, however large its states are.

References: Patient Knowledge Distillation for BERT Model Compression (Sun et al., 2019), equation
7, https://arxiv.org/abs/1908.09355; of pruned models: Structured Pruning Learns Compact and
Accurate Models (Xia et al., 2022), section 3.2, https://arxiv.org/abs/2204.00408
Departure: states of all tokens but padding, not of the first alone; every layer from its own, since
pruning leaves their number as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, stack
from torch.nn.functional import normalize

from headcount.errors import ModelError
from headcount.tasks import TaskBatch

States = Sequence[Float[Tensor, "_ width"]]
"""Of every layer, the hidden states of all tokens but padding."""

STACKS = ("encoder.self", "decoder.self")


def hidden_states(output: Mapping[str, Any], batch: TaskBatch) -> States:
    """What a model held after every layer, by its output, in single precision at least.

    Raises:
        ModelError: if it does not tell.
    """
    found: list[Tensor] = []
    for site in STACKS:
        name = f"{site.partition('.')[0]}_hidden_states"
        states = output.get(name)
        if states:
            found += [each[batch.is_query(site, _rows(each))] for each in states[1:]]
    if not found and (states := output.get("hidden_states")):
        found = [each[batch.is_query("encoder.self", _rows(each))] for each in states[1:]]
    if not found:
        raise ModelError(
            "hidden states of every layer were expected in the model's output, since they are to "
            "be distilled; there are none: set layerwise to 0"
        )
    return [*map(single, found)]


def _rows(states_RQD: Tensor) -> tuple[int, int]:
    """Number of rows and of queries."""
    return len(states_RQD), states_RQD.shape[1]


def single(tensor: Tensor) -> Tensor:
    """In single precision at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def layerwise_distance(teacher: States, student: States) -> Float[Tensor, ""]:
    """How far the student's hidden states are from the teacher's: from 0 to 4."""
    pairs = zip(teacher, student, strict=True)
    apart = [(normalize(s) - normalize(t)).pow(2).sum(-1).mean() for t, s in pairs]
    return stack(apart).mean()
