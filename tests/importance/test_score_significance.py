"""Scores are swapped or resampled as the task computes them; sacreBLEU's p is an option."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sacrebleu.significance import PairedTest
from scipy.stats import permutation_test, spearmanr
from scipy.stats import t as student

from headcount.importance import score_deltas
from headcount.statistics import holm, normal, randomization, randomized, resamples
from headcount.statistics import p_values as draws_of
from headcount.statistics.p_values import swaps
from headcount.tasks import Evaluation, Losses, Task, TaskBatch, Translation
from tests.statistics.test_significance import is_edge
from tests.tasks import loaded as small
from tests.textbook import statistics

NUM, SAMPLES, DRAWN = 19, 97, 300
GOLD = np.random.default_rng(0).normal(size=NUM)


class Ranking(Task):
    """Spearman's correlation of outcomes with numbers that are right."""

    name = "ranking"
    metric = "spearman"
    higher_is_better = True
    num_examples = NUM

    def batches(self, max_tokens: int = 4096) -> Iterator[TaskBatch]:
        return iter(())

    def losses(self, model: object, batch: TaskBatch) -> Losses:
        raise AssertionError("scores need no model")

    def score(self, evaluation: Evaluation, index_S: np.ndarray | None = None) -> float:
        index = np.arange(NUM) if index_S is None else index_S
        return spearmanr(evaluation.outcome_N[index], GOLD[index])[0]  # pyright: ignore[reportReturnType]


class Worse(Ranking):
    """The same score, with lower values better."""

    higher_is_better = False


def evaluation(noise: float, seed: int) -> Evaluation:
    outcome_N = GOLD + noise * np.random.default_rng(seed).normal(size=NUM)
    return Evaluation(np.zeros(NUM), np.ones(NUM, dtype=int), outcome_N)


class Right(Ranking):
    """The share of outcomes above 0, whose sums are a function of each example."""

    metric = "accuracy"

    def score(self, evaluation: Evaluation, index_S: np.ndarray | None = None) -> float:
        return float((evaluation.outcome_N[slice(None) if index_S is None else index_S] > 0).mean())

    def statistics(self, evaluation: Evaluation) -> np.ndarray:
        return np.stack([evaluation.outcome_N > 0, np.ones(len(evaluation.outcome_N))], 1) * 1.0

    def of_sums(self, sums_DK: np.ndarray) -> np.ndarray:
        return sums_DK[:, 0] / sums_DK[:, 1]


def test_a_head_that_helps_has_a_positive_delta_whatever_is_better():
    base, without = evaluation(0.3, 1), [evaluation(2.0, 2)]
    up, down = (score_deltas(task(), without, base, SAMPLES)[0] for task in (Ranking, Worse))
    assert up.delta == -down.delta > 0 and up.p == down.p


def test_a_head_that_changes_nothing_has_a_delta_without_a_sign():
    base = evaluation(0.3, 1)
    for task in (Ranking, Worse):
        (found,) = score_deltas(task(), [base], base, SAMPLES)
        assert found.delta == 0 and not np.signbit(found.delta)


def test_ranks_are_resampled_as_the_textbook_says():
    """The spread of resampled drops, and Student's distribution for both interval and p."""
    base, without = evaluation(0.3, 1), [evaluation(2.0, 2), evaluation(0.3, 1)]
    found = score_deltas(Ranking(), without, base, SAMPLES, seed=4)
    draws = [sample for part in resamples(NUM, SAMPLES, 4) for sample in part.tolist()]

    def drop(sample: Sequence[int]) -> float:
        gold = [GOLD[n] for n in sample]
        scores = [
            statistics.pearson(
                statistics.ranks([e.outcome_N[n] for n in sample]), statistics.ranks(gold)
            )
            for e in (base, without[0])
        ]
        return scores[0] - scores[1]

    drops = [drop(sample) for sample in draws]
    mean = sum(drops) / SAMPLES
    spread = (sum((d - mean) ** 2 for d in drops) / (SAMPLES - 1) * NUM / (NUM - 1)) ** 0.5
    delta, wide = drop(range(NUM)), 2.1009220402  # Student's 97.5 % point, 18 degrees of freedom
    one = found[0]
    assert (one.delta, one.low, one.high) == pytest.approx(
        (delta, delta - wide * spread, delta + wide * spread)
    )
    assert one.p == pytest.approx(2 * student.sf(delta / spread, NUM - 1)) and one.delta > 0
    assert (found[1].delta, found[1].low, found[1].high, found[1].p) == (0, 0, 0, 1)


def test_p_and_interval_of_every_score_agree():
    """A p below 5 % stands beside an interval without 0, and no other does."""
    base = evaluation(0.5, 1)
    noisier = [evaluation(0.5 + 0.2 * n, n) for n in range(20)]
    lower_N = np.linspace(0, 3, 20)
    without = [
        replace(each, outcome_N=each.outcome_N - low)
        for each, low in zip(noisier, lower_N, strict=True)
    ]
    for task, num in ((Ranking(), 40), (Right(), 299)):
        found = score_deltas(task, without, base, num, seed=2)
        outside = (found.low > 0) | (found.high < 0)
        assert 0 < outside.sum() < 20
        np.testing.assert_array_equal(found.p < 0.05, outside)


