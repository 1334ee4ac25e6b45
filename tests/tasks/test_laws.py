"""Laws of every task: no example is lost, rows are independent, copies are equal."""

from typing import Any

import numpy as np
import pytest
import torch

from headcount.tap import gated
from headcount.tasks import TASKS, Evaluation, ImageClassification, TaskBatch, build, evaluate
from headcount.testing import leaving_no_trace
from tests.tasks import loaded as small

EVERY = pytest.mark.parametrize("name", small.TASKS)


def assert_same(a: Evaluation, b: Evaluation, rtol: float = 2e-5) -> None:
    np.testing.assert_allclose(a.loss_N, b.loss_N, rtol=rtol, atol=1e-5)
    np.testing.assert_array_equal(a.count_N, b.count_N)
    np.testing.assert_allclose(a.outcome_N, b.outcome_N, rtol=rtol, atol=1e-5)


@EVERY
def test_rows_do_not_depend_on_batch_mates_or_padding(name: str) -> None:
    loaded, task = small.TASKS[name]()
    together, alone = (list(task.batches(size)) for size in (10**6, 1))
    assert len(together) == 1 and len(alone) == task.num_examples
    mask_RN = together[0].inputs["attention_mask"]
    assert not mask_RN.all() and all(mask_RN.any(0)) and len(mask_RN) > 3
    assert_same(evaluate(loaded.model, task, 10**6), evaluate(loaded.model, task, 1))


@EVERY
def test_every_example_comes_once_in_the_same_batches_by_length(name: str) -> None:
    _, task = small.TASKS[name]()
    first, again = list(task.batches(60)), list(task.batches(60))
    indices = torch.cat([batch.index_E for batch in first])
    assert sorted(indices.tolist()) == list(range(task.num_examples))
    widths = [max(each.shape[1] for each in of_tokens(batch)) for batch in first]
    assert widths == sorted(widths) and len(first) > 1
    for batch, width in zip(first, widths, strict=True):
        assert batch.num_examples == 1 or len(batch.example_R) * width <= 60
    for a, b in zip(first, again, strict=True):
        assert all(torch.equal(a.inputs[key], b.inputs[key]) for key in a.inputs)
        assert torch.equal(a.index_E, b.index_E)


def of_tokens(batch: TaskBatch) -> list[torch.Tensor]:
    return [tensor for name, tensor in batch.inputs.items() if name.endswith("input_ids")]


@EVERY
def test_a_repeated_batch_gives_every_example_again(name: str) -> None:
    loaded, task = small.TASKS[name]()
    (batch,) = task.batches(10**6)
    with torch.inference_mode():
        once, thrice = (task.losses(loaded.model, each) for each in (batch, batch.repeated(3)))
    for field in ("loss_E", "count_E", "outcome_E"):
        each = getattr(once, field)
        expected = each.repeat(3, *[1] * (each.ndim - 1))
        torch.testing.assert_close(
            getattr(thrice, field), expected, rtol=1e-5, atol=1e-5, equal_nan=True
        )


@EVERY
def test_losses_have_gradients_and_are_single_precision_at_least(name: str) -> None:
    loaded, task = small.TASKS[name]()
    batch = next(task.batches(60))
    losses = task.losses(loaded.model, batch)
    assert losses.loss_E.dtype == torch.float32 and not losses.outcome_E.requires_grad
    weight: Any = loaded.model.get_input_embeddings().weight
    (gradient,) = torch.autograd.grad(losses.loss_E.sum(), [weight])
    assert gradient.abs().sum() > 0


@pytest.mark.once
@pytest.mark.parametrize("name", ["causal-gpt2", "similarity-bert", "translation-Marian"])
def test_evaluation_leaves_no_trace_and_feels_gates(name: str) -> None:
    loaded, task = small.TASKS[name]()
    model = loaded.model
    before = evaluate(model, task)
    model.train()
    inputs = next(task.batches(60)).inputs
    with leaving_no_trace(model, inputs):
        assert_same(evaluate(model, task), before, rtol=0)
        with gated(model, {str(next(iter(loaded.heads))): 0.0}):
            assert not np.allclose(evaluate(model, task).loss_N, before.loss_N)
    model.eval()


@EVERY
def test_a_score_over_all_is_the_score_of_every_number(name: str) -> None:
    loaded, task = small.TASKS[name]()
    evaluation = evaluate(loaded.model, task)
    # A random model may be wrong on every example, and then all samples score the same.
    given = {
        "translation": np.array(["Der alte Hund bellte den Mond an."] * 7, dtype=object),
        "classification": np.array([0, 2, 1, 0, 2, 2, 2]),
        "choice": np.array([1, 0, 3, 1, 0, 1, 0]),
        "search": np.array([1.0, 0.0, 0.5, 1.0, 0.0, 0.25, 0.63]),
    }
    outcome_N = given.get(task.name, evaluation.outcome_N)
    if task.metric == "spearman":
        outcome_N = evaluation.outcome_N
    evaluation = Evaluation(evaluation.loss_N, evaluation.count_N, outcome_N)
    whole = task.score(evaluation)
    assert isinstance(whole, float) and np.isfinite(whole)
    assert task.score(evaluation, np.arange(task.num_examples)[::-1].copy()) == pytest.approx(whole)
    drawn = np.array([0, 0, 1, 3, 3, 4])
    assert task.score(evaluation, drawn) != pytest.approx(whole)


def test_names_are_those_of_the_classes() -> None:
    made = {task.name for _, task in (make() for make in small.TASKS.values())}
    assert made == set(TASKS.own) - {"image-classification", "transcription"}
    assert ImageClassification.name == "image-classification"


def test_a_loss_that_is_not_finite_names_the_example() -> None:
    loaded = small.loaded("BertForMaskedLM", num_hidden_layers=1)
    task = build("masked-lm", loaded, {"text": small.TEXTS})
    only = set(loaded.tokenizer("Bremen kitchen")["input_ids"])  # type: ignore[misc]
    for other in small.TEXTS[:3] + small.TEXTS[4:]:
        only -= set(loaded.tokenizer(other)["input_ids"])  # type: ignore[misc]
    with torch.no_grad():
        weight: Any = loaded.model.get_input_embeddings().weight
        weight[list(only)] = torch.nan
    with pytest.raises(
        ValueError, match=r"NaN or infinity in .* masked-lm loss of example \d \(from 0\)"
    ):
        evaluate(loaded.model, task)
