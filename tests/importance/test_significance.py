"""Intervals and p-values equal loops over the same draws, and have the promised coverage."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from headcount.core import InputError
from headcount.importance import holm, loss_deltas
from headcount.importance.statistics import significance
from headcount.importance.statistics.significance import (
    Delta,
    enough_samples,
    of_distribution,
    resamples,
)
from tests.textbook import statistics

HEADS, EXAMPLES, SAMPLES = 5, 17, 211


@pytest.fixture
def losses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses without each head, losses of the dense model, and counts, some of them 0."""
    random = np.random.default_rng(1)
    count_N = random.integers(0, 9, EXAMPLES)
    base_N = count_N * random.gamma(2, 1, EXAMPLES)
    more_HN = random.normal([[1.0], [0.3], [0.0], [-0.4], [0.0]], 1, (HEADS, EXAMPLES)) * count_N
    more_HN[4] = 0
    return base_N + more_HN, base_N, count_N


def draws(num: int = EXAMPLES, samples: int = SAMPLES, seed: int = 0) -> list[list[int]]:
    return [sample for part in resamples(num, samples, seed) for sample in part.tolist()]


def test_losses_are_the_textbook(losses: tuple[np.ndarray, np.ndarray, np.ndarray]):
    loss_HN, base_N, count_N = losses
    found = loss_deltas(loss_HN, base_N, count_N, SAMPLES)
    for head in range(HEADS):

        def difference(sample, head: int = head) -> float:
            num = sum(int(count_N[n]) for n in sample)
            without = sum(float(loss_HN[head, n]) for n in sample) / num
            return without - sum(float(base_N[n]) for n in sample) / num

        low, high, p = statistics.bootstrap(difference, draws())
        one = found[head]
        assert one.delta == pytest.approx(difference(range(EXAMPLES)))
        if head < 4:  # if all differences are 0, the loop's are rounding errors
            assert (one.low, one.high, one.p) == pytest.approx((low, high, p))
    assert (found[4].delta, found[4].low, found[4].high, found[4].p) == (0, 0, 0, 1)


def test_few_examples_are_never_sure():
    """Few examples are never certain, however alike their differences; one has no interval."""
    for number in (1, 2, 5):
        loss_HN, ones = np.full((2, number), 1.5), np.ones(number)
        found = loss_deltas(loss_HN, ones, ones.astype(int), SAMPLES)
        assert found.delta.tolist() == [0.5, 0.5]
        assert found.p.tolist() == [2 / 2**number] * 2
        assert np.isnan(found.low).all() == np.isnan(found.high).all() == (number == 1)
    unasked = loss_deltas(np.array([[1.5, 0]]), np.array([1.0, 0]), np.array([1, 0]), SAMPLES)
    assert unasked.p.tolist() == [1], "an example without a label is none"


