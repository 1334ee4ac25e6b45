"""A resumed pruning measures no model again that was measured, and finds the same bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount.pruning import Compensation, PruneSettings, prune
from headcount.pruning.pipeline import evaluate
from headcount.pruning.remembering import remembered
from headcount.speed import Options
from headcount.tasks import Evaluation, TaskSplits
from tests.pruning.context import context
from tests.tasks.loaded import TASKS


@pytest.mark.parametrize(
    "name",
    [
        "similarity-bert",
        pytest.param("causal-gpt2", marks=pytest.mark.slow),
        pytest.param("translation-Marian", marks=pytest.mark.slow),
    ],
)
def test_an_evaluation_is_made_once(name: str, tmp_path: Path) -> None:
    """Losses, counts and outcomes, numbers or texts, come back as they were."""
    given, made = context(name, tmp_path), list[int]()
    loaded, task = given.loaded, given.train

    def make() -> Evaluation:
        made.append(1)
        return evaluate(loaded.model, task, texts=True)

    first, again = (remembered(given, loaded, task, make) for _ in range(2))
    assert made == [1]
    for each in (first, again, evaluate(loaded.model, task, texts=True)):
        np.testing.assert_array_equal(each.loss_N, first.loss_N)
        np.testing.assert_array_equal(each.count_N, first.count_N)
        np.testing.assert_array_equal(each.outcome_N, first.outcome_N)
    assert task.score(again) == task.score(first)
    few = task.some(np.array([0, 1, 2]))
    assert len(remembered(given, loaded, few, lambda: evaluate(loaded.model, few)).loss_N) == 3
    assert remembered(replace(given, state=None), loaded, task, make) and made == [1, 1]


def test_a_resumed_run_measures_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after everything was measured, it goes through without a model's run on the data."""
    loaded, task = TASKS["similarity-bert"]()
    splits = TaskSplits(task, task, task)
    settings = PruneSettings(state=tmp_path)
    timing = Options((1,), (8,), ("forward",), rounds=2)
    how = (loaded, splits, "norm", 2, Compensation(fold=False, rescale=False), settings, timing)
    first = prune(*how).record

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("it was measured before")

    monkeypatch.setattr("headcount.pruning.pipeline.evaluate", fail)
    monkeypatch.setattr("headcount.pruning.costs.compare_speed", fail)
    second = prune(*how).record
    assert first.speed is not None and second.speed is not None
    assert second.speed.cases == first.speed.cases
    assert repr(second.data_sets) == repr(first.data_sets) and second.kept == first.kept
