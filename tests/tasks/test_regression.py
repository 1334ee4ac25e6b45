"""Classifiers with one output against the textbook, their scales, and cross-encoders."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

import headcount
from headcount.core import CorpusError, InputError, ModelError
from headcount.models import Loaded
from headcount.tasks import Classification, Regression, Task, build, evaluate
from tests.tasks import loaded as small
from tests.textbook import tasks as textbook

DATA = small.NUMBERS


def one_output(**changed: Any) -> Loaded:
    return small.loaded("BertForSequenceClassification", num_labels=1, **changed)


def outputs(loaded: Loaded) -> list[float]:
    """The model's output for each pair, one at a time."""
    tokenizer: Any = loaded.tokenizer
    found = []
    for first, second in zip(DATA["text"], DATA["second"], strict=True):
        limits = {"truncation": True, "max_length": 64}
        row = tokenizer(first, second, return_tensors="pt", **limits)
        with torch.no_grad():
            found.append(float(loaded.model(**row).logits[0, 0]))
    return found


def test_numbers_are_the_textbook() -> None:
    loaded, task = small.TASKS["numbers"]()
    evaluation, slow = evaluate(loaded.model, task), outputs(loaded)
    np.testing.assert_allclose(evaluation.outcome_N, slow, rtol=1e-4, atol=1e-5)
    losses = [(number - gold) ** 2 for number, gold in zip(slow, DATA["label"], strict=True)]
    np.testing.assert_allclose(evaluation.loss_N, losses, rtol=1e-4, atol=1e-5)
    assert evaluation.count_N.tolist() == [1] * 7
    expected = textbook.rank_correlation(slow, DATA["label"])
    assert task.score(evaluation) == pytest.approx(expected)
    assert task.metric == "spearman" and abs(expected) < 0.99


def test_a_scale_becomes_0_to_1() -> None:
    loaded = one_output()
    task = build("classification", loaded, DATA, scale=(0, 5))
    slow = [
        (number - gold / 5) ** 2
        for number, gold in zip(outputs(loaded), DATA["label"], strict=True)
    ]
    np.testing.assert_allclose(evaluate(loaded.model, task).loss_N, slow, rtol=1e-4, atol=1e-5)
    assert task.sha256 != build("classification", loaded, DATA).sha256
    with pytest.raises(CorpusError, match="row 2: expected a label between 0 and 4, got 5"):
        build("classification", loaded, DATA, scale=(0, 4))


@pytest.fixture(params=["file", "config", "older config", "neither"])
def cross_encoder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A cross-encoder as several versions of sentence-transformers saved it."""
    loaded = one_output()
    plain = tmp_path / "plain"
    loaded.model.save_pretrained(plain)
    loaded.tokenizer.save_pretrained(plain)  # type: ignore[union-attr]
    folder = tmp_path / "saved"
    CrossEncoder(str(plain)).save_pretrained(str(folder))
    side = folder / "config_sentence_transformers.json"
    settings, config = (
        json.loads(side.read_text()),
        json.loads((folder / "config.json").read_text()),
    )
    stated = settings.pop("activation_fn")
    assert stated.endswith("Sigmoid")
    config.pop("sentence_transformers", None)
    if request.param == "file":
        settings["activation_fn"] = stated
    elif request.param == "config":
        config["sentence_transformers"] = {"activation_fn": stated, "version": "4.1.0"}
    elif request.param == "older config":
        config["sbert_ce_default_activation_function"] = stated
    side.write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.once
def test_a_cross_encoder_is_scored_as_its_library_scores_it(cross_encoder: Path) -> None:
    from headcount.serve import predicting

    loaded = headcount.load(cross_encoder)
    task = build("classification", loaded, DATA, scale=(0, 5))
    pairs = list(zip(DATA["text"], DATA["second"], strict=True))
    expected = CrossEncoder(str(cross_encoder), device="cpu").predict(pairs)  # type: ignore[arg-type]
    found = evaluate(loaded.model, task)
    np.testing.assert_allclose(found.outcome_N, expected, rtol=1e-4, atol=1e-6)
    slow = [(a - b / 5) ** 2 for a, b in zip(expected, DATA["label"], strict=True)]
    np.testing.assert_allclose(found.loss_N, slow, rtol=1e-3, atol=1e-6)
    with pytest.raises(ModelError, match=r"for similarity, .* Tasks that fit: classification\."):
        build("similarity", loaded, small.PAIRS)
    with pytest.raises(CorpusError, match="labels from 0 to 1, since the .* sigmoid, got 0 to 5"):
        build("classification", loaded, DATA)
    (shown,) = predicting.predict(loaded, "classification", *pairs[0], {})
    assert isinstance(shown, predicting.Number)
    assert shown.value == pytest.approx(float(expected[0]), rel=1e-4)


def test_an_output_trained_as_a_probability_is_one() -> None:
    loaded = one_output(problem_type="multi_label_classification")
    task = build("classification", loaded, DATA, scale=(0, 5))
    sigmoids = [1 / (1 + math.exp(-number)) for number in outputs(loaded)]
    np.testing.assert_allclose(evaluate(loaded.model, task).outcome_N, sigmoids, rtol=1e-4)


def test_a_student_learns_the_numbers_of_its_teacher() -> None:
    from headcount.training import FinetuneConfig
    from headcount.training.distillation import DistillationLoss

    loaded, task = small.TASKS["numbers"]()
    teacher = small.shaken(loaded.model)
    (batch,) = task.batches(10**6)
    tuning = FinetuneConfig(distilled=1.0)
    loss = DistillationLoss(loaded.model, task, tuning, teacher)(batch)["loss"]
    numbers = [evaluate(model, task).outcome_N for model in (loaded.model, teacher)]
    expected = float(((numbers[0] - numbers[1]) ** 2).mean())
    assert loss.item() == pytest.approx(expected, rel=1e-4) and expected > 0.01


def of_config(**changed: Any) -> Task:
    return build("classification", one_output(**changed), DATA)


def test_what_has_no_number_is_refused() -> None:
    three = small.loaded("BertForSequenceClassification")
    with pytest.raises(InputError, match="the metric spearman .* got accuracy. Leave the metric"):
        build("classification", one_output(), DATA, metric="accuracy")
    with pytest.raises(InputError, match="Expected no scale .* one of 3 classes, got 0 to 5"):
        build("classification", three, small.CLASSES, scale=(0, 5))
    with pytest.raises(InputError, match="got 'spearman'"):
        build("classification", three, small.CLASSES, metric="spearman")
    with pytest.raises(ModelError, match="with one output, got .* with 3. Use Classification"):
        Regression(three, DATA)
    with pytest.raises(CorpusError, match="Expected different labels for Spearman's correlation"):
        build("classification", one_output(), DATA | {"label": [1] * 7})
    with pytest.raises(CorpusError, match="row 1: expected a finite number for 'label', got 'no'"):
        build("classification", one_output(), DATA | {"label": ["no"] * 7})
    with pytest.raises(ModelError, match="with one class .* which is always right"):
        of_config(problem_type="single_label_classification")
    with pytest.raises(ModelError, match="Expected Sigmoid or Identity .* got Tanh, which"):
        of_config(sbert_ce_default_activation_function="torch.nn.Tanh")
    assert isinstance(build("classification", three, small.CLASSES), Classification)
