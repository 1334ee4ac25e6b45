"""Shrunken estimates by the textbook, and what they are for: picked ones are right on average."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.statistics import shrunken
from tests.textbook import statistics as textbook


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 0.5)), min_size=4, max_size=13),
)
def test_estimates_are_shrunken_as_in_the_papers(drawn: list[tuple[float, float]]) -> None:
    estimates, errors = map(list, zip(*drawn, strict=True))
    found = shrunken(np.array(estimates), np.array(errors))
    assert found == pytest.approx(textbook.shrunken(estimates, errors), abs=1e-6)


def test_exact_estimates_stay_and_noise_alone_becomes_its_mean() -> None:
    exact = np.array([0.1, 0.3, 0.7, 0.2, 0.9])
    assert shrunken(exact, np.zeros(5)) == pytest.approx(exact)
    assert shrunken(np.full(5, 0.3), np.zeros(5)) == pytest.approx(np.full(5, 0.3))
    noise = np.array([0.1, -0.1, 0.2, -0.2])
    assert shrunken(noise, np.full(4, 1.0)) == pytest.approx(np.zeros(4), abs=1e-9)
    few = np.array([0.1, 0.5, 0.9])
    assert shrunken(few, np.full(3, 1.0)) == pytest.approx(few), "the spread of three is not known"


def test_picked_estimates_are_right_on_average() -> None:
    random = np.random.default_rng(7)
    measured, after = [], []
    for _ in range(200):
        truth_N = random.normal(0.0, 0.1, 89)
        estimate_N = random.normal(truth_N, 0.05)
        is_picked = estimate_N >= 0.1
        measured += [*(estimate_N - truth_N)[is_picked]]
        after += [*(shrunken(estimate_N, np.full(89, 0.05)) - truth_N)[is_picked]]
    assert np.mean(measured) > 0.02, "winners are too large"
    assert abs(np.mean(after)) < 0.002
