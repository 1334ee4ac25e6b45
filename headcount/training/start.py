"""Start: training from the weights of a trained model instead of new ones."""

from pathlib import Path

from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.models.load import load
from headcount.models.shipped import place_of

HEADS = ("encoder_attention_heads", "decoder_attention_heads")
"""Fields of the configuration that the shapes of the weights do not show."""


def read_start(start: str, out: Path) -> PreTrainedModel:
    """The model to start from.

    Raises:
        InputError: if the model is in the output folder of the training.
        ModelError: if there is no such model.
    """
    if Path(place_of(start)).resolve() == out.resolve():
        raise InputError(f"{out} is the model to start from. Train into another folder.")
    return load(start).model


def start_from(model: PreTrainedModel, start: PreTrainedModel) -> None:
    """Copy the weights of one model into another of the same shape.

    Args:
        model: the model to change.
        start: the model to copy from.

    Raises:
        ModelError: if the two differ in the shapes of their weights or in their heads.
    """
    here, there = model.state_dict(), start.state_dict()
    other = [
        name
        for name in sorted({*here, *there})
        if name not in here or name not in there or here[name].shape != there[name].shape
    ]
    other += [
        name for name in HEADS
        if getattr(model.config, name, None) != getattr(start.config, name, None)
    ]  # fmt: skip
    if other:
        raise ModelError(
            "Expected a model to start from with the recipe's shape, got one that differs in "
            f"{other[0]}{f' and {len(other) - 1} more' if other[1:] else ''}. Set width, "
            "feed_forward, layers, heads and objective as they were in its training."
        )
    model.load_state_dict({name: weight.to(here[name].dtype) for name, weight in there.items()})
