"""Whatever takes long reports its steps: no model runs outside of a stage."""

from pathlib import Path

import pytest

from headcount.pruning import Compensation, PruneSettings, Trial, curve, method, prune
from headcount.tasks import TaskSplits
from headcount.training import FinetuneConfig
from tests.pruning.context import context
from tests.tasks.loaded import TASKS, few_translated
from tests.watched import Watched

FEW = 40
"""Padded tokens in a batch: several batches of every data set."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(
            "auto", "translation", marks=pytest.mark.slow
        ),  # all scores by weights and gradients
        pytest.param("ablation", "translation", marks=pytest.mark.slow),
        ("auto", "causal-gpt2"),
        ("fisher", "causal-gpt2"),
        ("relevance", "causal-gpt2"),
    ],
)
def test_prune(name: str, task: str, tmp_path: Path) -> None:
    from headcount.artifact import save_pruned

    loaded, data = few_translated() if task == "translation" else TASKS[task]()
    assert loaded.anatomy  # found when a model is loaded
    watched, keep = Watched(), len(loaded.heads) - 2
    settings = PruneSettings(max_tokens=FEW, progress=watched, seed=1)
    with watched.watching():
        compensation = Compensation(recovery=FinetuneConfig(updates=2, warmup=0))
        splits = TaskSplits(data, data, data)
        found = prune(loaded, splits, name, keep, compensation, settings)
        save_pruned(found, tmp_path / "out", progress=watched)
    assert not watched.silent_after
    assert not watched.open and watched.ended() == set(watched.reports)
    scored = {"auto": {"gradient", "fisher", "norm", "sink", "candidates", "kept by norm"}}
    scored |= {"ablation": {f"ablation of {len(loaded.heads)}"}}
    models = {f"{what} model on {name}" for what in ("dense", "pruned") for name in ("dev", "test")}
    stages = {"trial cut", "outputs of heads", "gated model on dev", "folding and rescaling"}
    stages |= {"recovery", "control", "control on test", "cut", "intervals", "certificate"}
    stages |= {"ranking"} | ({"roles"} if task == "causal-gpt2" else set())
    assert set(watched.reports) >= models | stages | scored.get(name, {name})
    assert watched.reports["ranking"][0] == (0, 2)
    assert {total for _, total in watched.reports["ranking"]} == {2}
    reports = watched.reports["dense model on dev"]
    assert len({done for done, _ in reports}) > 2, "several batches"
    assert {total for _, total in reports} == {data.num_examples}


def test_curve(tmp_path: Path) -> None:
    watched = Watched()
    given = context("causal-gpt2", max_tokens=FEW, progress=watched)
    assert given.loaded.anatomy
    with watched.watching():
        curve(Trial(given, given.train), {"norm": method("norm")}, [2, 3])
    assert not watched.silent_after and watched.ended() == set(watched.reports)
    assert set(watched.reports) == {"points", "ranking", "norm", "gated model on dev"}
