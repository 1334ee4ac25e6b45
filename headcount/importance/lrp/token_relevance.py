r"""Relevance of tokens: the part of a logit that comes from each token of the input.

$$R_n = \sum_d x_{n,d} \, \frac{\partial\, \mathrm{logit}}{\partial x_{n,d}}\Big|_{\text{rules}}$$

x is the hidden state that enters the first layer, the sum of all of a token's embeddings (word,
position, type); earlier operations work on each token alone. The unit is that of the logit: the
relevance of all tokens of encoder and decoder adds up to the logit, except for the part that biases
take. Under `alpha_beta` it is a share of the logit and adds up to 1. LRP is covered by patents of
its inventors (see lrp.py).

Reference: Visualizing and Understanding Neural Machine Translation (Ding et al., 2017), section 3, https://aclanthology.org/P17-1106
Departure: a token's relevance is that of its hidden state, so it includes that of its position.
"""  # noqa: E501

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.importance.lrp.propagation import Lrp
from headcount.importance.lrp.relevance import WHOLE
from headcount.importance.lrp.rule_sets import Rules, listener
from headcount.tap import Anatomy, Tap, examine


@torch.enable_grad()
def token_relevance(
    model: PreTrainedModel,
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
    anatomy = anatomy or examine(model)
    with (
        Tap(model, anatomy, listener(rules), block=WHOLE),
        Lrp(model, rules) as lrp,
        entering(model, anatomy) as entered,
    ):
        starts = start(model(**inputs))
    lrp.check(starts)
    parts = lrp.relevance(starts.sum(), list(entered.values()))
    return {side: part.sum(-1) for side, part in zip(entered, parts, strict=True)}


@contextmanager
def entering(model: PreTrainedModel, anatomy: Anatomy) -> Iterator[dict[str, Tensor]]:
    """Hidden states that enter the first layer of each side, as leaves set by the forward."""
    entered: dict[str, Tensor] = {}

    def cut(side: str, hidden: Tensor) -> Tensor:
        if side in entered:  # the module is called for every layer
            return hidden
        entered[side] = hidden.detach().requires_grad_()
        return entered[side]

    handles = []
    for side, module in _first_layers(model, anatomy).items():

        def before(
            module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], side: str = side
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if args:
                return (cut(side, args[0]), *args[1:]), kwargs
            return args, kwargs | {"hidden_states": cut(side, kwargs["hidden_states"])}

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
    try:
        yield entered
    finally:
        for handle in handles:
            handle.remove()


def _first_layers(model: PreTrainedModel, anatomy: Anatomy) -> dict[str, nn.Module]:
    """The first layer of each side: the entry of the outermost list with its first attention."""
    first: dict[str, nn.Module] = {}
    for layer in anatomy.layers:
        side = layer.site.partition(".")[0]
        if side not in first:
            first[side] = _in_list(model, layer.module)
    return first


def _in_list(model: PreTrainedModel, path: str) -> nn.Module:
    module: nn.Module = model
    for name in path.split("."):
        inside_list = isinstance(module, nn.ModuleList | nn.Sequential)
        module = module.get_submodule(name)
        if inside_list:
            return module
    raise ModelError(
        f"Expected attention layers in a list of layers, but {path} of {type(model).__name__} is "
        "in none, so it is unknown where its tokens enter."
    )
