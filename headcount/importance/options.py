"""The scores by name, and the options of an assessment. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final, get_args

from headcount.core import InputError, check_choice
from headcount.importance.causal_gates_score import CausalGatesScore
from headcount.importance.choices import (
    Average,
    CausalGatesOptions,
    DeltaOf,
    Instead,
    Level,
    ScoreTest,
    check_causal_gates,
)
from headcount.importance.fisher_score import FisherScore
from headcount.importance.gradient_score import GradientOptions, GradientScore
from headcount.importance.norm_score import NormScore
from headcount.importance.relevance_score import RelevanceOptions, RelevanceScore
from headcount.importance.score import Score
from headcount.importance.sink_score import SinkScore

SCORES: Mapping[str, type[Score]] = {
    each.name: each
    for each in (
        *(GradientScore, RelevanceScore, NormScore, SinkScore, FisherScore),
        CausalGatesScore,
    )
}
"""Every score by its name; ablation, which has intervals and tests, is a method of its own."""

MethodName = Literal["gradient", "relevance", "ablation", "norm", "sink", "fisher", "causal-gates"]

METHODS: tuple[MethodName, ...] = get_args(MethodName)
"""Every method, in the order in which they are measured."""
BY_DEFAULT: tuple[MethodName, ...] = tuple(
    name for name in METHODS if name == "ablation" or SCORES[name].by_default
)
"""The methods of an assessment by default."""
ABLATION_COLUMNS = ("ablation_delta", "ablation_low", "ablation_high", "ablation_p")
SCORE_COLUMNS = ("ablation_delta", *(each.column.key for each in SCORES.values()))
"""Columns of the head table that score importance; higher = more important."""
COLUMNS = tuple(
    column
    for name in METHODS
    for column in (
        [each.key for each in SCORES[name].columns()] if name in SCORES else ABLATION_COLUMNS
    )
)
"""Columns that assessments write."""
READ_BY: Mapping[str, tuple[str, ...]] = {
    **{name: kind.__match_args__ for name, kind in SCORES.items()},
    "ablation": ("instead", "quantity", "layers", "one_left", "score_test", "samples"),
}
"""Options that only one method reads."""


@dataclass(frozen=True)
class Chosen:
    """What heads are scored by."""

    methods: tuple[MethodName, ...] = BY_DEFAULT
    """Scores to compute."""


@final
@dataclass(frozen=True)
class Options(CausalGatesOptions, RelevanceOptions, GradientOptions, Chosen):
    """The methods to run, and their options, in Python and as options of the command.

    Those of scores are inherited; the last base has the first options.

    Raises:
        InputError: If a method, level, average, replacement, quantity or test is unknown.
    """

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
        check_causal_gates(self)
        if self.samples is not None and self.samples < 1:
            raise InputError(
                f"Expected at least 1 swap or resample, got samples={self.samples}. Leave it out "
                "for as many as the number of heads needs."
            )


def score_of(name: str, options: object) -> Score:
    """A score with those of some options that are its own, e.g. of an assessment or a method."""
    kind = SCORES[name]
    return kind(**{each: getattr(options, each) for each in kind.__match_args__})
