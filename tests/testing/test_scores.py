"""Our own scores run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.importance import (
    AblationScore,
    FisherScore,
    GradientScore,
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
