"""Rates of clustered cases: the test is a clustered t, and it holds its size."""

import numpy as np
import pytest
from scipy.stats import t as student

from headcount.statistics import ClusteredRates
from tests.textbook import halves


def rates_of(hits: np.ndarray, cases: np.ndarray) -> ClusteredRates:
    """The rate of one head's hits among cases by unit."""
    return ClusteredRates.of(
        np.array([float(hits.sum())]),
        int(cases.sum()),
        squares_H=np.array([float((hits**2).sum())]),
        products_H=np.array([float((hits * cases).sum())]),
        cases_squares=int((cases**2).sum()),
        units=int((cases > 0).sum()),
    )


def test_the_test_is_a_clustered_t():
    rng = np.random.default_rng(1)
    cases = rng.integers(0, 9, 47)
    hits = np.array([rng.binomial(n, p) for n, p in zip(cases, rng.beta(2, 3, 47), strict=True)])
    units = list(zip(hits.tolist(), cases.tolist(), strict=True))
    rate, error, t = halves.clustered_t(units, 0.3)
    num_units = int((cases > 0).sum())
    found = rates_of(hits, cases)
    assert (found.rate_H[0], found.error_H[0]) == pytest.approx((rate, error))
    assert found.p_above(0.3)[0] == pytest.approx(student.sf(t, num_units - 1))
    low, high = found.interval()
    assert found.p_above(low)[0] == pytest.approx(0.05), "the interval inverts the test"
    assert found.p_above(high)[0] == pytest.approx(0.95)


def test_units_that_are_all_alike_leave_no_doubt():
    found = rates_of(np.ones(40), np.ones(40, int))
    assert found.error_H[0] == 0
    assert [found.p_above(null)[0] for null in (0.9, 1.0)] == [0.0, 0.5]
    none = rates_of(np.array([40.0]), np.array([40]))
    assert np.isnan(none.p_above(0.5)[0])
    once = rates_of(np.array([1.0]), np.array([2]))
    assert once.rate_H[0] == 0.5 and np.isnan(once.error_H[0])


def test_the_test_holds_its_size_where_a_head_gains_nothing():
    """Heads that hit as often as chance: at most 5 % of single tests are below 0.05."""
    rng = np.random.default_rng(7)
    p = []
    for _ in range(600):
        cases = rng.integers(1, 12, 60)
        hits = rng.binomial(cases, rng.beta(6, 14, 60))  # sentences differ; 0.3 on average
        p.append(rates_of(hits, cases).p_above(0.3)[0])
    assert 0.03 < np.mean(np.array(p) < 0.05) < 0.075
