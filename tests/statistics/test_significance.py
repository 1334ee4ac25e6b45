"""Intervals and p-values of losses equal loops over the same draws, and hold what they promise."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from headcount.core import InputError
from headcount.statistics import (
    enough_samples,
    few_examples,
    holm,
    loss_deltas,
    normal,
    resamples,
    sacrebleus,
    significance,
)
from headcount.statistics import p_values as draws_of
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


def is_edge(p_of: Callable[[float], float], low: float, high: float) -> bool:
    """Whether a test at 5 % rejects every value just outside the interval, and none just inside."""
    step = 1e-7 * (high - low)
    inside, outside = (low + step, high - step), (low - step, high + step)
    return min(map(p_of, inside)) >= 0.05 > max(map(p_of, outside))


def test_losses_are_the_textbook(losses: tuple[np.ndarray, np.ndarray, np.ndarray]):
    loss_HN, base_N, count_N = losses
    asked = np.flatnonzero(count_N)
    assert 0 < len(asked) < EXAMPLES
    found = loss_deltas(loss_HN, base_N, count_N, SAMPLES)
    drawn = draws(len(asked))
    for head in range(4):
        more = [float(loss_HN[head, n] - base_N[n]) for n in asked]
        count = [int(count_N[n]) for n in asked]

        def p_of(value: float, more: list[float] = more, count: list[int] = count) -> float:
            return statistics.studentized_p(more, count, drawn, value)

        one = found[head]
        assert one.delta == pytest.approx(sum(more) / sum(count))
        assert one.p == pytest.approx(max(p_of(0), statistics.sign_flips(len(asked))))
        assert is_edge(p_of, one.low, one.high)
    assert (found[4].delta, found[4].low, found[4].high, found[4].p) == (0, 0, 0, 1)


def test_few_examples_are_never_sure():
    """Few examples are never certain, however alike their differences; five have no interval."""
    for number in (1, 2, 5):
        loss_HN, ones = np.full((2, number), 1.5), np.ones(number)
        found = loss_deltas(loss_HN, ones, ones.astype(int), SAMPLES)
        assert found.delta.tolist() == [0.5, 0.5]
        assert found.p.tolist() == [2 / 2**number] * 2
        assert np.isnan(found.low).all() and np.isnan(found.high).all()
    alike = np.full((1, 7), 1.5), np.ones(7), np.ones(7, dtype=int)
    found = loss_deltas(*alike, SAMPLES)
    assert (found.low[0], found.high[0], found.p[0]) == (0.5, 0.5, 2 / 2**7)
    unasked = loss_deltas(np.array([[1.5, 0]]), np.array([1.0, 0]), np.array([1, 0]), SAMPLES)
    assert unasked.p.tolist() == [1], "an example without a label is none"


def test_heads_in_groups_are_the_same(
    losses: tuple[np.ndarray, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
):
    dense = loss_deltas(*losses, SAMPLES)
    monkeypatch.setattr(significance, "KEPT", 2 * SAMPLES)
    monkeypatch.setattr(draws_of, "CHUNK", 3 * EXAMPLES)
    parts = loss_deltas(*losses, SAMPLES)
    for name in ("delta", "low", "high", "p"):
        assert getattr(parts, name) == pytest.approx(getattr(dense, name), abs=1e-12)


def test_p_is_below_5_percent_exactly_where_the_interval_leaves_zero_out():
    random = np.random.default_rng(0)
    more_HN = random.lognormal(0, 1, (90, 25)) - np.linspace(0.5, 3, 90)[:, None]
    found = loss_deltas(more_HN, np.zeros(25), np.ones(25, dtype=int), 999)
    outside = (found.low > 0) | (found.high < 0)
    assert 10 < outside.sum() < 80
    np.testing.assert_array_equal(found.p < 0.05, outside)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("skewed", "examples", "least"), [(True, 50, 0.92), (False, 20, 0.92), (True, 200, 0.93)]
)
def test_coverage(skewed: bool, examples: int, least: float):
    """Percentile intervals hold the truth of 50 lognormal differences in 90 % of cases only."""
    random = np.random.default_rng(examples)
    draw = random.lognormal if skewed else random.normal
    truth = np.exp(0.5) if skewed else 0.0
    more_HN = draw(0, 1, (1500, examples))
    found = loss_deltas(more_HN, np.zeros(examples), np.ones(examples, dtype=int), 499)
    holds = (found.low <= truth) & (truth <= found.high)
    assert least < holds.mean() < 0.965
    centred = loss_deltas(more_HN - truth, np.zeros(examples), np.ones(examples, dtype=int), 499)
    assert (centred.p < 0.05).mean() == pytest.approx(1 - holds.mean(), abs=1e-12)


def test_an_effect_is_found():
    """As often as by a t-test, in 0.807 of 34 normal differences with half a deviation."""
    random = np.random.default_rng(3)
    more_HN = random.normal(0.5, 1, (600, 34))
    found = loss_deltas(more_HN, np.zeros(34), np.ones(34, dtype=int), 499)
    assert 0.76 < (found.p < 0.05).mean() < 0.86


def test_one_example_that_makes_the_difference_is_not_enough():
    """A third of the resamples lacks it, and then has no spread at all."""
    more_HN = np.zeros((1, 60))
    more_HN[0, 7] = 5.0
    found = loss_deltas(more_HN, np.zeros(60), np.ones(60, dtype=int), SAMPLES)[0]
    assert found.p > 0.3 and np.isnan([found.low, found.high]).all()


def test_the_user_is_warned_below_100_examples():
    assert few_examples(100) == ()
    (warning,) = few_examples(99)
    assert warning.startswith("intervals and p-values from 99 examples are rough")


def test_enough_samples_let_holm_reach_one_percent():
    for heads in (3, 72, 1024):
        least = 1 / (1 + enough_samples(heads))
        assert holm(np.full(heads, least))[0] <= significance.SMALLEST


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


def test_draws_without_a_score_are_left_out():
    """Spearman's correlation does not exist for one example drawn repeatedly."""
    drawn = np.array([[0.1, 0.2], [np.nan, np.nan], [0.3, -0.4], [0.2, 0.1]])
    real = np.array([0.2, 0.0])
    for test in (partial(normal, num_examples=19), sacrebleus):
        kept, same = test(real, drawn[[0, 2, 3]]), test(real, drawn)
        assert same.low.tolist() == pytest.approx(kept.low.tolist(), nan_ok=True)
        assert same.p.tolist() == pytest.approx(kept.p.tolist())
        never = np.column_stack([drawn[:, 0], np.full(4, np.nan)])  # takes nothing from the other
        one = test(real, never)
        assert one.p[0] == pytest.approx(kept.p[0])
        assert np.isnan([one.low[1], one.high[1], one.p[1]]).all() and one.delta[1] == 0


def test_heads_without_a_spread_have_no_effect_or_a_sure_one():
    delta_H = np.array([0.0, 1.0, -0.3])
    found = normal(delta_H, np.tile(delta_H, (5, 1)), num_examples=19)
    assert found.p.tolist() == [1, 0, 0]
    assert found.low.tolist() == found.high.tolist() == delta_H.tolist()
