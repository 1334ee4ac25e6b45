"""Ratios: Student's interval of the logarithms equals scipy's, and obeys its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from headcount.speed import Ratio

TIMES = st.lists(st.floats(0.1, 10), min_size=2, max_size=9)


def test_the_interval_is_that_of_a_t_test() -> None:
    ratios = [1.31, 1.17, 1.43, 1.29, 1.37]
    expected = ttest_1samp(np.log(ratios), 0).confidence_interval(0.95)
    found = Ratio.of(ratios)
    assert found.value == pytest.approx(np.prod(ratios) ** (1 / 5))
    assert (found.low, found.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


@given(TIMES)
def test_turned_over(ratios: list[float]) -> None:
    """Swapping dense and pruned inverts the ratio and changes nothing else."""
    found, over = Ratio.of(ratios), Ratio.of([1 / each for each in ratios])
    assert (over.value, over.low, over.high) == pytest.approx(
        (1 / found.value, 1 / found.high, 1 / found.low)
    )
    assert found.low <= found.value <= found.high
    assert found.distance == pytest.approx(over.distance)


def test_ninety_five_of_a_hundred_intervals_hold_the_ratio() -> None:
    ratios_XR = np.random.default_rng(3).lognormal(np.log(1.3), 0.1, (2000, 7))
    found = [Ratio.of(list(row)) for row in ratios_XR]
    assert np.mean([each.low <= 1.3 <= each.high for each in found]) == pytest.approx(
        0.95, abs=0.015
    )


def test_distance() -> None:
    """Largest distance of an interval's ends from 1."""
    assert Ratio(1.0, 0.8, 1.1).distance == pytest.approx(0.25)
    assert Ratio(1.0, 0.99, 1.1).distance == pytest.approx(0.1)
