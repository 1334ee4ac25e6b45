"""P-values of draws and Holm's correction equal their definitions."""

import numpy as np
import pytest

from headcount.statistics import holm, p_at_least
from headcount.statistics.p_values import p_of_draws
from tests.textbook import statistics


@pytest.mark.parametrize("seed", range(3))
def test_p_is_the_share_of_draws_as_extreme(seed: int):
    drawn_DT = np.random.default_rng(seed).integers(0, 7, (23, 5)).astype(float)
    for test, p in enumerate(p_of_draws(drawn_DT >= 4)):
        assert p == statistics.p_at_least(4, drawn_DT[:, test].tolist())
        assert p == p_at_least(4.0, drawn_DT[:, test])
    assert p_at_least(7.0, drawn_DT[:, 0]) == 1 / 24, "no p is 0"


def test_ties_up_to_rounding_are_ties():
    assert p_at_least(0.1 + 0.2, np.array([0.3, 0.29])) == 2 / 3
    assert p_at_least(-(0.1 + 0.2), -np.array([0.3, 0.31])) == 2 / 3


def test_holm_by_hand():
    # statsmodels' multipletests(..., method="holm") gives the same numbers.
    found = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.9])).tolist() == [1, 1]
    assert holm(np.array([])).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_textbook(seed: int):
    p_H = np.random.default_rng(seed).choice(np.linspace(0.001, 1, 40) ** 3, 23)
    assert holm(p_H) == pytest.approx(statistics.holm(p_H.tolist()))


def test_holm_leaves_out_what_was_not_measured():
    found = holm(np.array([0.02, np.nan, 0.01]))
    assert found[[0, 2]].tolist() == [0.02, 0.02] and np.isnan(found[1])
