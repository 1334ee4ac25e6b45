r"""What far keys weigh by their distance alone: kvpress's estimate of which groups retrieve.

The mean query and the mean key of a head over a text are taken before their rotation, copied to n
places (500, or as many as the text has), and rotated there. With the weights a of the last copy's
query, a group's score is the mean over its heads and over texts of

$$\frac{1}{n} \sum_{k=1}^{n} \sum_{j \le k} a_j$$

which is 0.5 if all places weigh the same, and more if old ones do.

Reference: kvpress 0.5, `duo_attention_on_the_fly`, https://github.com/NVIDIA/kvpress
Departure: kvpress reads 50 chapters of BookSum, we read the user's texts.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from headcount.cache.holding import holding_of
from headcount.core import ModelError, Steps, silent_steps, spread
from headcount.models import Loaded, last_logits
from headcount.tap import (
    Call,
    arguments_heard,
    dispatching,
    evaluating,
    input_device,
    plain_attention,
    without_cache,
)

COPIES = 500
"""Number of copies of the mean query and key, as in kvpress."""


def kvpress_scores(
    loaded: Loaded,
    texts: Sequence[Int64[Tensor, " token"]],
    steps: Steps = silent_steps,
    copies: int = COPIES,
) -> Float[np.ndarray, " group"]:
    """What old keys weigh by their distance alone, in the mean over texts (`kvpress`).

    Args:
        loaded: a causal language model with rotary positions.
        texts: token ids of texts.
        steps: called with the number of texts so far, and of all.
        copies: number of places, at most as many as a text has.

    Raises:
        ModelError: if the model does not rotate its queries and keys as most models do.
    """
    rotated = _MeanRotated(loaded, copies)

    def of_text(ids_N: Tensor) -> Tensor:
        read_text(loaded, ids_N)
        return torch.cat([rotated.scores[module].cpu() for module in rotated.modules])

    with rotated.hearing():
        found = [*spread(of_text, texts, "texts", steps)]
    return rotated.holding.of_groups(torch.stack(found).mean(0).double().numpy())


@final
class _MeanRotated:
    """Hears queries and keys, and how a model rotates them.

    Args:
        loaded: a causal language model.
        copies: number of places, at most as many as a text has.
    """

    def __init__(self, loaded: Loaded, copies: int) -> None:
        self._model, self._name, self._copies = loaded.model, loaded.name, copies
        self.holding = holding_of(loaded.model, loaded.anatomy)
        """What every layer reads."""
        if any(each.is_latent for each in self.holding.layers):
            raise self._refused("whose keys are made of latents, which it rotates in part")
        layers = [each.layer for each in self.holding.layers]
        self.modules = [loaded.model.get_submodule(layer.module) for layer in layers]
        """The attention modules, in order."""
        self._angles: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.scores: dict[nn.Module, Float[Tensor, " group"]] = {}
        """Of every attention module, the scores of its groups on the last text."""

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Inside, every forward pass of the model leaves the scores of one text."""
        attending = dispatching(self._model, self._attend, "sdpa")
        with arguments_heard(self.modules, self._keep_angles), attending:
            yield

    def _refused(self, how: str) -> ModelError:
        return ModelError(
            "Expected a model that rotates queries and keys by their positions for the score "
            f"kvpress, got {self._name}, {how}. Use --score retrieval, or distance if the model "
            "finds no needle."
        )

    def _keep_angles(self, module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        named = signature(module.forward).bind_partial(*args, **given).arguments
        angles = named.get("position_embeddings") or given.get("position_embeddings")
        if isinstance(angles, tuple) and len(angles) == 2:
            self._angles[module] = angles

    def _attend(self, call: Call) -> Tensor:
        query, key = call.query.float(), call.key.float()
        self.scores[call.module] = self._scores(call.module, query, key, call.kwargs.get("scaling"))
        return plain_attention(call)

    def _scores(
        self, module: nn.Module, query: Tensor, key: Tensor, scaling: float | None
    ) -> Float[Tensor, " group"]:
        """The scores of a layer's groups by the queries and keys of one text."""
        if module not in self._angles:
            raise self._refused("whose attention modules get no angles")
        cos, sin = (each.float() for each in self._angles[module])
        length = cos[:1] ** 2 + sin[:1] ** 2  # above 1 in models that stretch their positions
        still = [each / _over(length, each) for each in self._turned(module, query, key, cos, -sin)]
        again = self._turned(module, still[0], still[1], cos, sin)
        if not all(map(_is_close, again, (query, key))):
            raise self._refused("which rotates them in another way than its other layers")
        copies = min(self._copies, cos.shape[1])
        means = [each.mean(2, keepdim=True).expand(-1, -1, copies, -1) for each in still]
        turned = self._turned(module, means[0], means[1], cos[:, :copies], sin[:, :copies])
        query_GH1D = turned[0][0, :, -1:].unflatten(0, (key.shape[1], -1))
        weights = query_GH1D @ turned[1][0, :, None].transpose(-1, -2)
        weights_GHK = (weights * (scaling or query.shape[-1] ** -0.5)).softmax(-1)[:, :, 0]
        return weights_GHK.cumsum(-1).mean((1, 2))

    def _turned(
        self, module: nn.Module, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys, rotated by the function in the file of the module's class."""
        rotate = vars(sys.modules[type(module).__module__]).get("apply_rotary_pos_emb")
        if rotate is None:
            raise self._refused("whose rotation has another name")
        size = cos.shape[-1]  # some models leave the other dimensions as they are
        parts = query[..., :size], key[..., :size]
        if [*signature(rotate).parameters].index("cos") == 1:  # it takes one of them
            turned = [rotate(each, cos, sin) for each in parts]
        else:
            turned = rotate(*parts, cos, sin)
        rest = query[..., size:], key[..., size:]
        query, key = (torch.cat(pair, -1) for pair in zip(turned, rest, strict=True))
        return query, key


def _over(length_1ND: Tensor, still_BHND: Tensor) -> Tensor:
    """Squared lengths of what rotates, and 1 for other dimensions."""
    missing = still_BHND.shape[-1] - length_1ND.shape[-1]
    return nn.functional.pad(length_1ND, (0, missing), value=1.0)[:, None]


def _is_close(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= 1e-3 * other.abs().max())


def read_text(loaded: Loaded, ids_N: Int64[Tensor, " token"]) -> None:
    """Run the model on one text, for what is heard of it."""
    model, given = loaded.model, ids_N[None].to(input_device(loaded.model))
    with evaluating(model), torch.inference_mode():
        model(input_ids=given, **without_cache(model), **last_logits(model))
