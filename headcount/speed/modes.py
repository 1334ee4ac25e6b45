"""Modes: the ways to run a model for timing."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.models.tiny_inputs import run_tiny
from headcount.speed.flops import Work

Rows = Int64[Tensor, "row token"]


def forward(model: PreTrainedModel, ids_BN: Rows, new_tokens: int) -> Work:
    """One forward; an encoder-decoder gets as many target tokens as source tokens."""
    inputs = {"input_ids": ids_BN}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids_BN
    return partial(run_tiny, model, inputs)


def generation(model: PreTrainedModel, ids_BN: Rows, new_tokens: int) -> Work:
    """Greedy search with a cache for exactly `new_tokens` tokens."""
    return partial(
        model.generate,  # type: ignore[arg-type]
        input_ids=ids_BN,
        attention_mask=ids_BN.new_ones(ids_BN.shape),
        min_new_tokens=new_tokens,
        max_new_tokens=new_tokens,
        num_beams=1,
        do_sample=False,
        use_cache=True,
    )


MODES: dict[str, Callable[[PreTrainedModel, Rows, int], Work]] = {
    "forward": forward,
    "generate": generation,
}
"""Every mode by its name. A decoder's forward is the processing of a prompt."""


def fitting(model: PreTrainedModel) -> tuple[str, ...]:
    """The modes of a model; encoders don't generate."""
    return tuple(MODES) if model.can_generate() else ("forward",)
