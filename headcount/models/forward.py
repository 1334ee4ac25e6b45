"""Forward passes of causal models: heads heard or removed, and no logits that nobody reads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from inspect import signature
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import Head, LayerId, Plan, added, spread
from headcount.models.loaded import Loaded
from headcount.tap import AttentionLayer, Listener, Returned, Tap, evaluating, input_device

T = TypeVar("T")
Outputs = Mapping[LayerId, Float[Tensor, "head dim"]]
"""A vector for every head."""


@contextmanager
def running(
    loaded: Loaded,
    listener: Listener | None = None,
    removal: "Removal | None" = None,
    returned: Returned | None = None,
) -> Iterator[None]:
    """Inside, the model is evaluated without gradients under a tap.

    Args:
        loaded: the model.
        listener: hears the weights.
        removal: heads that are removed.
        returned: receives the heads' outputs behind gates, before means replace them, and may
            replace them itself.
    """
    tap = Tap(loaded.model, loaded.anatomy, listener, None if removal is None else removal.gates)
    with evaluating(loaded.model), torch.inference_mode(), tap, ExitStack() as stack:
        for each in (returned, None if removal is None else removal.returned):
            if each is not None:
                stack.enter_context(tap.returning(each))
        yield


def last_logits(model: PreTrainedModel, number: int = 1) -> dict[str, Any]:
    """Arguments with which a model gives the logits of the last tokens alone, if it can."""
    return (
        {"logits_to_keep": number}
        if "logits_to_keep" in signature(model.forward).parameters
        else {}
    )


def mean_outputs(loaded: Loaded, ids_BT: Int64[Tensor, "text token"]) -> Outputs:
    """The mean output of every head over all tokens of some texts of one length."""

    def read(ids_T: Tensor) -> None:
        loaded.model(input_ids=ids_T[None], use_cache=False, **last_logits(loaded.model))

    return mean_outputs_of(loaded, read, [*ids_BT.to(input_device(loaded.model))], ids_BT.numel())


def mean_outputs_of(
    loaded: Loaded, read: Callable[[T], None], texts: Sequence[T], num_tokens: int
) -> Outputs:
    """The mean output of every head over all tokens of some texts.

    Args:
        loaded: the model.
        read: lets the model read a text, without padding.
        texts: the texts.
        num_tokens: the number of their tokens.
    """
    here, sums = dict[LayerId, Tensor](), dict[LayerId, Tensor]()

    def hear(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        here[layer.layer_id] = output_BQHD.double().sum((0, 1))

    def of_text(text: T) -> dict[LayerId, Tensor]:
        read(text)
        return {**here}

    with running(loaded, returned=hear):
        for found in spread(of_text, texts, "texts"):
            sums = added(sums, found)
    return {layer: sum_HD / num_tokens for layer, sum_HD in sums.items()}


@final
class Past:
    """The cache of a causal model behind some tokens, from which batches of copies go on.

    Args:
        loaded: the model.
        ids_1T: the tokens of one text.
    """

    def __init__(self, loaded: Loaded, ids_1T: Int64[Tensor, "1 token"]) -> None:
        model: Any = loaded.model
        with running(loaded):
            found = model(input_ids=ids_1T, use_cache=True, **last_logits(model))
        self._cache = found.past_key_values
        kept = (each for layer in self._cache.layers for each in vars(layer).values())
        held = [each for each in kept if isinstance(each, Tensor)]
        self._bytes = sum(each.nbytes for each in held)
        sizes = {each.shape[-2] for each in held if each.ndim == 4}
        self.is_whole = sizes == {ids_1T.shape[1]}
        """Whether every layer keeps all tokens; one with a sliding window keeps the last ones."""

    def most(self, memory: int) -> int:
        """Number of copies that fit into some bytes, at least one."""
        return max(1, memory // max(1, self._bytes))

    def copies(self, num: int) -> Any:
        """The cache in as many copies, for one call of the model."""
        cache = deepcopy(self._cache)
        cache.batch_repeat_interleave(num)
        return cache


@final
class Removal:
    """Heads whose outputs are replaced everywhere: by zero, or by their means over texts.

    Args:
        loaded: the model.
        heads: the heads.
        means: the means; None for zero.
    """

    def __init__(self, loaded: Loaded, heads: Sequence[Head], means: Outputs | None = None) -> None:
        kept = [head for head in loaded.heads if head not in heads]
        self.gates, self._means = Plan.keeping(loaded.heads, kept).gates(loaded.heads), means
        """Gates of 0 for these heads."""

    def returned(self, layer: AttentionLayer, output_BQHD: Tensor) -> Tensor | None:
        """The heads' outputs behind the gates with the means of the removed ones."""
        if self._means is None or layer.layer_id not in self.gates:
            return None
        gate_H1 = self.gates[layer.layer_id].to(output_BQHD)[:, None]
        return output_BQHD + (1 - gate_H1) * self._means[layer.layer_id].to(output_BQHD)
