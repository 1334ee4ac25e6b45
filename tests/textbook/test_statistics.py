"""The slow statistics and head scores against numbers worked out by hand."""

import math

import numpy as np
import pytest

from tests.textbook import head_scores, statistics


def test_studentized():
    mean, error, skew = statistics.ratio([1.0, 3.0, 8.0], [1, 1, 1])
    assert (mean, error) == pytest.approx((4, math.sqrt(13 / 3)))
    assert skew == pytest.approx((-27 - 1 + 64) / 3 / (26 / 3) ** 1.5)
    assert statistics.less_skewed(2.0, 0.0, 9) == 2
    assert statistics.less_skewed(3.0, 3.0, 9) == pytest.approx(3 * (1 + 1 + 1 / 3 + 1 / 18))
    draws = [[0, 0, 0], [0, 1, 2], [2, 2, 1]]  # no spread, no difference, t of 1.4
    assert statistics.studentized_p([1.0, 3.0, 8.0], [1, 1, 1], draws, 4.1) == 1
    assert statistics.studentized_p([1.0, 3.0, 8.0], [1, 1, 1], draws) == 2 / 4  # t of 1.9


def test_randomization():
    x = [[1.0, 5.0], [2.0, 3.0], [4.0, 4.0]]

    def score(one: object, other: object) -> float:
        sides = [sum(x[n][side] for n, side in enumerate(each)) for each in (one, other)]  # pyright: ignore
        return sides[0] - sides[1]

    swaps = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]  # -5, 3, -3, -5, 5
    assert statistics.randomization_p(score, [1, 1, 1], swaps) == (1 + 3) / 6
    # At a true difference of -2: -5 + 2 for all, 3 + 2/3, -3 + 2/3, -5 + 2/3 against 3
    assert statistics.randomization_p(score, [1, 1, 1], swaps, -2) == (1 + 4) / 6
    assert statistics.sign_flips(3) == 1 / 4


def test_holm():
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_ranks_and_correlations():
    assert statistics.ranks([5.0, 1.0, 5.0, 2.0]) == [3.5, 1, 3.5, 2]
    assert statistics.pearson([1, 2, 3], [1, 2, 4]) == pytest.approx(3 / math.sqrt(2 * 14 / 3))
    rho, low, high = statistics.spearman([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 7, 6])
    assert rho == pytest.approx(1 - 6 * 2 / (7 * 48))  # Spearman's short formula
    wide = 1.95996398 * math.sqrt((1 + rho**2 / 2) / 4)
    assert (math.atanh(high) - math.atanh(low)) / 2 == pytest.approx(wide)


def test_norms_of_what_heads_add():
    output = np.array([[[3.0, 1.0]], [[0.0, 2.0]]])  # two heads, a query, two dimensions
    W_O = np.array([[[1.0, 0, 0], [0, 4.0, 0]], [[1.0, 0, 0], [0, 0, 3.0]]])
    assert head_scores.output_norms(output, W_O) == [[5.0], [6.0]]
    assert head_scores.layer_normalised([[[5.0], [6.0]], [[3.0, 1.0], [9.0, 6.0]]]) == [0.6, 1.4]


def test_sink_scores():
    A = np.array([[[0.5, 0.5], [0.25, 0.75]]])
    assert head_scores.sink_scores([A, A[:, :1]]) == [pytest.approx(-1.25 / 3)]
