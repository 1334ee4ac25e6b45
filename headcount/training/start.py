"""Start: the weights of a trained model in place of new ones."""

from transformers import PreTrainedModel

from headcount.errors import ModelError
from headcount.models.load import load


def start_from(model: PreTrainedModel, start: str) -> None:
    """Give a model the weights of another one of the same shape.

    Args:
        model: is changed.
        start: name or folder of the other one.

    Raises:
        ModelError: if there is none, or it has other weights than `model`.
    """
    here, there = model.state_dict(), load(start).model.state_dict()
    other = [
        name
        for name in sorted({*here, *there})
        if name not in here or name not in there or here[name].shape != there[name].shape
    ]
    if other:
        raise ModelError(
            f"to train {start} on, its weights were expected to have the recipe's shapes; "
            f"{len(other)} have not, such as {other[0]}: set width, feed_forward, layers, heads "
            "and objective as they were in its training"
        )
    model.load_state_dict({name: weight.to(here[name].dtype) for name, weight in there.items()})
