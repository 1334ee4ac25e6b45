"""A subset of a task's examples has the same results as in the full task."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headcount.core import InputError
from headcount.tasks import IGNORED, Losses, Search, TaskBatch, Translation, drawn, evaluate
from tests.tasks.loaded import TASKS
from tests.tasks.tiny_task import TinyTask


@pytest.mark.parametrize("name", list(TASKS))
def test_losses_and_scores_are_those_of_the_whole_task(name: str) -> None:
    """Slow twin: the full task's evaluation, and its score over the same examples."""
    loaded, task = TASKS[name]()
    most = task.num_examples - 2
    few = drawn(task, most, seed=3)
    chosen = np.random.default_rng(3).choice(task.num_examples, most, replace=False)
    index_N = np.sort(chosen)
    found, whole = evaluate(loaded.model, few), evaluate(loaded.model, task)
    rounding = 1e-6  # a small loss is the difference of larger numbers
    np.testing.assert_allclose(found.loss_N, whole.loss_N[index_N], rtol=1e-5, atol=rounding)
    np.testing.assert_array_equal(found.count_N, whole.count_N[index_N])
    np.testing.assert_allclose(found.outcome_N, whole.outcome_N[index_N], rtol=1e-5, atol=rounding)
    np.testing.assert_array_equal(few.length_N, task.length_N[index_N])
    assert (few.name, few.metric) == (task.name, task.metric)
    if isinstance(task, Search):
        whole = replace(whole, outcome_N=np.linspace(0, 1, task.num_examples))
        found = replace(found, outcome_N=whole.outcome_N[index_N])
    if isinstance(task, Translation):
        whole = replace(
            whole, outcome_N=np.array([first for (first,) in task.references[::-1]], dtype=object)
        )
        found = replace(found, outcome_N=whole.outcome_N[index_N])
    assert few.score(found) == pytest.approx(task.score(whole, index_N), rel=1e-5)
    twice_S = np.array([1, 1, 0])
    expected = task.score(whole, index_N[twice_S])
    np.testing.assert_allclose(few.score(found, twice_S), expected, rtol=1e-5)


def test_an_example_that_asks_nothing_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's task can have an example without labels; its loss is 0, and no mean counts it."""
    loaded, task = TASKS["masked-bert"]()
    whole, of = evaluate(loaded.model, task), task.losses

    def losses(model: PreTrainedModel, batch: TaskBatch) -> Losses:
        labels = batch.labels["labels"].masked_fill((batch.index_E == 1)[:, None], IGNORED)
        return of(model, replace(batch, labels={"labels": labels}))

    monkeypatch.setattr(task, "losses", losses)
    found = evaluate(loaded.model, task)
    assert (found.count_N == 0).nonzero()[0].tolist() == [1] and found.loss_N[1] == 0
    others = np.arange(task.num_examples) != 1
    assert found.loss == pytest.approx(whole.loss_N[others].sum() / whole.count_N[others].sum())


def test_a_training_masks_the_examples_drawn_as_the_whole_task_does() -> None:
    _, task = TASKS["masked-bert"]()
    index_N, index_E = np.array([1, 3, 4]), np.array([2, 0])
    found = task.some(index_N).training_batch(index_E, 7)
    expected = task.training_batch(index_N[index_E], 7)
    assert found.index_E.tolist() == [2, 0]
    assert torch.equal(found.labels["labels"], expected.labels["labels"])
    assert not torch.equal(found.labels["labels"], task.batch(index_N[index_E]).labels["labels"])


def test_some_pairs_are_translated_as_in_the_whole_task() -> None:
    loaded, task = TASKS["translation-Marian"]()
    few = drawn(task, 4, seed=3)
    assert isinstance(task, Translation) and isinstance(few, Translation)
    index_N = np.sort(np.random.default_rng(3).choice(task.num_examples, 4, replace=False))
    whole = task.translate(loaded.model)
    assert few.translate(loaded.model) == [whole[index] for index in index_N]
    assert len(set(whole)) > 1, "else any four would do"
    assert few.references == [task.references[index] for index in index_N]


def test_a_task_that_writes_writes_for_the_examples_drawn() -> None:
    loaded, task = TASKS["translation-Marian"]()
    index_N = np.array([1, 4])
    few = task.some(index_N)
    assert few.writes and isinstance(task, Translation)
    found, whole = (evaluate(loaded.model, each, texts=True) for each in (few, task))
    assert list(found.outcome_N) == [whole.outcome_N[index] for index in index_N]
    assert few.score(found) == task.score(whole, index_N)


@pytest.mark.parametrize("name", list(TASKS))
def test_some_examples_of_some_are_those_of_the_whole(name: str) -> None:
    """What a task holds of each example is selected again, and the task itself keeps all."""
    _, task = TASKS[name]()
    number = task.num_examples
    few = task.some(np.arange(number)[1:]).some(np.array([1, 0]))
    found, expected = few.batch(np.array([0, 1])), task.batch(np.array([2, 1]))
    assert found.index_E.tolist() == [0, 1] and task.num_examples == number
    for parts, others in ((found.inputs, expected.inputs), (found.labels, expected.labels)):
        assert all(torch.equal(parts[each], others[each]) for each in others)


def test_a_task_that_names_nothing_by_example_is_refused() -> None:
    with pytest.raises(InputError, match="whose `by_example` names .*, got tiny, which names"):
        drawn(TinyTask(TASKS["classes-bert"]()[0].model), 3)


def test_a_draw_is_of_its_seed_and_a_task_that_is_no_larger_is_itself() -> None:
    _, task = TASKS["classes-bert"]()
    hashes = {drawn(task, most, seed).sha256 for most, seed in ((3, 0), (3, 0), (3, 1), (4, 0))}
    assert len(hashes) == 3 and task.sha256 not in hashes
    assert drawn(task, task.num_examples) is task


@pytest.mark.slow
def test_a_sweep_over_some_examples() -> None:
    from headcount.importance import Ablation, AblationSetting, sweep

    loaded, task = TASKS["translation-Marian"]()
    few = drawn(task, 4)
    ablation = Ablation("first", (next(iter(loaded.heads)),))
    swept = sweep(AblationSetting(loaded.model, few, loaded.anatomy), [ablation])
    assert swept.base.loss == pytest.approx(evaluate(loaded.model, few).loss, rel=1e-5)
