"""Scores against sacreBLEU, scikit-learn and scipy called directly, on data made by hand."""

import warnings
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from scipy.stats import rankdata
from sklearn import metrics

from headcount.core import CorpusError, InputError
from headcount.tasks import Classification, Evaluation, Similarity, Translation, evaluate
from tests.tasks import loaded as small

GOLD = [0, 2, 1, 1, 0, 2, 2]
PREDICTED = [0, 2, 1, 0, 0, 1, 2]
DRAWN = np.array([0, 0, 1, 3, 5, 6])


def with_outcomes(outcomes: Any) -> Evaluation:
    ones = np.ones(len(outcomes))
    return Evaluation(ones, ones.astype(int), np.array(outcomes))


def classification(labels: list, num_labels: int = 3, **options: Any) -> Classification:
    loaded = small.loaded("BertForSequenceClassification", num_labels=num_labels)
    texts = (small.TEXTS * 2)[: len(labels)]
    return Classification(loaded, {"text": texts, "label": labels}, **options)


def test_accuracy() -> None:
    task, evaluation = classification(GOLD), with_outcomes([float(one) for one in PREDICTED])
    assert task.score(evaluation) == pytest.approx(5 / 7)
    assert task.score(evaluation, DRAWN) == pytest.approx(4 / 6)


def test_f1_of_three_classes_is_their_mean() -> None:
    task = classification(GOLD, metric="f1")
    evaluation = with_outcomes(PREDICTED)
    by_hand = [2 * 2 / (2 + 3), 2 * 1 / (2 + 2), 2 * 2 / (3 + 2)]  # 2 hits / (gold + predicted)
    assert task.score(evaluation) == pytest.approx(np.mean(by_hand))
    assert task.score(evaluation) == pytest.approx(
        metrics.f1_score(GOLD, PREDICTED, average="macro")
    )


def test_f1_of_two_classes_is_that_of_class_1() -> None:
    gold, predicted = [0, 1, 1, 0, 1], [0, 1, 0, 1, 1]
    task = classification(gold, num_labels=2, metric="f1")
    assert task.score(with_outcomes(predicted)) == pytest.approx(2 * 2 / (3 + 3))
    assert task.score(with_outcomes(predicted), np.array([0, 0])) == 0.0


def test_matthews() -> None:
    gold, predicted = [0, 1, 1, 0, 1], [0, 1, 0, 1, 1]
    task = classification(gold, num_labels=2, metric="matthews")
    hits, misses, false, right = 2, 1, 1, 1
    by_hand = (hits * right - false * misses) / (3 * 3 * 2 * 2) ** 0.5
    assert task.score(with_outcomes(predicted)) == pytest.approx(by_hand)
    assert task.score(with_outcomes(predicted), np.array([1, 1])) == 0.0


@pytest.mark.parametrize("metric", ["f1", "matthews"])
def test_data_of_one_class_is_refused(metric: str) -> None:
    with pytest.raises(CorpusError, match=f"for {metric}, got 3 examples of class 2. Add"):
        classification([2, 2, 2], metric=metric)
    assert classification([2, 2, 2]).num_examples == 3


