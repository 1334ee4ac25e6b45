"""Scores are resampled as the task takes them; sacreBLEU's p is sacreBLEU's."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from scipy.stats import spearmanr

from headcount.importance.score_significance import sacrebleu_p, score_deltas
from headcount.importance.significance import resamples
from headcount.tasks.task import Evaluation, Losses, Task, TaskBatch
from tests.textbook import statistics

NUM, SAMPLES = 19, 97
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
    """The same number where a small one is better."""

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


@pytest.mark.parametrize("metric", [BLEU, CHRF])
def test_sacrebleus_p_is_its_own_formula(metric: type[BLEU | CHRF]):
    random = np.random.default_rng(0)
    references = [" ".join(random.choice(list("abcdefg"), 9)) for _ in range(13)]

    def spoilt(text: str, share: float) -> str:
        return " ".join("x" if random.random() < share else word for word in text.split())

    base = [spoilt(text, 0.1) for text in references]
    without = [[spoilt(text, 0.6) for text in references], list(base)]
    found = sacrebleu_p(without, base, [references], metric(), num_samples=SAMPLES)

    draws = np.random.default_rng(12345).choice(13, size=(SAMPLES, 13), replace=True)
    scorer = metric()

    def corpus(texts: list[str], sample: list[int]) -> float:
        chosen = [[each[n] for n in sample] for each in (texts, references)]
        return scorer.corpus_score(chosen[0], [chosen[1]]).score

    gaps = [abs(corpus(without[0], s) - corpus(base, s)) for s in draws.tolist()]
    real = abs(corpus(without[0], list(range(13))) - corpus(base, list(range(13))))
    mean = sum(gaps) / len(gaps)
    larger = sum(1 for gap in gaps if gap - mean > real)
    assert found[0] == pytest.approx((1 + larger) / (1 + SAMPLES))
    assert found[0] < 0.05 and found[1] > 0