def test_heads_in_groups_are_the_same(
    losses: tuple[np.ndarray, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
):
    dense = loss_deltas(*losses, SAMPLES)
    monkeypatch.setattr(significance, "_KEPT", 2 * SAMPLES)
    monkeypatch.setattr(significance, "_CHUNK", 3 * EXAMPLES)
    parts = loss_deltas(*losses, SAMPLES)
    for name in ("delta", "low", "high", "p"):
        assert getattr(parts, name) == pytest.approx(getattr(dense, name), abs=1e-12)


def compared(statistic: Callable[[np.ndarray], np.ndarray], seed: int) -> Delta:
    """Interval and p that the draws give for any difference."""
    drawn = [statistic(index_SN) for index_SN in resamples(EXAMPLES, SAMPLES, seed)]
    dense = statistic(np.arange(EXAMPLES)[None])
    return of_distribution(dense, np.concatenate(drawn)[:, None])[0]


def test_any_statistic_is_the_textbook():
    x, y = np.random.default_rng(2).normal([[0.4], [0.0]], 1, (2, EXAMPLES))

    def medians(index_SN: np.ndarray) -> np.ndarray:
        return np.median(x[index_SN], 1) - np.median(y[index_SN], 1)

    def median(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    found = compared(medians, seed=3)
    expected = statistics.bootstrap(
        lambda sample: median([x[n] for n in sample]) - median([y[n] for n in sample]),
        draws(seed=3),
    )
    assert (found.low, found.high, found.p) == pytest.approx(expected)
    assert found.delta == pytest.approx(np.median(x) - np.median(y))


def test_losses_and_statistics_share_their_draws(
    losses: tuple[np.ndarray, np.ndarray, np.ndarray],
):
    loss_HN, base_N, count_N = losses

    def ratio(index_SN: np.ndarray) -> np.ndarray:
        return (loss_HN[1] - base_N)[index_SN].sum(1) / count_N[index_SN].sum(1)

    one, other = compared(ratio, seed=0), loss_deltas(*losses, SAMPLES)[1]
    assert (one.delta, one.low, one.high, one.p) == pytest.approx(
        (other.delta, other.low, other.high, other.p)
    )


def test_near_scipys_bootstrap(losses: tuple[np.ndarray, np.ndarray, np.ndarray]):
    loss_HN, base_N, count_N = losses

    def ratio(more: np.ndarray, count: np.ndarray, axis: int) -> np.ndarray:
        return more.sum(axis) / count.sum(axis)

    scipys = stats.bootstrap(
        (loss_HN[0] - base_N, count_N),
        ratio,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(5),
    )
    ours = loss_deltas(*losses, 20_000)[0]
    width = ours.high - ours.low
    assert ours.low == pytest.approx(scipys.confidence_interval.low, abs=0.05 * width)
    assert ours.high == pytest.approx(scipys.confidence_interval.high, abs=0.05 * width)


def test_p_is_below_5_percent_when_the_interval_leaves_zero_out():
    random = np.random.default_rng(0)
    delta_SH = random.normal(np.linspace(-4, 4, 81), 1, (1999, 81))
    found = of_distribution(delta_SH.mean(0), delta_SH)
    outside = (found.low > 0) | (found.high < 0)
    assert ((found.p < 0.05) == outside).mean() > 0.97
    assert found.p.min() == pytest.approx(2 / 2000) and found.p.max() <= 1


def test_normal_tail_is_near_the_counted_one():
    random = np.random.default_rng(0)
    mean_H = np.array([0.5, 1.0, 2.0])
    delta_SH = random.normal(mean_H, 1, (20_000, 3))
    counted, normal = (of_distribution(mean_H, delta_SH, tail) for tail in ("counted", "normal"))
    assert normal.p == pytest.approx(counted.p, rel=0.1)
    assert normal.p == pytest.approx(2 * stats.norm.sf(mean_H / delta_SH.std(0, ddof=1)))
    assert of_distribution(np.zeros(1), np.zeros((9, 1)), "normal").p == [1]


def test_true_null_is_rejected_about_as_often_as_promised():
    random = np.random.default_rng(7)
    more_HN = random.normal(0, 1, (400, 120))
    found = loss_deltas(more_HN, np.zeros(120), np.ones(120, dtype=int), 1000)
    assert 0.02 < (found.p < 0.05).mean() < 0.09


def test_enough_samples_let_holm_reach_one_percent():
    for heads in (3, 72, 1024):
        least = 2 / (1 + enough_samples(heads))
        assert holm(np.full(heads, least))[0] <= significance.SMALLEST


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


def test_what_is_not_finite_is_named(losses: tuple[np.ndarray, np.ndarray, np.ndarray]):
    loss_HN, base_N, count_N = losses
    loss_HN[3, 11] = np.inf
    with pytest.raises(InputError, match=r"example 11 is not finite without head 3 of 5"):
        loss_deltas(loss_HN, base_N, count_N)


def test_nothing_to_compare_on():
    with pytest.raises(InputError, match="at least one example with something to predict"):
        loss_deltas(np.zeros((2, 0)), np.zeros(0), np.zeros(0, dtype=int))
    with pytest.raises(InputError, match="at least one example"):
        loss_deltas(np.zeros((2, 3)), np.zeros(3), np.zeros(3, dtype=int))
