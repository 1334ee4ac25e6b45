"""Options of an assessment: the methods, and how each of them scores heads. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final, get_args

from headcount.core import InputError, check_choice
from headcount.importance.choices import Average, DeltaOf, Instead, Level, Rules, ScoreTest
from headcount.importance.score import SCORES

MethodName = Literal["gradient", "relevance", "ablation", "norm", "sink", "fisher"]

METHODS: tuple[MethodName, ...] = get_args(MethodName)
"""Every method; ablation is no `Score`, since its numbers have intervals and tests."""
BY_DEFAULT: tuple[MethodName, ...] = METHODS[:5]
"""The methods of an assessment by default."""
READ_BY: Mapping[str, tuple[str, ...]] = {
    **{name: kind.__match_args__ for name, kind in SCORES.items()},
    "ablation": ("instead", "quantity", "layers", "one_left", "score_test", "samples"),
}
"""Options that only one method reads."""


@final
@dataclass(frozen=True)
class Options:
    """The methods to run, and their options, in Python and as options of the command.

    Raises:
        InputError: If a method, level, average, replacement, quantity or test is unknown.
    """

    methods: tuple[MethodName, ...] = BY_DEFAULT
    """Scores to compute."""
    level: Level = "sample"
    """Gradient: unit whose absolute value is taken; sample as in Michel et al. (2019)."""
    normalise: bool = True
    """Gradient: divide each score by the norm over the layer's heads, so that layers compare."""
    rules: Rules = "voita2019"
    """Relevance: rule set for LRP."""
    average: Average = "per-example"
    """Relevance: per-step is the average of Voita et al. (2019), with a backward pass per target
    step; per-example, the fast one, normalises the steps of an example together."""
    instead: Instead = "zero"
    """Ablation: replacement for the head's output."""
    quantity: DeltaOf = "loss"
    """Ablation: quantity whose change is measured; the loss needs no beam search."""
    layers: bool = True
    """Ablation: also ablate whole layers and whole sites."""
    one_left: bool = True
    """Ablation: also ablate all heads of a layer but one."""
    score_test: ScoreTest = "randomization"
    """Ablation: test of a score's change; sacrebleu is sacreBLEU's bootstrap, without intervals."""
    samples: int | None = None
    """Ablation: swaps or bootstrap resamples; by default as many as the number of heads needs, and
    at least 10,000 swaps, or 1000 for Spearman's correlation and perplexity."""
    seed: int = 0
    """Seed of the bootstrap; the command also draws masks for masked language modelling with it."""

    def __post_init__(self) -> None:
        for name in self.methods:
            check_choice("a method", name, MethodName)
        check_choice("a replacement", self.instead, Instead)
        check_choice("a level", self.level, Level)
        check_choice("an average", self.average, Average)
        check_choice("a quantity", self.quantity, DeltaOf)
        check_choice("a test", self.score_test, ScoreTest)
        if self.samples is not None and self.samples < 1:
            raise InputError(
                f"Expected at least 1 swap or resample, got samples={self.samples}. Leave it out "
                "for as many as the number of heads needs."
            )
