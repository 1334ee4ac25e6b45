"""Recipes: everything that decides how a model is trained, but for the data.

Reference: `base` is the Transformer of Analyzing Multi-Head Self-Attention (Voita et al., 2019),
appendix A, https://arxiv.org/abs/1905.09418, after Attention Is All You Need (Vaswani et al.,
2017), https://arxiv.org/abs/1706.03762
Departure: the two sides of a translation share one vocabulary and all their embeddings.
"""

import math
from dataclasses import dataclass
from typing import final

from headcount.errors import InputError
from headcount.training.optimization import Optimization, Precision


@final
@dataclass(frozen=True)
class Recipe(Optimization):
    """The model's size and the way it is trained.

    Raises:
        InputError: for a value that can't be, with the field's name.
    """

    batch_tokens: int = 500
    peak: float = 1e-3
    warmup: int = 1000
    beta2: float = 0.98
    precision: Precision = "bfloat16"
    label_smoothing: float = 0.1
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
    init_std: float = 0.02
    """Standard deviation of new weights."""
    dropout: float = 0.1
    """Of embeddings and sublayers' outputs."""
    attention_dropout: float = 0.0
    """Of attention weights."""
    consistency: float = 0.0
    """Weight of the distance between two passes through dropout (R-Drop's alpha); 0: one pass."""
    bpe_dropout: float = 0.0
    """Of merges in cutting words into pieces, which then make examples and batches longer."""
    concatenated: float = 0.0
    """Share of the examples that are concatenated in pairs, new ones in every epoch."""
    epochs: int = 7
    """Passes over the training data at most."""
    average: int = 5
    """The last so many checkpoints are kept, and averaged into the model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._above_zero(
            "width", "feed_forward", "layers", "heads", "pieces", "max_length", "init_std",
            "epochs", "average",
        )  # fmt: skip
        self._shares("dropout", "attention_dropout", "bpe_dropout")
        if not (self.consistency >= 0 and math.isfinite(self.consistency)):
            raise InputError(f"a consistency of at least 0 was expected; came {self.consistency}")
        if self.consistency and not (self.dropout or self.attention_dropout):
            raise InputError(
                "dropout was expected where consistency is above 0, since two passes say the same "
                "without; came dropout=0"
            )
        if not 0 <= self.concatenated <= 1:
            raise InputError(
                f"a number from 0 to 1 was expected for concatenated; came {self.concatenated}"
            )
        if self.width % (2 * self.heads):
            raise InputError(
                f"a width that {self.heads} heads can share in even parts was expected; came "
                f"{self.width}"
            )


RECIPES = {
    "tiny": Recipe(
        width=32, feed_forward=64, layers=2, heads=4, pieces=200, max_length=64, epochs=4,
        init_std=0.18, batch_tokens=256, peak=3e-3, warmup=10, precision="float32", average=2,
    ),
    "small": Recipe(
        epochs=9, batch_tokens=1500, optimizer="muon", peak=2e-3, warmup=500, dropout=0.2,
        concatenated=0.5,
    ),
    "base": Recipe(
        width=512, feed_forward=2048, pieces=32000, attention_dropout=0.1, epochs=40,
        batch_tokens=16000, peak=7e-4, warmup=16000, schedule="inverse_sqrt",
    ),
}  # fmt: skip
"""`tiny` for tests (seconds), `small` for two cores (hours), `base` the paper's (GPUs)."""
