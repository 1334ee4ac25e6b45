"""Correlations equal Spearman's definition and scipy's, and their intervals hold the truth."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from headcount.statistics import correlated, rank_correlations
from headcount.tasks.metrics import spearmans
from tests.textbook import statistics


def test_equal_numbers_share_a_rank():
    x, y = [1.0, 2.0, 2.0, 3.0, 3.0, 3.0], [4.0, 4.0, 5.0, 9.0, 7.0, 8.0]
    found = correlated(np.array(x), np.array(y))
    assert (found.value, found.low, found.high) == pytest.approx(statistics.spearman(x, y))


def test_numbers_that_differ_by_rounding_share_a_rank():
    exact, gold = np.array([1.0, 2, 2, 3, 3, 3]), np.arange(6.0)
    for signs in ([1, -1, 1, 1, -1, 1], [-1, 1, -1, -1, 1, 1]):
        rounded = exact * (1 + np.array(signs) * np.finfo(np.float32).eps)
        assert correlated(rounded, gold) == correlated(exact, gold)
        assert np.isnan(correlated(rounded / exact, gold).value)
    everyone = np.arange(6)[None]
    assert spearmans(rounded, gold)(everyone) == spearmans(exact, gold)(everyone)


def test_rows_are_scipys():
    a, b = np.random.default_rng(0).integers(0, 4, (2, 5, 9)).astype(float)
    a[3] = 1
    found = rank_correlations(a, b)
    assert np.isnan(found[3])
    for row in (0, 1, 2, 4):
        assert found[row] == pytest.approx(spearmanr(a[row], b[row])[0])


def test_intervals_hold_the_truth_as_often_as_promised():
    random, true = np.random.default_rng(0), 6 / np.pi * np.arcsin(0.6 / 2)
    inside = 0
    for _ in range(400):
        x, y = random.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 72).T
        found = correlated(x, y)
        inside += found.low <= true <= found.high
    assert 0.92 < inside / 400 < 0.98
