"""The bootstrap's ratios equal loops over the same draws; its intervals hold the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from headcount.statistics import Bootstrap, Estimate, few_clusters, mean_interval, wilson_interval
from tests.textbook import statistics

SENTENCES, SAMPLES, GROUPS = 17, 101, 3
MANY = 29


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


@pytest.mark.parametrize("sentences", [4, SENTENCES, 24, MANY])
def test_ratios_are_the_textbook(sentences):
    sums_SG, cases_SG = sums(sentences + 1)
    cases_SG[-1] = sums_SG[-1] = 0  # a sentence without cases is no cluster
    found = Bootstrap(sentences + 1, SAMPLES, 0).ratios(sums_SG, cases_SG)
    for group, one in enumerate(found):
        each = sums_SG[:, group].tolist(), cases_SG[:, group].tolist()
        expected = statistics.bootstrap([each], draws(sentences + 1))
        assert ends(one) == pytest.approx(expected, nan_ok=True)
        assert one.cases == cases_SG[:, group].sum()
    assert math.isnan(found[2].low) and math.isnan(found[1].low) == (sentences < 8)


@pytest.mark.parametrize("clusters", [8, 25, 60])
@pytest.mark.parametrize("sizes", ["even", "uneven"])
def test_intervals_of_numbers_hold_the_truth(clusters: int, sizes: str) -> None:
    """Normal numbers of documents, also where these hold 1 to some 100 cases."""
    random = np.random.default_rng(clusters)
    cases_CT = np.ones((clusters, 400))
    if sizes == "uneven":
        cases_CT += random.poisson(random.lognormal(2, 1, cases_CT.shape))
    found = Bootstrap(clusters, 299, 0).ratios(
        cases_CT * random.normal(size=(clusters, 400)), cases_CT
    )
    assert 0.92 < np.mean([one.low <= 0 <= one.high for one in found]) < 0.98


@pytest.mark.parametrize("clusters", [2, 4, 8, 25, 60])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_intervals_of_shares_hold_the_truth(clusters: int, share: float) -> None:
    """Ten cases a document, which are alike to a tenth (intraclass correlation)."""
    random = np.random.default_rng(clusters)
    share_CT = random.beta(9 * share, 9 * (1 - share), (clusters, 400))
    hits_CT = random.binomial(10, share_CT).astype(float)
    found = Bootstrap(clusters, 299, 0).ratios(hits_CT, np.full_like(hits_CT, 10), shares=True)
    assert np.mean([one.low <= share <= one.high for one in found]) > 0.925
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in found)


def test_the_interval_of_a_share_is_wilsons_over_its_effective_cases() -> None:
    random = np.random.default_rng(3)
    cases_S = random.integers(5, 30, SENTENCES).astype(float)
    sums_S = random.binomial(cases_S.astype(int), random.beta(2, 1, SENTENCES)).astype(float)
    drawn = Bootstrap(SENTENCES, SAMPLES, 0)
    one = drawn.ratio(sums_S, cases_S, shares=True)
    (drawn_R,) = drawn.drawn_ratios(sums_S[:, None], cases_S[:, None]).T
    variance = drawn_R.var(ddof=1) * SENTENCES / (SENTENCES - 1)
    worth = cases_S.sum() ** 2 / (cases_S**2).sum()
    reach = float(stats.t.ppf(0.975, worth - 1))
    effective = one.value * (1 - one.value) / variance
    assert effective < cases_S.sum() / 2
    expected = wilson_interval(one.value, effective, reach)
    assert (one.low, one.high) == pytest.approx(expected)
    nothing = drawn.ratio(0 * sums_S, cases_S, shares=True)
    assert (nothing.low, nothing.high) == pytest.approx(wilson_interval(0.0, worth, reach))
    once = drawn.ratio(np.eye(SENTENCES)[0], cases_S, shares=True)
    widest = wilson_interval(once.value, cases_S.sum(), float(stats.t.ppf(0.975, 2)))
    assert once.high > widest[1] - 1e-9


def test_too_few_clusters_have_no_interval_and_the_reason() -> None:
    ones = np.ones(7)
    drawn = Bootstrap(7, SAMPLES, 0)
    assert math.isnan(drawn.ratio(np.arange(7.0), ones).low)
    assert drawn.ratio(np.arange(7) / 7, ones, shares=True).low > 0
    assert math.isnan(drawn.ratio(np.eye(7)[0], np.eye(7)[0], shares=True).low), "one document"
    assert not few_clusters(8, "document")
    (warning,) = few_clusters(7, "document")
    assert warning.startswith("intervals from 7 documents are wide or missing: shares need 2, and ")


def test_an_interval_within_a_range_keeps_the_number():
    assert Estimate(0.5, -0.1, 1.1, 3).within(0.0, 1.0) == Estimate(0.5, 0.0, 1.0, 3)
    assert Estimate(0.5, 0.2, 0.8, 3).within(0.0, 1.0) == Estimate(0.5, 0.2, 0.8, 3)
    none = Estimate(math.nan, math.nan, math.nan, 0)
    assert none.within(0.0, 1.0) is none


@pytest.mark.parametrize("sentences", [SENTENCES, MANY])
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
