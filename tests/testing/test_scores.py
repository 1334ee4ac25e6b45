"""Our own scores run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.importance import (
    SCORES,
    AblationScore,
    CausalGatesScore,
    FisherScore,
    GradientScore,
    MatryoshkaScore,
    NormScore,
    RelevanceScore,
    SinkScore,
)
from headcount.testing import Outcome, parametrize


@pytest.mark.once("options", "words")
@parametrize(
    *(GradientScore, FisherScore, RelevanceScore, NormScore),
    AblationScore(layers=False, one_left=False, samples=99),
)
def test_a_score(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.once("resumes", "separates")
@parametrize(
    SinkScore,
    expected_failures={"separates": "a head may look anywhere but at the first token for nothing"},
)
def test_sink(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.slow
@parametrize(
    CausalGatesScore(updates=10, update_examples=4, starts=1),
    expected_failures={
        each: "gates are trained on examples that are drawn in their order"
        for each in ("batches", "order")
    },
)
def test_trained_gates(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.slow
@parametrize(
    MatryoshkaScore(steps=10, step_examples=4),
    expected_failures={"order": "examples of a step are drawn in their order"},
)
def test_learned_scores(check: Callable[[], Outcome]) -> None:
    check()


def test_all_of_ours_are_checked() -> None:
    others = (SinkScore, CausalGatesScore, MatryoshkaScore, AblationScore)
    checked = (GradientScore, FisherScore, RelevanceScore, NormScore, *others)
    assert [*SCORES.own] == [name for name in SCORES.own if SCORES[name] in checked]
