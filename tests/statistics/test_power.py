"""The power of a corrected test, by simulation and as its formula's inverse."""

import numpy as np
import pytest
from scipy.stats import norm

from headcount.statistics import power_of, smallest_seen
from tests.textbook import statistics as textbook


@pytest.mark.parametrize(("error", "tests"), [(0.013, 17), (0.5, 1), (2.0, 144)])
def test_the_smallest_effect_is_seen_in_the_wanted_share(error: float, tests: int) -> None:
    least = smallest_seen(error, tests)
    assert power_of(least, error, tests) == pytest.approx(0.8)
    assert power_of(-least, error, tests) == power_of(least, error, tests)
    assert power_of(least, error, tests) == pytest.approx(
        textbook.power(least, error, tests, 0.05), abs=1e-4
    )
    assert smallest_seen(error, tests, wanted=0.5) < least < smallest_seen(error, 10 * tests)


def test_that_share_of_experiments_finds_it() -> None:
    random = np.random.default_rng(3)
    drawn = random.normal(0.02, 0.007, 20_000)
    found = 2 * norm.sf(abs(drawn) / 0.007) * 13 < 0.05
    assert found.mean() == pytest.approx(power_of(0.02, 0.007, 13), abs=0.01)
