"""Decoder inputs for predicting a target: the target, shifted one place to the right."""

from jaxtyping import Int64
from torch import Tensor

from headcount.models.load import Loaded
from headcount.tasks.padding import pad_id


def shifted_right(
    loaded: Loaded, labels_EN: Int64[Tensor, "example token"]
) -> Int64[Tensor, "example token"]:
    """Labels after the model's start token, as the model itself makes decoder inputs from labels.

    Models without a function for this (M2M100) begin with `decoder_start_token_id`.
    """
    shift = getattr(loaded.model, "prepare_decoder_input_ids_from_labels", None)
    if shift is not None:
        on_model = labels_EN.to(loaded.model.device)
        return shift(labels=on_model).to(labels_EN.device)
    start = loaded.encoder().start_id
    assert start is not None
    shifted_EN = labels_EN.roll(1, 1)
    shifted_EN[:, 0] = start
    return shifted_EN.masked_fill(shifted_EN < 0, pad_id(loaded))
