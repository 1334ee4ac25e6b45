"""The words that options of scores and of ablations take, and how causal gates are trained.

Needs no torch.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

from headcount.core import InputError, check_choice

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
class CausalGatesOptions:
    """How gates are trained."""

    starts: int = 2
    """Causal gates: number of sets of gates to train on each half of the examples, each from a
    random start of its own."""
    updates: int = 200
    """Causal gates: number of updates in each of the three stages."""
    update_examples: int = 16
    """Causal gates: number of examples in an update."""
    reward: float = 0.1
    """Causal gates: lambda, the weight of the reward for open or closed gates in the loss."""
    rate: float = 1.0
    """Causal gates: learning rate of the gates' logits (Adam)."""


def check_causal_gates(options: CausalGatesOptions) -> None:
    """Check the options of causal gates.

    Raises:
        InputError: If one is out of its range.
    """
    for name in ("starts", "updates", "update_examples"):
        if (number := getattr(options, name)) < 1:
            raise InputError(
                f"Expected {name.replace('_', '-')} of at least 1 for causal gates, got {number}."
            )
    for name in ("reward", "rate"):
        if not 0 < (number := getattr(options, name)) < inf:
            raise InputError(
                f"Expected a finite {name} above 0 for causal gates, got {number}. The default is "
                f"{getattr(CausalGatesOptions, name)}."
            )


@dataclass(frozen=True)
class MatryoshkaOptions:
    """How nested scores are learned."""

    steps: int = 120
    """Matryoshka: number of steps of learning; 500 in its paper."""
    step_examples: int = 8
    """Matryoshka: number of examples in a step."""


def check_matryoshka(options: MatryoshkaOptions) -> None:
    """Check the options of Matryoshka attribution.

    Raises:
        InputError: If one is below 1.
    """
    for name in ("steps", "step_examples"):
        if (number := getattr(options, name)) < 1:
            raise InputError(
                f"Expected {name.replace('_', '-')} of at least 1 for Matryoshka attribution, got "
                f"{number}."
            )


@dataclass(frozen=True)
class AblationOptions:
    """What is ablated, what replaces it, and how its effect is tested."""

    instead: Instead = "zero"
    """Ablation: replacement for the head's output."""
    quantity: DeltaOf = "loss"
    """Ablation: quantity whose change is measured; the loss needs no beam search."""
    layers: bool = True
    """Ablation: ablate whole layers and whole sites."""
    one_left: bool = True
    """Ablation: test layers with only one head left."""
    ablated_examples: int | None = None
    """Ablation: number of examples, drawn at random. By default, `importance` takes as many for
    losses as some five minutes of two processor cores suffice for; anything else takes all."""
    score_test: ScoreTest = "randomization"
    """Ablation: test of a score's change; sacrebleu is sacreBLEU's bootstrap, without intervals."""
    samples: int | None = None
    """Ablation: number of swaps or bootstrap resamples; by default 100 for each head, and at least
    10000 swaps, or 1000 for Spearman's correlation and perplexity."""
    seed: int = 0
    """Seed of the bootstrap; the command also draws masks for masked language modelling with it."""


def check_ablation(options: AblationOptions) -> None:
    """Check the options of ablation.

    Raises:
        InputError: If a replacement, quantity or test is unknown, or there are no samples.
    """
    check_choice("a replacement", options.instead, Instead)
    check_choice("a quantity", options.quantity, DeltaOf)
    if options.ablated_examples is not None and options.ablated_examples < 1:
        raise InputError(
            f"Expected at least 1 example to ablate heads on, got {options.ablated_examples}. "
            "Leave it out for as many as take some five minutes."
        )
    check_choice("a test", options.score_test, ScoreTest)
    if options.samples is not None and options.samples < 1:
        raise InputError(
            f"Expected at least 1 swap or resample, got samples={options.samples}. Leave it out "
            "for as many as the number of heads needs."
        )
