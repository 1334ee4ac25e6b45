"""Checks: sample runs in which the tapped model must equal the stock model."""

import math
from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.tap.anatomy import Anatomy
from headcount.tap.attention_interface import (
    Call,
    dispatching,
    implementation_of,
    plain_attention,
)
from headcount.tap.attention_weights import eager_function
from headcount.tap.listener import Listener
from headcount.tap.sample_inputs import ERRORS, SampleRun
from headcount.tap.tap import Tap


@final
class Check:
    """A run in which the tapped model must equal the stock model."""

    def __init__(self, model: PreTrainedModel, sample: SampleRun) -> None:
        self.model, self.sample = model, sample
        self.stock = self.run()

    def run(self) -> list[Tensor]:
        """The model's outputs as it is now."""
        return self.sample.outputs(self.model)

    def tapped_difference(self, anatomy: Anatomy, listener: Listener | None) -> float:
        """The largest difference that a tap makes, as a share of the largest output.

        Where padding can see nothing, nobody reads what comes out, and two ways to compute it may
        differ: scores of minus infinity are rounded in half precision, and sdpa returns zeros where
        eager attention returns a mean. There, only the outputs of visible tokens are compared.
        """
        try:
            with Tap(self.model, anatomy, listener):
                found = self.run()
        except ERRORS:
            if anatomy.eager:  # eager functions of some models can't take half precision
                return torch.inf
            raise
        is_half = self.model.dtype in (torch.float16, torch.bfloat16)
        if is_half or anatomy.implementation is not None:
            return self.visible_difference(found, self.stock)
        return difference(found, self.stock)

    def unrest(self) -> float:
        """How far two runs of the stock model are apart: above 0 if it draws random numbers."""
        return difference(self.run(), self.stock)

    def rounding(self) -> float:
        """How far transformers' own eager attention and sdpa are apart at visible tokens.

        Deep models amplify rounding, so that two right ways to compute attention differ by more
        than elsewhere. It is 0 if the model does not run in both, or uses another implementation.
        """
        others = {"eager": ("sdpa", plain_attention), "sdpa": ("eager", _by_eager)}
        own = implementation_of(self.model)
        if own not in others:
            return 0.0
        other, attend = others[own]
        try:
            with dispatching(self.model, attend, other):
                return self.visible_difference(self.run(), self.stock)
        except ERRORS:
            return 0.0

    def visible_difference(self, found: list[Tensor], others: list[Tensor]) -> float:
        """How far the outputs of two runs are apart at visible tokens."""
        return difference([*map(self._visible, found)], [*map(self._visible, others)])

    def _visible(self, output: Tensor) -> Tensor:
        """An output with zeros at padded positions."""
        for name, mask in self.sample.batch.items():
            if name.endswith("attention_mask") and output.shape[:2] == mask.shape:
                return output.where(mask.reshape(*mask.shape, *[1] * (output.ndim - 2)) != 0, 0)
        return output


def difference(ours: list[Tensor], stock: list[Tensor]) -> float:
    """Largest difference, as a share of the largest output (or of 1 if that is larger).

    It is infinite where the outputs are not of the same sizes.
    """
    if [each.shape for each in ours] != [each.shape for each in stock]:
        return math.inf
    largest = max([1.0] + [tensor.abs().nan_to_num().max().item() for tensor in stock])
    apart = [
        (a - b).abs().nan_to_num(nan=torch.inf).max().item()
        for a, b in zip(ours, stock, strict=True)
    ]
    return max(apart) / largest


def _by_eager(call: Call) -> Tensor:
    return eager_function(call.module)(*call.tensors, **call.kwargs)[0]
