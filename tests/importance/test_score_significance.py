"""Scores are resampled as the task computes them; p for BLEU and chrF is sacreBLEU's."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from sacrebleu.significance import PairedTest
from scipy.stats import spearmanr

from headcount.importance import score_deltas
from headcount.importance.statistics.significance import of_distribution, resamples
from headcount.tasks import Evaluation, Losses, Task, TaskBatch, Translation
from tests.tasks import loaded as small
from tests.textbook import statistics

NUM, SAMPLES, DRAWN = 19, 97, 600
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


def test_is_the_textbook():
    base, without = evaluation(0.3, 1), [evaluation(2.0, 2), evaluation(0.3, 1)]
    found = score_deltas(Ranking(), without, base, SAMPLES, seed=4, tail="counted")
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

    assert found[0].delta == pytest.approx(drop(list(range(NUM)))) and found[0].delta > 0
    assert (found[0].low, found[0].high, found[0].p) == pytest.approx(
        statistics.bootstrap(drop, draws)
    )
    assert (found[1].delta, found[1].p) == (0, 1)


def test_a_head_that_helps_has_a_positive_delta_whatever_is_better():
    base, without = evaluation(0.3, 1), [evaluation(2.0, 2)]
    up, down = (score_deltas(task(), without, base, SAMPLES)[0] for task in (Ranking, Worse))
    assert up.delta == -down.delta > 0 and up.p == down.p


def test_the_normal_tail_can_be_as_small_as_many_heads_ask_for():
    found = score_deltas(Ranking(), [evaluation(2.0, 2)], evaluation(0.01, 1), SAMPLES)
    assert 0 < found[0].p < 2 / (SAMPLES + 1)


def test_an_effect_without_spread_is_sure():
    """All answers are right before and none without the head: every resample agrees."""
    ones_N = np.ones(NUM, dtype=int)
    right, wrong = (Evaluation(0.0 * ones_N, ones_N, part * ones_N) for part in (1.0, 0.0))

    class Mean(Ranking):
        def score(self, evaluation: Evaluation, index_S: np.ndarray | None = None) -> float:
            return float(evaluation.outcome_N[slice(None) if index_S is None else index_S].mean())

    found = score_deltas(Mean(), [wrong, right], right, SAMPLES)
    assert found.delta.tolist() == [1, 0] and found.p[0] < 1e-5 and found.p[1] == 1
    few = score_deltas(Mean(), [wrong], right, SAMPLES, index_N=np.arange(3))
    assert (few.low[0], few.high[0], few.p[0]) == (1, 1, 0.25)
    one = score_deltas(Mean(), [wrong], right, SAMPLES, tail="counted", index_N=np.arange(1))
    assert np.isnan([one.low[0], one.high[0]]).all() and one.p[0] == 1


def test_draws_without_a_score_are_left_out():
    """Spearman's correlation does not exist for one example drawn repeatedly."""
    few = Ranking()
    found = score_deltas(few, [evaluation(2.0, 2)], evaluation(0.3, 1), SAMPLES)
    drawn = np.array([[0.1, 0.2], [np.nan, np.nan], [0.3, -0.4], [0.2, 0.1]])
    kept = of_distribution(np.array([0.2, 0.0]), drawn[[0, 2, 3]], "counted")
    same = of_distribution(np.array([0.2, 0.0]), drawn, "counted")
    assert (same.low, same.p) == (pytest.approx(kept.low), pytest.approx(kept.p))
    never = np.column_stack([drawn[:, 0], np.full(4, np.nan)])  # takes nothing from the other
    one = of_distribution(np.array([0.2, 0.0]), never, "counted")
    assert (one.low[0], one.high[0], one.p[0]) == (kept.low[0], kept.high[0], kept.p[0])
    assert np.isnan([one.low[1], one.high[1], one.p[1]]).all() and one.delta[1] == 0
    none = of_distribution(np.array([0.2, 0.0]), drawn[[1]], "normal")
    assert np.isnan([none.low, none.high, none.p]).all() and none.delta.tolist() == [0.2, 0.0]
    assert np.isfinite(found.p).all()


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_p_of_bleu_and_chrf_is_sacrebleus(metric: Any):
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
    draws = [sample for part in resamples(13, DRAWN, 4) for sample in part]
    for row, each in enumerate(without):
        gaps = [abs(task.score(made(each), s) - task.score(made(base), s)) for s in draws[:DRAWN]]
        real = abs(task.score(made(each)) - task.score(made(base)))
        larger = sum(1 for gap in gaps if gap - sum(gaps) / DRAWN > real)
        assert found[row].p == pytest.approx((1 + larger) / (DRAWN + 1))
    systems: list[tuple[str, Sequence[str]]] = [("base", base)]
    systems += [(str(n), each) for n, each in enumerate(without)]
    test = PairedTest(systems, {"m": task.scorer}, [references], test_type="bs", n_samples=DRAWN)
    (theirs,) = (each for name, each in test()[1].items() if name != "System")
    for ours, other in zip(found.p, theirs[1:], strict=True):
        assert ours == pytest.approx(other.p_value, abs=0.04)  # pyright: ignore