def spearman(a: list[float], b: list[float]) -> float:
    """Pearson's correlation of ranks."""
    ranks = [rankdata(numbers) for numbers in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def test_spearman() -> None:
    task = Similarity(small.loaded("BertModel"), small.PAIRS)
    cosines = [-0.2, 0.9, 0.4, 0.5, 0.8, 0.4, 0.7]
    evaluation, gold = with_outcomes(cosines), small.PAIRS["score"]
    assert task.score(evaluation) == pytest.approx(spearman(cosines, gold))
    drawn = spearman([cosines[index] for index in DRAWN], [gold[index] for index in DRAWN])
    assert task.score(evaluation, DRAWN) == pytest.approx(drawn)
    assert np.isnan(task.score(evaluation, np.array([2, 2])))
    assert np.isnan(task.score(with_outcomes([0.5] * 7)))


def test_gold_that_spearman_or_the_scale_can_not_use_is_refused() -> None:
    loaded = small.loaded("BertModel")
    with pytest.raises(CorpusError, match="different scores .*, got 7 scores of 3"):
        Similarity(loaded, small.PAIRS | {"score": [3] * 7})
    message = "row 5: expected a score between 0 and 4, got 4.25. Fix .* scale"
    with pytest.raises(CorpusError, match=message):
        Similarity(loaded, small.PAIRS | {"score": [0, 1, 2, 3, 4.25, 4, 5]}, scale=(0, 4))
    with pytest.raises(InputError, match="from a lower to a higher number, got 5 to 0"):
        Similarity(loaded, small.PAIRS, scale=(5, 0))


def test_gold_of_at_most_one_needs_a_scale() -> None:
    """Otherwise scores from 0 to 1 would be read as very dissimilar pairs."""
    loaded = small.loaded("BertModel")
    pairs = small.PAIRS | {"score": [each / 5 for each in small.PAIRS["score"]]}
    with pytest.raises(CorpusError, match="got 7 scores of at most 1.* --scale 0 1 or"):
        Similarity(loaded, pairs)
    unit, whole = Similarity(loaded, pairs, scale=(0, 1)), Similarity(loaded, small.PAIRS)
    assert evaluate(loaded.model, unit).loss == pytest.approx(evaluate(loaded.model, whole).loss)
    assert Similarity(loaded, pairs, scale=(0, 5)).sha256 != unit.sha256
    assert Similarity(loaded, small.PAIRS, pooling="cls").sha256 != whole.sha256


def translation(**options: Any) -> Translation:
    return Translation(small.loaded("MarianMTModel"), small.TRANSLATIONS, **options)


def hypotheses() -> list[str]:
    """Answers that match the reference fully, partly, and not at all."""
    targets = small.TRANSLATIONS["target"]
    halves = [" ".join(text.split()[:5]) for text in targets[3:5]]
    return [*targets[:3], *halves, "Die Katze", targets[6]]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_scores_of_translations_are_those_of_sacrebleu(metric: Any) -> None:
    task, references = translation(metric=metric), small.TRANSLATIONS["target"]
    texts = hypotheses()
    evaluation = Evaluation(np.ones(7), np.ones(7, int), np.array(texts, dtype=object))
    direct = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[metric]
    score = direct(texts, [references]).score
    assert 10 < score < 95 and task.score(evaluation) == pytest.approx(score)
    drawn = [[one[index] for index in DRAWN] for one in (texts, references)]
    assert task.score(evaluation, DRAWN) == pytest.approx(direct(drawn[0], [drawn[1]]).score)
    expected = {"bleu": "tok:13a", "chrf": "nc:6"}[metric]
    assert expected in task.signature and "beams:4" in task.signature
    assert sacrebleu.__version__ in task.signature


def test_tokenizer_of_bleu_is_an_option() -> None:
    assert "tok:char" in translation(tokenize="char").signature


@pytest.mark.slow
def test_translations_are_in_the_order_of_the_data_and_scored() -> None:
    loaded, task = small.loaded("MarianMTModel"), translation()
    texts = task.translate(loaded.model)
    one_by_one = [
        Translation(loaded, {"source": [source], "target": ["x"]}).translate(loaded.model)[0]
        for source in small.TEXTS
    ]
    assert texts == task.translate(loaded.model, max_tokens=10**6)
    assert len(set(texts)) > 3
    assert texts == one_by_one
    evaluation = evaluate(loaded.model, task, texts=True)
    assert evaluation.outcome_N.tolist() == texts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 <= task.score(evaluation) < 100
    bare = evaluate(loaded.model, task)
    np.testing.assert_array_equal(bare.loss_N, evaluation.loss_N)
    assert task.with_texts(bare, loaded.model).outcome_N.tolist() == texts
    with pytest.raises(InputError, match=r"got an evaluation without any. Use evaluate\(model, t"):
        task.score(bare)


@pytest.mark.slow
def test_searches_keep_to_the_padded_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    task, rows = translation(num_beams=2), []
    model = small.loaded("MarianMTModel").model
    generate = model.generate

    def counted(input_ids: torch.Tensor, **options: Any) -> Any:
        rows.append(len(input_ids))
        return generate(input_ids=input_ids, **options)  # type: ignore[operator]

    monkeypatch.setattr(model, "generate", counted)
    few = evaluate(model, task, max_tokens=1, texts=True)
    assert rows == [1] * task.num_examples
    assert list(few.outcome_N) == list(evaluate(model, task, texts=True).outcome_N)
    assert max(rows) > 1


@pytest.mark.slow
def test_beams_and_other_arguments_reach_the_search() -> None:
    loaded = small.loaded("MarianMTModel")
    greedy = translation(num_beams=1).translate(loaded.model)
    assert greedy != translation().translate(loaded.model)
    brief = translation(generation={"max_new_tokens": 2})
    assert brief.signature.endswith("|max_new_tokens:2")
    short = brief.translate(loaded.model)
    assert max(map(len, short)) < max(map(len, greedy))


def test_a_prefix_goes_before_every_source() -> None:
    loaded = small.loaded("T5ForConditionalGeneration")
    plain, prefixed = (
        next(Translation(loaded, small.TRANSLATIONS, prefix=prefix).batches(10**6))
        for prefix in ("", "translate: ")
    )
    ids = loaded.tokenizer("translate: " + small.TEXTS[5])["input_ids"]  # type: ignore[misc]
    row = prefixed.index_E.tolist().index(5)
    hashes = {Translation(loaded, small.TRANSLATIONS, prefix=each).sha256 for each in ("", "a: ")}
    assert len(hashes) == 2, "an order of heads found with one does not go on with the other"
    assert prefixed.inputs["input_ids"][row, : len(ids)].tolist() == ids
    assert plain.labels["labels"].numel() == prefixed.labels["labels"].numel()


def test_many_draws_are_scored_one_by_one() -> None:
    """Every draw equals `score`, which is compared with the definitions above."""
    texts = Evaluation(np.ones(7), np.ones(7, int), np.array(hypotheses(), dtype=object))
    cosines = with_outcomes([-0.2, 0.9, 0.4, 0.5, 0.8, 0.4, 0.7])
    similarity = Similarity(small.loaded("BertModel"), small.PAIRS)
    accuracy, f1 = (
        classification([0, 1, 2, 2, 1, 0, 1], metric=name) for name in ("accuracy", "f1")
    )
    index_DS = np.random.default_rng(0).integers(7, size=(5, 7))
    for task, evaluation in (
        (translation(), texts),
        (similarity, cosines),
        (accuracy, with_outcomes([0, 2, 2, 1, 1, 0, 0])),
        (f1, with_outcomes([0, 2, 2, 1, 1, 0, 0])),
    ):
        expected = [task.score(evaluation, index_S) for index_S in index_DS]
        np.testing.assert_allclose(task.resampled(evaluation)(index_DS), expected)
        assert len(set(expected)) > 2


@pytest.mark.parametrize("name", ["masked-bert", "causal-gpt2"])
def test_perplexities_of_many_draws_are_those_of_each(name: str) -> None:
    """By its definition, to the last bit: a p-value counts differences that are equal."""
    _, task = small.TASKS[name]()
    generator = np.random.default_rng(0)
    loss_N, count_N = 30 * generator.random(47), generator.integers(1, 9, 47)
    loss_N[0] = 1e9  # infinite
    evaluation = Evaluation(loss_N, count_N, np.ones(47))
    index_DS = generator.integers(47, size=(50, 47))
    with np.errstate(over="ignore"):
        expected = [np.exp(loss_N[each].sum() / count_N[each].sum()) for each in index_DS]
    assert task.resampled(evaluation)(index_DS).tolist() == expected
    assert [task.score(evaluation, each) for each in index_DS] == expected
    assert np.isinf(expected).any() and len(set(expected)) > 10


def of_drawn_sums(task: Any, evaluation: Evaluation, draws: list[np.ndarray]) -> list[float]:
    """Scores of the sums of the task's counts over some draws."""
    counts_NK = task.statistics(evaluation)
    return task.of_sums(np.stack([counts_NK[drawn].sum(0) for drawn in draws])).tolist()


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
@pytest.mark.parametrize("classes", [2, 3, 1000])
def test_scores_of_classes_are_those_of_their_sums(metric: Any, classes: int) -> None:
    random = np.random.default_rng(classes)
    gold = random.integers(classes, size=14)
    gold[:2] = 0, 1
    task = classification(gold.tolist(), num_labels=classes, metric=metric)
    evaluation = with_outcomes(random.integers(classes, size=14).astype(float))
    draws = [random.integers(14, size=size) for size in (1, 2, 3, 5, 14, 30) for _ in range(9)]
    expected = [task.score(evaluation, drawn) for drawn in draws]
    assert of_drawn_sums(task, evaluation, draws) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_scores_of_texts_are_those_of_their_sums(metric: Any) -> None:
    """Without a match, with some, with all; with empty, too short and too long translations."""
    references = [
        "a b c d e f",
        "the cat sat on the mat today",
        "x y z",
        "one two",
        "q",
        "k l m n o",
    ]
    written = ["a b c d e f", "the cat sat on a mat", "u v w", "", "q q q q q", "k l m n o p r"]
    task = Translation(
        small.loaded("MarianMTModel"),
        {"source": references, "target": references},
        metric=metric,
    )
    evaluation = Evaluation(np.ones(6), np.ones(6, int), np.array(written, dtype=object))
    random = np.random.default_rng(0)
    draws = [random.integers(6, size=size) for size in (1, 2, 3, 6, 20) for _ in range(20)]
    expected = [task.score(evaluation, drawn) for drawn in draws]
    assert min(expected) == 0 and max(expected) > 60
    assert of_drawn_sums(task, evaluation, draws) == pytest.approx(expected, abs=1e-9)


def test_cosines_of_two_models_are_not_exchanged() -> None:
    task = Similarity(small.loaded("BertModel"), small.PAIRS)
    assert task.statistics(with_outcomes([0.5] * task.num_examples)) is None
