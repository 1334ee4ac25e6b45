"""The bootstrap's ratios equal loops over the same draws; few clusters get Student's interval."""

import math

import numpy as np
import pytest
from scipy import stats

from headcount.statistics import Bootstrap, Estimate, few_clusters, mean_interval, wilson_interval
from tests.textbook import statistics

SENTENCES, SAMPLES, GROUPS = 17, 101, 3
ENOUGH = 29


def sums(sentences: int = SENTENCES) -> tuple[np.ndarray, np.ndarray]:
    """Sums and cases of three groups; the last one has cases in one sentence only."""
    random = np.random.default_rng(5)
    cases_SG = random.integers(1, 4, (sentences, GROUPS)).astype(float)
    cases_SG[:, 2] = 0
    cases_SG[4, 2] = 2
    return cases_SG * random.uniform(size=(sentences, GROUPS)), cases_SG


def draws(sentences: int = SENTENCES) -> list[list[int]]:
    """How often each sentence is in every draw."""
    even = np.full(sentences, 1 / sentences)
    return np.random.default_rng(0).multinomial(sentences, even, SAMPLES).tolist()


def ends(found: Estimate) -> tuple[float, float, float]:
    return found.value, found.low, found.high


@pytest.mark.parametrize("sentences", [4, SENTENCES, 24, ENOUGH])
def test_ratios_are_the_textbook(sentences):
    sums_SG, cases_SG = sums(sentences + 1)
    cases_SG[-1] = sums_SG[-1] = 0  # a sentence without cases is no cluster
    found = Bootstrap(sentences + 1, SAMPLES, 0).ratios(sums_SG, cases_SG)
    for group, one in enumerate(found):
        each = sums_SG[:, group].tolist(), cases_SG[:, group].tolist()
        expected = statistics.bootstrap([each], draws(sentences + 1))
        assert ends(one) == pytest.approx(expected, nan_ok=True)
        assert one.cases == cases_SG[:, group].sum()
    assert math.isnan(found[2].low) and not math.isnan(found[1].low)


def test_enough_sentences_have_the_percentiles_to_the_last_bit():
    sums_SG, cases_SG = sums(25)
    drawn = Bootstrap(25, SAMPLES, 0)
    found = drawn.ratios(sums_SG[:, :2], cases_SG[:, :2])
    drawn_RN = drawn.drawn_ratios(sums_SG[:, :2], cases_SG[:, :2])
    expected = np.quantile(drawn_RN, [0.025, 0.975], axis=0).T.tolist()
    assert [[one.low, one.high] for one in found] == expected


@pytest.mark.parametrize("clusters", [4, 8, 15])
def test_intervals_of_few_clusters_hold_the_truth(clusters):
    random = np.random.default_rng(clusters)
    sums_CT = random.normal(size=(clusters, 400))
    found = Bootstrap(clusters, 199, 0).ratios(sums_CT, np.ones_like(sums_CT))
    assert 0.92 < np.mean([one.low <= 0 <= one.high for one in found]) < 0.98


def test_few_clusters_are_said():
    assert not few_clusters(10, "document")
    (warning,) = few_clusters(9, "document")
    assert warning.startswith("intervals from 9 documents are rough: with fewer than 10, ")


def test_an_interval_within_a_range_keeps_the_number():
    assert Estimate(0.5, -0.1, 1.1, 3).within(0.0, 1.0) == Estimate(0.5, 0.0, 1.0, 3)
    assert Estimate(0.5, 0.2, 0.8, 3).within(0.0, 1.0) == Estimate(0.5, 0.2, 0.8, 3)
    none = Estimate(math.nan, math.nan, math.nan, 0)
    assert none.within(0.0, 1.0) is none


@pytest.mark.parametrize("sentences", [SENTENCES, ENOUGH])
def test_the_mean_over_groups_is_the_textbook(sentences):
    sums_SG, cases_SG = sums(sentences)
    found = Bootstrap(sentences, SAMPLES, 0).mean_ratio(sums_SG, cases_SG)
    groups = [(sums_SG[:, g].tolist(), cases_SG[:, g].tolist()) for g in range(GROUPS)]
    assert ends(found) == pytest.approx(statistics.bootstrap(groups, draws(sentences)), rel=1e-5)
    assert found.cases == cases_SG.sum()
    none = Bootstrap(sentences, SAMPLES, 0).mean_ratio(sums_SG, 0 * cases_SG)
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


@pytest.mark.parametrize("cases", [1, 8, 40])
def test_wilson_intervals_are_those_of_scipy(cases: int) -> None:
    for hits in range(cases + 1):
        expected = stats.binomtest(hits, cases).proportion_ci(method="wilson")
        found = wilson_interval(hits / cases, cases)
        np.testing.assert_allclose(found, (expected.low, expected.high), atol=1e-12)
        assert 0 <= found[0] <= hits / cases <= found[1] <= 1
