"""The bootstrap's ratios equal loops over the same draws; a mean's interval is Student's."""

import math

import numpy as np
import pytest
from scipy import stats

from headcount.statistics import Bootstrap, Estimate, mean_interval
from tests.textbook import statistics

SENTENCES, SAMPLES, GROUPS = 17, 101, 3


def sums() -> tuple[np.ndarray, np.ndarray]:
    """Sums and cases of three groups; the last one has cases in one sentence only."""
    random = np.random.default_rng(5)
    cases_SG = random.integers(0, 4, (SENTENCES, GROUPS)).astype(float)
    cases_SG[:, 2] = 0
    cases_SG[4, 2] = 2
    return cases_SG * random.uniform(size=(SENTENCES, GROUPS)), cases_SG


def draws() -> list[list[int]]:
    """How often each sentence is in every draw."""
    even = np.full(SENTENCES, 1 / SENTENCES)
    return np.random.default_rng(0).multinomial(SENTENCES, even, SAMPLES).tolist()


def ends(found: Estimate) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def test_ratios_are_the_textbook():
    sums_SG, cases_SG = sums()
    found = Bootstrap(SENTENCES, SAMPLES, 0).ratios(sums_SG, cases_SG)
    for group, one in enumerate(found):
        each = sums_SG[:, group].tolist(), cases_SG[:, group].tolist()
        assert ends(one) == pytest.approx(statistics.bootstrap([each], draws()))
        assert one.cases == cases_SG[:, group].sum()


def test_the_mean_over_groups_is_the_textbook():
    sums_SG, cases_SG = sums()
    found = Bootstrap(SENTENCES, SAMPLES, 0).mean_ratio(sums_SG, cases_SG)
    groups = [(sums_SG[:, g].tolist(), cases_SG[:, g].tolist()) for g in range(GROUPS)]
    assert ends(found) == pytest.approx(statistics.bootstrap(groups, draws()), rel=1e-5)
    assert found.cases == cases_SG.sum()
    none = Bootstrap(SENTENCES, SAMPLES, 0).mean_ratio(sums_SG, 0 * cases_SG)
    assert np.isnan(ends(none)).all() and none.cases == 0


def test_sums_are_those_of_the_drawn_sentences():
    counts_S = np.arange(SENTENCES)
    expected = [sum(n * count for n, count in enumerate(draw)) for draw in draws()]
    assert Bootstrap(SENTENCES, SAMPLES, 0).drawn_sums(counts_S).tolist() == expected


def test_the_interval_of_a_mean_is_students():
    values_NM = np.random.default_rng(1).normal(size=(11, 2))
    low_M, mean_M, high_M = mean_interval(values_NM)
    for number in range(2):
        its = values_NM[:, number]
        error = its.std(ddof=1) / math.sqrt(11)
        expected = stats.t.interval(0.95, 10, its.mean(), error)
        assert (low_M[number], high_M[number]) == pytest.approx(expected)
        assert mean_M[number] == pytest.approx(its.mean())
