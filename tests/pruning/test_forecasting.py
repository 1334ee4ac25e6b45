"""How long a pruning will take: each phase by the tokens that it reads."""

from dataclasses import replace

import pytest

from headcount.pruning import BudgetSpec, Compensation, Forecast, Phase, PruneSettings, forecast
from headcount.pruning.methods.registry import method
from headcount.tasks import TaskSplits
from headcount.training import FinetuneConfig
from tests.tasks.loaded import TASKS

NONE = Compensation(fold=False, rescale=False)
ALL = PruneSettings(calibration=10**6)


def shares(found: Forecast | None) -> dict[str, float]:
    """Each phase's time as a multiple of one pass over the development set."""
    assert found is not None
    once = next(each.seconds for each in found.phases if each.name == "dense model")
    return {each.name: each.seconds / once for each in found.phases}


def test_each_phase_takes_its_passes() -> None:
    """A gradient is three passes; seven ways and none are measured, on a set that is small."""
    loaded, task = TASKS["classes-bert"]()
    splits, half = TaskSplits(task, task), BudgetSpec(share=0.5)
    given = (loaded, splits, method("gradient"), half, Compensation(), ALL)
    assert shares(forecast(*given)) == pytest.approx(
        {
            "dense model": 1,
            "choosing heads": 3,
            "folding and rescaling": 1 + 8,
            "pruned model": 1,
            "certificate": 3,
        }
    )
    tested = (loaded, TaskSplits(task, task, task), method("random"), half, NONE, ALL)
    assert shares(forecast(*tested)) == pytest.approx(
        {"dense model": 1, "pruned model": 1, "certificate": 1.5}
    )


def test_trainings_and_what_is_not_known() -> None:
    loaded, task = TASKS["classes-bert"]()
    tuning = FinetuneConfig(updates=10, batch_tokens=200, distilled=0.5)
    stages = Compensation(fold=False, rescale=False, recovery=tuning)
    splits = TaskSplits(task, task)
    found = forecast(loaded, splits, method("ablation"), BudgetSpec(max_drop=0.1), stages, ALL)
    assert found is not None and found.unknown == ("the search for the number of heads",)
    tokens, heads = int(task.length_N.sum()), len(loaded.heads)
    known = shares(found)
    assert known["recovery"] == pytest.approx(4 * 2000 / tokens + 2)
    assert known["control"] == pytest.approx(4 * 2000 / tokens)
    steps = -(-heads // max(1, round(0.1 * heads)))
    assert known["choosing heads"] == pytest.approx(heads / 2 * steps)
    gates = forecast(loaded, splits, method("causal-gates"), BudgetSpec(keep=3), NONE, ALL)
    assert gates is not None and gates.unknown == ("choosing heads by causal-gates",)


def test_heads_and_neurons_take_one_gradient() -> None:
    """Whatever the method would take; the smaller models that are timed are not counted."""
    loaded, task = TASKS["classes-bert"]()
    both = PruneSettings(calibration=10**6, neurons=True)
    given = (loaded, TaskSplits(task, task), method("ablation"), BudgetSpec(speedup=1.2), NONE)
    found = forecast(*given, both)
    assert shares(found)["choosing heads and neurons"] == pytest.approx(3)
    assert found is not None and found.unknown[-1] == "the timing of smaller models"


def test_the_sentence() -> None:
    found = Forecast((Phase("scores", 70.0), Phase("folding", 120.0, "--no-fold")), ("the rest",))
    assert found.sentence == (
        "About 3:10 (minutes:seconds): scores 1:10, folding 2:00. --no-fold saves 2:00. "
        "Not counted: the rest."
    )
    large = replace(found, memory=2_000_000_000, free=3_000_000_000)
    assert large.sentence == (f"{found.sentence} Models and batches need about 2.00 GB of memory.")
    assert replace(large, free=1_500_000_000).sentence.endswith(
        " need about 2.00 GB of memory, of which 1.50 GB are free."
    )


def test_memory_is_that_of_the_models_beside_each_other() -> None:
    """Three of them and a batch; a training holds far more than its seven copies."""
    loaded, task = TASKS["classes-bert"]()
    weights = sum(each.numel() * 4 for each in loaded.model.parameters())
    tuning = FinetuneConfig(updates=1, batch_tokens=20)
    for stages, models in ((NONE, 3), (replace(NONE, recovery=tuning), 11)):
        given = (loaded, TaskSplits(task, task), method("random"), BudgetSpec(share=0.5), stages)
        found = forecast(*given, ALL)
        assert found is not None and found.memory == models * weights + 2**28
        assert found.free is not None and "memory" not in found.sentence