def test_an_effect_without_spread_is_sure():
    """All answers are right before and none without the head: every resample agrees."""
    found = normal(np.array([1.0, 0.0]), np.array([[1.0, 0.0]] * 9), NUM)
    assert found.low.tolist() == found.high.tolist() == [1, 0]
    assert found.p[0] < 1e-5 and found.p[1] == 1
    few = score_deltas(Right(), [evaluation(2.0, 2)], evaluation(0.1, 1), index_N=np.arange(3))
    assert np.isnan([few.low[0], few.high[0]]).all() and few.p[0] >= 0.25


def test_a_swap_is_the_textbooks():
    """Accuracy, with unequal weights of the examples in the interval."""
    base, other = evaluation(0.8, 1), evaluation(1.5, 2)
    base = replace(base, count_N=1 + np.arange(NUM) % 5)
    found = score_deltas(Right(), [other], base, SAMPLES, seed=4)[0]
    drawn = [swap for part in swaps(NUM, SAMPLES, 4) for swap in part.astype(int).tolist()]
    systems = (base, other)

    def difference(one: Sequence[int], two: Sequence[int]) -> float:
        shares = [
            sum(1 for n, side in enumerate(each) if systems[side].outcome_N[n] > 0) / NUM
            for each in (one, two)
        ]
        return shares[0] - shares[1]

    def p_of(value: float) -> float:
        # Sums of fractions of 19 are not exact
        return statistics.randomization_p(
            lambda one, two: round(difference(one, two), 12), base.count_N.tolist(), drawn, value
        )

    assert found.delta == pytest.approx(difference([0] * NUM, [1] * NUM)) and found.delta != 0
    assert found.p == pytest.approx(p_of(0))
    assert is_edge(p_of, found.low, found.high)


def test_both_sides_count():
    """A head that harms has the p of one that helps as much, and its interval mirrored."""
    base = evaluation(0.5, 1)
    other = replace(base, outcome_N=base.outcome_N - 1.0)
    helps, harms = (
        score_deltas(Right(), [without], dense, 999, seed=4)[0]
        for dense, without in ((base, other), (other, base))
    )
    assert helps.delta == -harms.delta > 0
    assert helps.p == harms.p < 0.05
    assert (helps.low, helps.high) == pytest.approx((-harms.high, -harms.low))
    assert helps.low > 0 > harms.high


def test_all_swaps_are_the_exact_test():
    """With few examples, drawn swaps come near scipy's permutation test, which takes them all."""
    base, other = evaluation(0.8, 1), evaluation(1.5, 2)
    some = np.arange(12)
    found = score_deltas(Right(), [other], base, 20_000, index_N=some)[0]
    exact = permutation_test(
        ((base.outcome_N[some] > 0) * 1.0, (other.outcome_N[some] > 0) * 1.0),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        permutation_type="samples",
        n_resamples=2**12,  # all of them
        vectorized=True,
    )
    assert found.p == pytest.approx(exact.pvalue, abs=0.015)


def translations(metric: Any) -> tuple[Translation, Callable[[float, int], Evaluation]]:
    """A task of 40 pairs, and a function that makes translations with a share of wrong words."""
    random = np.random.default_rng(0)
    references = [" ".join(random.choice(list("abcdefg"), 9)) for _ in range(40)]
    data = {"source": references, "target": references}
    task = Translation(small.loaded("MarianMTModel"), data, metric=metric)

    def made(share: float, seed: int) -> Evaluation:
        lots = np.random.default_rng(seed)
        texts = [
            " ".join("x" if lots.random() < share else word for word in text.split())
            for text in references
        ]
        return Evaluation(np.ones(40), np.full(40, 10), np.array(texts, dtype=object))

    return task, made


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_bleu_and_chrf_are_the_textbooks(metric: Any):
    task, made = translations(metric)
    systems = (made(0.2, 1), made(0.3, 2))
    found = score_deltas(task, systems[1:], systems[0], 99, seed=4)[0]
    drawn = [swap for part in swaps(40, 99, 4) for swap in part.astype(int).tolist()]

    def difference(one: Sequence[int], two: Sequence[int]) -> float:
        scores = []
        for each in (one, two):
            texts = [systems[side].outcome_N[n] for n, side in enumerate(each)]
            mixed = replace(systems[0], outcome_N=np.array(texts, dtype=object))
            scores.append(task.score(mixed))
        return scores[0] - scores[1]

    differences = {tuple(swap): difference(swap, [1 - s for s in swap]) for swap in drawn}
    differences[(0,) * 40] = difference([0] * 40, [1] * 40)

    def p_of(value: float) -> float:
        return statistics.randomization_p(
            lambda one, two: differences[tuple(one)], [10.0] * 40, drawn, value
        )

    assert found.delta == pytest.approx(differences[(0,) * 40]) and found.delta > 0
    assert found.p == pytest.approx(p_of(0))
    assert is_edge(p_of, found.low, found.high)


