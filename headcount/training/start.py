"""Start: the weights of a trained model in place of new ones."""

from pathlib import Path

from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.models.load import load
from headcount.models.shipped import place_of

HEADS = ("encoder_attention_heads", "decoder_attention_heads")
"""Fields of the configuration that no weight's shape shows."""


def read_start(start: str, out: Path) -> PreTrainedModel:
    """The model to start from.

    Raises:
        InputError: if it is in the folder that is trained into.
        ModelError: if there is none.
    """
    if Path(place_of(start)).resolve() == out.resolve():
        raise InputError(f"{out} is the model to start from: train into another folder")
    return load(start).model


def start_from(model: PreTrainedModel, start: PreTrainedModel) -> None:
    """Give a model the weights of another one of the same shape.

    Args:
        model: is changed.
        start: the other one.

    Raises:
        ModelError: if it has other weights, or other heads, than `model`.
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
            "the model to start from was expected to have the recipe's shape; it differs in "
            f"{other[0]}{f' and {len(other) - 1} more' if other[1:] else ''}: set width, "
            "feed_forward, layers, heads and objective as they were in its training"
        )
    model.load_state_dict({name: weight.to(here[name].dtype) for name, weight in there.items()})
