"""Finite: where a model whose output has NaN or infinity goes wrong first."""

from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.errors import ModelError
from headcount.heads import Head
from headcount.models.anatomy import Anatomy, AttentionLayer
from headcount.models.tiny_inputs import run_tiny
from headcount.tap import Block, Tap


def refuse_not_finite(model: PreTrainedModel, anatomy: Anatomy, inputs: dict[str, Tensor]) -> None:
    """Report which head and which parameter cause an output that is not finite.

    Raises:
        ModelError: always.
    """
    listener = _FirstBroken()
    with Tap(model, anatomy, listener):
        run_tiny(model, inputs)
    causes = []
    if listener.head is not None:
        causes.append(
            f"head {listener.head} is the first with such attention weights or values "
            f"({listener.num_broken} of the layer's {listener.num_heads} heads have some)"
        )
    broken = (name for name, each in model.named_parameters() if not each.isfinite().all())
    if (name := next(broken, None)) is not None:
        causes.append(f"{name} is the first parameter")
    cause = " and ".join(causes) or "no head and no parameter has any"
    raise ModelError(
        f"Expected finite numbers, got NaN or infinity from {type(model).__name__} on a short "
        f"random batch: {cause}. Repair the checkpoint, or, if the parameters are finite, load "
        "the model in float32."
    )


@final
class _FirstBroken:
    """Remembers the first layer with a head whose weights or values are not finite."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.num_broken = self.num_heads = 0
        self._is_broken_H = torch.zeros(0, dtype=torch.bool)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Check the values."""
        self._is_broken_H = ~value_BHKD.isfinite().all(-1).all(-1).all(0)

    def block(self, block: Block) -> None:
        """Check the weights."""
        finite_BH = block.weights_BHQK.isfinite().all(-1).all(-1)
        self._is_broken_H[block.heads] |= ~finite_BH.all(0)

    def end(self, layer: AttentionLayer) -> None:
        """Keep the first head found."""
        if self.head is None and self._is_broken_H.any():
            self.head = Head(layer.site, layer.layer, int(self._is_broken_H.nonzero()[0]))
            self.num_broken, self.num_heads = int(self._is_broken_H.sum()), layer.num_heads
