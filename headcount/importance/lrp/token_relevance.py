r"""Relevance of tokens: the part of a logit that comes from each token of the input.

$$R_n = \sum_d x_{n,d} \, \frac{\partial\, \mathrm{logit}}{\partial x_{n,d}}\Big|_{\text{rules}}$$

x is the hidden state that enters the first layer, the sum of all of a token's embeddings (word,
position, type); earlier operations work on each token alone. The unit is that of the logit: the
relevance of all tokens of encoder and decoder adds up to the logit, except for the part that biases
take. Under `alpha_beta` it is a share of the logit and adds up to 1. LRP is covered by patents of
its inventors (see propagation.py).

Reference: Visualizing and Understanding Neural Machine Translation (Ding et al., 2017), section 3, https://aclanthology.org/P17-1106
Departure: a token's relevance is that of its hidden state, so it includes that of its position.
"""  # noqa: E501

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.importance.choices import Rules
from headcount.importance.lrp.propagation import Lrp
from headcount.importance.lrp.relevance import WHOLE
from headcount.importance.lrp.rule_sets import listener
from headcount.tap import Anatomy, AnyModel, StateId, Tap, examined, heard


@torch.enable_grad()
def token_relevance(
    model: AnyModel,
    inputs: Mapping[str, Tensor],
    start: Callable[[Any], Tensor],
    rules: Rules = "voita2019",
    anatomy: Anatomy | None = None,
) -> dict[str, Float[Tensor, "row token"]]:
    """Relevance of the tokens of each row.

    Args:
        model: Any transformers model.
        inputs: Inputs of its forward.
        start: Function from the model's output to one number for each row, or their sum, e.g.
            `lambda output: output.logits[:, -1].amax(-1)`.
        rules: `voita2019`, `attnlrp` or `alpha_beta`.
        anatomy: Result of `examine(model)`; examined now if None.

    Returns:
        Relevance by side: `encoder`, `decoder`, or both.

    Raises:
        ModelError: If the model uses an operation without a rule; the message names it.
    """
    (model, anatomy), entering = examined(model, anatomy), _Entering()
    with (
        Tap(model, anatomy, listener(rules), block=WHOLE),
        Lrp(model, rules) as lrp,
        heard(model, anatomy, hidden_states=entering),
    ):
        starts = start(model(**inputs))
    lrp.check(starts)
    parts = lrp.relevance(starts.sum(), list(entering.leaves.values()))
    return {side: part.sum(-1) for side, part in zip(entering.leaves, parts, strict=True)}


class _Entering:
    """Cuts the graph where hidden states enter the first block of each side."""

    def __init__(self) -> None:
        self.leaves: dict[str, Tensor] = {}
        """The states by side, as leaves set by the forward."""

    def __call__(
        self, state: StateId, hidden_RNW: Float[Tensor, "row token width"]
    ) -> Float[Tensor, "row token width"] | None:
        """Replace the states that enter a first block by a leaf."""
        if state.depth > 0:
            return None
        self.leaves[state.side] = hidden_RNW.detach().requires_grad_()
        return self.leaves[state.side]
