"""Recipes: everything that decides how a model is trained, but for the data.

Reference: `base` is the Transformer of Analyzing Multi-Head Self-Attention (Voita et al., 2019),
appendix A, https://arxiv.org/abs/1905.09418, after Attention Is All You Need (Vaswani et al., 2017),
https://arxiv.org/abs/1706.03762
Departure: the two sides of a translation share one vocabulary and all their embeddings.
"""

from dataclasses import dataclass
from typing import Literal, final

Schedule = Literal["linear", "inverse_sqrt"]


@final
@dataclass(frozen=True)
class Recipe:
    """The model's size and the way it is trained."""

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
    """Longest sentence in tokens; longer training examples are left out and counted."""
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
    """Batches whose gradients add up to one step."""
    peak: float = 1.5e-3
    """Learning rate at the end of the warm-up."""
    warmup: int = 500
    """Steps over which the learning rate grows from 0 to its peak."""
    schedule: Schedule = "linear"
    """After the warm-up: down to 0 at the last step, or with the inverse square root of the step."""
    beta2: float = 0.98
    """Of Adam, whose beta1 is 0.9."""
    clip: float = 1.0
    """Norm that gradients are cut down to."""
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Of matrix products in training (autocast); weights are float32."""
    average: int = 5
    """The last so many checkpoints are averaged into the model."""


RECIPES = {
    "tiny": Recipe(
        width=32, feed_forward=64, layers=2, heads=4, pieces=200, max_length=64, epochs=4,
        batch_tokens=128, warmup=10, peak=3e-3, precision="float32", average=2,
    ),
    "small": Recipe(),
    "base": Recipe(
        width=512, feed_forward=2048, pieces=32000, attention_dropout=0.1, epochs=40,
        batch_tokens=16000, peak=7e-4, warmup=16000, schedule="inverse_sqrt",
    ),
}  # fmt: skip
"""`tiny` for tests (seconds); `small` for two cores (hours) or a GPU (minutes); `base` the paper's."""
