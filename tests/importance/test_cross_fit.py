"""The best of many is measured on examples that did not choose it, and is no better than it is."""

import numpy as np
import pytest

from headcount.importance.ablations import cross_fit, halves
from headcount.tasks import Evaluation
from tests.importance.test_score_significance import NUM, Right, evaluation
from tests.textbook.cross_fit import cross_fitted


def of_losses(loss_HN: np.ndarray) -> list[Evaluation]:
    ones_N = np.ones(loss_HN.shape[1])
    return [Evaluation(loss_N, ones_N.astype(int), ones_N) for loss_N in loss_HN]


def test_halves_hold_every_example_once():
    one, other = halves(11, 3)
    assert sorted([*one, *other]) == list(range(11)) and (len(one), len(other)) == (6, 5)
    assert halves(11, 4)[0].tolist() != one.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_is_the_textbook(seed: int):
    loss_HN = np.random.default_rng(seed).gamma(2, 1, (5, NUM))
    found = cross_fit(Right(), of_losses(loss_HN), "loss", seed)
    one, other, mean = cross_fitted(loss_HN.tolist(), halves(NUM, seed)[0].tolist())
    assert found.halves == (one, other) and found.best == int(loss_HN.sum(1).argmin())
    assert found.evaluation.loss == pytest.approx(mean)


def test_scores_choose_by_the_score():
    """The better half of one system and the better half of the other."""
    first, second = halves(NUM, 0)
    systems = [evaluation(0.1, n) for n in range(2)]
    for each, good in zip(systems, (first, second), strict=True):
        each.outcome_N[:] = -1
        each.outcome_N[good] = 1
    found = cross_fit(Right(), systems, "score", 0)
    assert found.halves == (0, 1)
    assert (found.evaluation.outcome_N == -1).all(), "what is best on one half fails on the other"


@pytest.mark.slow
def test_noise_is_not_better_than_it_is():
    """The best of 16 heads, each of which costs 0.2, seems to cost less, unless cross-fitted."""
    random = np.random.default_rng(0)
    naive, honest = [], []
    for seed in range(300):
        loss_HN = random.normal(0.2, 1, (16, 40))
        naive.append(loss_HN.mean(1).min())
        honest.append(cross_fit(Right(), of_losses(loss_HN), "loss", seed).evaluation.loss)
    assert np.mean(naive) < 0 and np.mean(honest) == pytest.approx(0.2, abs=0.03)


def test_a_head_that_is_better_is_found():
    random = np.random.default_rng(1)
    loss_HN = random.normal([[1.0]] * 7 + [[0.2]] + [[1.0]] * 4, 1, (12, 200))
    found = cross_fit(Right(), of_losses(loss_HN))
    assert (found.best, *found.halves) == (7, 7, 7)
    assert found.evaluation.loss == pytest.approx(loss_HN[7].mean())
