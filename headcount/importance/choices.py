"""The words that options of scores and of ablations take. Needs no torch."""

from typing import Literal

Level = Literal["token", "sample", "batch"]
"""Unit over which gradients are summed before the absolute value is taken."""

Rules = Literal["voita2019", "attnlrp", "alpha_beta"]
"""Rule set of layer-wise relevance propagation."""

Average = Literal["per-example", "per-step"]
"""What relevance is normalised over a layer's heads for, before the mean: the steps of an example
together, or every target step as in Voita et al. (2019)."""

Instead = Literal["zero", "mean", "uniform"]
"""Replacement for an ablated head's output."""

DeltaOf = Literal["loss", "score"]
"""Quantity whose change an ablation measures."""

ScoreTest = Literal["randomization", "sacrebleu"]
"""Test of a score's change: paired approximate randomization, or sacreBLEU's bootstrap."""
