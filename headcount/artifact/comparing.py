"""Comparing: the gated, the compact, the reloaded and the exported model give the same numbers.

For every two forms, a comparison holds the largest absolute difference of their outputs over all
batches, and that difference as a share of the largest output. A share above the tolerance (float32:
1e-5) is a failure. Padding is not compared: runtimes disagree about a padding token that may see no
other token, as in a sliding window.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.artifact.sample_batches import Data, Inputs
from headcount.results import Comparison
from headcount.tap import TOLERANCE, evaluating, outputs, run_tiny

Run = Callable[[Inputs], list[Tensor]]
"""A model's floating-point outputs for a batch."""


def compare(
    reference: tuple[str, Run], others: Mapping[str, Run], data: Data, dtype: torch.dtype
) -> list[Comparison]:
    """Run all forms on the data and compare each with the reference.

    Args:
        reference: Name and runner of the form that others are compared with.
        others: Names and runners of the other forms.
        data: Batches to run.
        dtype: Number format of the model, which sets the tolerance.
    """
    name, run = reference
    largest, differences = 0.0, dict.fromkeys(others, 0.0)
    for batch in data.batches:
        expected = _at_tokens(run(batch), batch)
        largest = max(largest, *(tensor.abs().max().item() for tensor in expected))
        for other, run_other in others.items():
            pairs = zip(_at_tokens(run_other(batch), batch), expected, strict=True)
            found = max(_largest_difference(*pair) for pair in pairs)
            differences[other] = max(differences[other], found)
    about: dict[str, Any] = {
        "largest_output": largest,
        "tolerance": TOLERANCE[dtype],
        "dtype": str(dtype).removeprefix("torch."),
        "data": data.names,
        "data_sha256": data.sha256,
        "sentences": data.sentences,
        "batches": len(data.batches),
    }
    return [
        Comparison(f"{other} and {name}", difference, share=_share(difference, largest), **about)
        for other, difference in differences.items()
    ]


def _share(difference: float, largest: float) -> float:
    """The difference as a share of the largest output, also where that is 0."""
    return difference / largest if largest else math.inf if difference else 0.0


def runner(model: PreTrainedModel) -> Run:
    """A runner for a torch model."""

    def run(inputs: Inputs) -> list[Tensor]:
        with evaluating(model), torch.inference_mode():
            return [tensor.cpu() for tensor in outputs(run_tiny(model, inputs))]

    return run


def _at_tokens(outputs: Sequence[Tensor], batch: Inputs) -> list[Tensor]:
    """The outputs with 0 at padding; the first output is the decoder's if there is a decoder."""
    names = ("decoder_attention_mask", "attention_mask")
    masks = [batch[name].bool().cpu() for name in names if name in batch]
    return [_masked(masks, outputs[0]), *(_masked(masks[::-1], each) for each in outputs[1:])]


def _masked(masks: Sequence[Tensor], output: Tensor) -> Tensor:
    """The output with 0 where the first mask of its shape is 0; unchanged without such a mask."""
    for mask in masks:
        if output.ndim > 2 and mask.shape == output.shape[:2]:
            return output.where(mask.view(*mask.shape, *(1,) * (output.ndim - 2)), 0)
    return output


def _largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference; infinite where an output is not a number."""
    return (ours - theirs).abs().nan_to_num(nan=torch.inf).max().item()
