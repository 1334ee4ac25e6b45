"""The words that options of scores and of ablations take, and how causal gates are trained.

Needs no torch.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from headcount.core import ABOVE_0, Checked, Count, Seed, at_least

Level = Literal["token", "sample", "batch"]
"""Unit over which gradients are summed before the absolute value is taken."""

Rules = Literal["voita2019", "attnlrp", "relp", "alpha_beta"]
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


@dataclass(frozen=True)
class CausalGatesOptions(Checked):
    """How gates are trained."""

    starts: Count = 2
    """Causal gates: number of sets of gates to train on each half of the examples, each from a
    random start of its own."""
    updates: Count = 200
    """Causal gates: number of updates in each of the three stages."""
    update_examples: Count = 16
    """Causal gates: number of examples in an update."""
    reward: Annotated[float, ABOVE_0] = 0.1
    """Causal gates: lambda, the weight of the reward for open or closed gates in the loss."""
    rate: Annotated[float, ABOVE_0] = 1.0
    """Causal gates: learning rate of the gates' logits (Adam)."""


@dataclass(frozen=True)
class MatryoshkaOptions(Checked):
    """How nested scores are learned."""

    steps: Count = 120
    """Matryoshka: number of steps of learning; 500 in its paper."""
    step_examples: Count = 8
    """Matryoshka: number of examples in a step."""


@dataclass(frozen=True)
class AblationOptions(Checked):
    """What is ablated, what replaces it, and how its effect is tested."""

    instead: Instead = "zero"
    """Ablation: replacement for the head's output."""
    quantity: DeltaOf = "loss"
    """Ablation: quantity whose change is measured; the loss needs no beam search."""
    layers: bool = True
    """Ablation: ablate whole layers and whole sites."""
    one_left: bool = True
    """Ablation: test layers with only one head left."""
    ablated_examples: Annotated[int | None, at_least(1)] = None
    """Ablation: number of examples, drawn at random. By default, `importance` takes as many for
    losses as some five minutes of two processor cores suffice for; anything else takes all."""
    score_test: ScoreTest = "randomization"
    """Ablation: test of a score's change; sacrebleu is sacreBLEU's bootstrap, without intervals."""
    samples: Annotated[int | None, at_least(1)] = None
    """Ablation: number of swaps or bootstrap resamples; by default 100 for each head, and at least
    10000 swaps, or 1000 for Spearman's correlation and perplexity."""
    seed: Seed = 0
    """Seed of the bootstrap; the command also draws masks for masked language modelling with it."""