def test_heads_in_groups_have_the_same_tests(monkeypatch: pytest.MonkeyPatch):
    task, made = translations("bleu")
    base, without = made(0.1, 0), [made(0.1 + 0.05 * n, n) for n in range(1, 6)]
    together = score_deltas(task, without, base, 150)
    monkeypatch.setattr(randomization, "KEPT", 2 * 40 * 10)
    monkeypatch.setattr(draws_of, "CHUNK", 7 * 40)
    parts = score_deltas(task, without, base, 150)
    for name in ("delta", "low", "high", "p"):
        assert getattr(parts, name) == pytest.approx(getattr(together, name), abs=1e-12)
    assert parts.p[-1] < 0.02 < 0.05 < score_deltas(task, [made(0.1, 9)], base, 150).p[0]


@pytest.mark.slow
def test_equal_models_differ_in_5_of_100_tests():
    """BLEU of pairs of systems whose sentences are drawn from the same translations."""
    task, made = translations("bleu")
    pool_NK = np.concatenate([task.statistics(made(0.3, n)) for n in range(3)])
    random = np.random.default_rng(0)

    def test(heads: int, num: int) -> np.ndarray:
        base, *without = pool_NK[random.integers(len(pool_NK), size=(heads + 1, 40))]
        return randomized(base, without, np.ones(40), task.of_sums, num)[3]

    p_T = np.concatenate([test(1, 199) for _ in range(250)])
    assert 0.02 < (p_T < 0.05).mean() < 0.08
    families = np.array([holm(test(36, 759)).min() for _ in range(12)])
    assert (families < 0.05).sum() <= 3


def test_sacrebleus_test_has_no_interval():
    task, made = translations("bleu")
    found = score_deltas(task, [made(0.3, 1)], made(0.1, 0), 99, test="sacrebleu")
    assert found.p[0] == 0.01 and np.isnan([found.low[0], found.high[0]]).all()
    unchanged = score_deltas(task, [made(0.1, 0)], made(0.1, 0), 99, test="sacrebleu")
    assert unchanged.delta[0] == 0 and unchanged.p[0] == 1


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_p_of_sacrebleu(metric: Any):
    """The p equals its formula on our draws, and is close to sacreBLEU's on other draws."""
    random = np.random.default_rng(0)
    references = [" ".join(random.choice(list("abcdefg"), 9)) for _ in range(13)]

    def spoilt(text: str, share: float) -> str:
        return " ".join("x" if random.random() < share else word for word in text.split())

    base = [spoilt(text, 0.1) for text in references]
    without = [[spoilt(text, share) for text in references] for share in (0.15, 0.6)]
    data = {"source": references, "target": references}
    task = Translation(small.loaded("MarianMTModel"), data, metric=metric)

    def made(texts: list[str]) -> Evaluation:
        return Evaluation(np.ones(13), np.ones(13, int), np.array(texts, dtype=object))

    found = score_deltas(task, [made(each) for each in without], made(base), DRAWN, 4, "sacrebleu")
    draws = np.concatenate([*resamples(13, DRAWN, 4)])
    of_base = task.resampled(made(base))(draws)
    for row, each in enumerate(without):
        gaps = abs(task.resampled(made(each))(draws) - of_base).tolist()
        real = abs(task.score(made(each)) - task.score(made(base)))
        larger = sum(1 for gap in gaps if gap - sum(gaps) / DRAWN > real)
        assert found[row].p == pytest.approx((1 + larger) / (DRAWN + 1))
    systems: list[tuple[str, Sequence[str]]] = [("base", base)]
    systems += [(str(n), each) for n, each in enumerate(without)]
    test = PairedTest(systems, {"m": task.scorer}, [references], test_type="bs", n_samples=DRAWN)
    (theirs,) = (each for name, each in test()[1].items() if name != "System")
    for ours, other in zip(found.p, theirs[1:], strict=True):
        assert ours == pytest.approx(other.p_value, abs=0.06)  # pyright: ignore


def test_a_p_comes_from_ten_thousand_swaps_or_more():
    """The smallest p is that of a difference that no swap reaches."""
    right, wrong = (
        Evaluation(np.zeros(NUM), np.ones(NUM, dtype=int), np.full(NUM, sign)) for sign in (1.0, -1)
    )
    assert score_deltas(Right(), [wrong], right).p[0] == pytest.approx(1 / 10_001)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_decides_no_swap(seed: int) -> None:
    """A swap of all examples that differ is as extreme as what was found, in whatever unit."""
    generator = np.random.default_rng(seed)
    base_NK = generator.normal(size=(8, 1))
    other_NK = base_NK + np.append(generator.normal(size=3), np.zeros(5))[:, None]
    found = {
        randomized(unit * base_NK, [unit * other_NK], np.ones(8), lambda sums: sums[:, 0], 999)[
            3, 0
        ]
        for unit in (1, 0.1, 3, 7.7, 1 / 3)
    }
    assert len(found) == 1
