"""The slow statistics and head scores against numbers worked out by hand."""

import math

import numpy as np
import pytest

from tests.textbook import head_scores, statistics


def test_percentile_lies_between_its_neighbours():
    assert statistics.percentile([3.0, 1.0, 2.0], 0.5) == 2
    assert statistics.percentile([0.0, 10.0], 0.25) == 2.5


def test_bootstrap():
    def mean(sample: object) -> float:
        return {1: 1.0, 2: 2.0, 3: -1.0}[sample[0]]  # pyright: ignore[reportIndexIssue]

    low, high, p = statistics.bootstrap(mean, [[first] * 9 for first in (1, 2, 3, 1, 1, 1, 1)])
    assert (low, high) == pytest.approx((-1 + 0.15 * 2, 1 + 0.85))
    assert p == 2 * (1 + 1) / (1 + 7)
    assert statistics.bootstrap(mean, [[1, 1, 1]] * 99)[2] == 1 / 4


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
