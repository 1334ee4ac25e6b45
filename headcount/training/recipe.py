"""Recipes: everything that decides how a model is trained, but for the data.

Reference: `base` is the Transformer of Analyzing Multi-Head Self-Attention (Voita et al., 2019),
appendix A, https://arxiv.org/abs/1905.09418, after Attention Is All You Need (Vaswani et al.,
2017), https://arxiv.org/abs/1706.03762
Departure: the two sides of a translation share one vocabulary and all their embeddings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, final, get_args

from headcount.errors import InputError

Schedule = Literal["linear", "inverse_sqrt"]
Precision = Literal["float32", "bfloat16"]
NEEDED = (
    "width", "feed_forward", "layers", "heads", "pieces", "max_length", "epochs", "batch_tokens",
    "accumulate", "average", "peak", "clip",
)  # fmt: skip
"""Fields that are above 0."""
CHOICES = {"schedule": get_args(Schedule), "precision": get_args(Precision)}


@final
@dataclass(frozen=True)
class Recipe:
    """The model's size and the way it is trained.

    Raises:
        InputError: for a value that can't be, with the field's name.
    """

    width: int = 256
    """Size of the residual stream."""
    feed_forward: int = 1024
    """Size of the inner layer of a feed-forward block."""
    layers: int = 6
    """Of the encoder, and as many of the decoder."""
    heads: int = 8
    """Of every attention layer."""
    pieces: int = 8000
    """Size of the vocabulary, special tokens included."""
    max_length: int = 256
    """Longest example in tokens; longer ones are left out of the training, and counted."""
    dropout: float = 0.1
    """Of embeddings and sublayers' outputs."""
    attention_dropout: float = 0.0
    """Of attention weights."""
    label_smoothing: float = 0.1
    """Share of the probability that goes to all pieces alike."""
    epochs: int = 7
    """Passes over the training data at most."""
    batch_tokens: int = 3000
    """Padded tokens of the longer side in a batch of one process."""
    accumulate: int = 1
    """Batches of one process whose gradients add up to one step."""
    peak: float = 1.5e-3
    """Learning rate at the end of the warm-up."""
    warmup: int = 500
    """Steps over which the learning rate grows from 0 to its peak."""
    schedule: Schedule = "linear"
    """After the warm-up: down to 0 at the last step, or with the inverse root of the step."""
    beta2: float = 0.98
    """Of Adam, whose beta1 is 0.9."""
    clip: float = 1.0
    """Norm that gradients are cut down to."""
    precision: Precision = "bfloat16"
    """Of matrix products in training (autocast); weights are float32."""
    average: int = 5
    """The last so many checkpoints are kept, and averaged into the model."""

    def __post_init__(self) -> None:
        for name in NEEDED:
            if getattr(self, name) <= 0:
                raise InputError(f"a {name} above 0 was expected; came {getattr(self, name)}")
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"a finite {name} was expected; came {getattr(self, name)}")
        if self.warmup < 0:
            raise InputError(f"a warmup of at least 0 steps was expected; came {self.warmup}")
        for name in ("dropout", "attention_dropout", "label_smoothing", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"a {name} from 0 up to below 1 was expected; came {getattr(self, name)}"
                )
        if self.width % (2 * self.heads):
            raise InputError(
                f"a width that {self.heads} heads can share in even parts was expected; came "
                f"{self.width}"
            )


RECIPES = {
    "tiny": Recipe(
        width=32, feed_forward=64, layers=2, heads=4, pieces=200, max_length=64, epochs=4,
        batch_tokens=256, peak=3e-3, warmup=10, precision="float32", average=2,
    ),
    "small": Recipe(),
    "base": Recipe(
        width=512, feed_forward=2048, pieces=32000, attention_dropout=0.1, epochs=40,
        batch_tokens=16000, peak=7e-4, warmup=16000, schedule="inverse_sqrt",
    ),
}  # fmt: skip
"""`tiny` for tests (seconds), `small` for two cores (hours), `base` the paper's (GPUs)."""


def changed(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """A recipe with some fields set anew.

    >>> changed(RECIPES["tiny"], ["epochs=9", "peak=0.001"]).epochs
    9

    Raises:
        InputError: for a field that does not exist or a value that it can't have.
    """
    kinds: dict[str, Any] = {
        field.name: type(getattr(recipe, field.name)) for field in fields(recipe)
    }
    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name not in kinds or not equals:
            raise InputError(
                f"FIELD=VALUE was expected, with a field out of {', '.join(kinds)}; came "
                f"{setting!r}"
            )
        values[name] = _value(name, kinds[name], text)
    return replace(recipe, **values)


def _value(name: str, kind: Any, text: str) -> Any:
    if name in CHOICES and text not in CHOICES[name]:
        raise InputError(f"{name} is one of {', '.join(CHOICES[name])}; came {text!r}")
    try:
        return kind(text)
    except ValueError as error:
        raise InputError(f"{name} is a number ({kind.__name__}); came {text!r}") from error
