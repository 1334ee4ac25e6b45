r"""Layerwise: the distance between two models' hidden states, layer by layer.

$$\frac{1}{L} \sum_l \frac{1}{N} \sum_n \left\lVert \frac{t_{ln}}{\lVert t_{ln} \rVert} -
\frac{s_{ln}}{\lVert s_{ln} \rVert} \right\rVert^2$$

t and s are the teacher's and the student's hidden states of token n (of N) after layer l (of L). In
an encoder-decoder, L counts the layers of both. So the loss reflects what a layer lost with its
heads in that layer, not only at the model's end. At unit length, layers with large states do not
count more.

References: Patient Knowledge Distillation for BERT Model Compression (Sun et al., 2019), equation
7, https://arxiv.org/abs/1908.09355; for pruned models: Structured Pruning Learns Compact and
Accurate Models (Xia et al., 2022), section 3.2, https://arxiv.org/abs/2204.00408
Departure: states of all tokens except padding, not only of the first; each layer learns from the
teacher's same layer, since pruning does not change the number of layers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, stack
from torch.nn.functional import normalize

from headcount.core import ModelError
from headcount.tasks import TaskBatch

States = Sequence[Float[Tensor, "_ width"]]
"""Hidden states of all tokens except padding, for every layer."""

STACKS = ("encoder.self", "decoder.self")


def hidden_states(output: Mapping[str, Any], batch: TaskBatch) -> States:
    """The hidden states after every layer in a model's output, in single precision or higher.

    Raises:
        ModelError: if the output has none.
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
            "Expected hidden states of every layer in the model's output to distil, got none. "
            "Set layerwise to 0."
        )
    return [*map(single, found)]


def _rows(states_RQD: Tensor) -> tuple[int, int]:
    """Number of rows and of queries."""
    return len(states_RQD), states_RQD.shape[1]


def single(tensor: Tensor) -> Tensor:
    """The tensor in single precision or higher."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def layerwise_distance(teacher: States, student: States) -> Float[Tensor, ""]:
    """Mean squared distance of the student's hidden states from the teacher's, from 0 to 4."""
    pairs = zip(teacher, student, strict=True)
    apart = [(normalize(s) - normalize(t)).pow(2).sum(-1).mean() for t, s in pairs]
    return stack(apart).mean()
