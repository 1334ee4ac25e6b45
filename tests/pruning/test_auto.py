"""`auto` takes the score whose choice costs least on examples that did not score the heads."""

import copy
from dataclasses import replace

import pytest
import torch

from headcount.core import InputError
from headcount.models import Loaded
from headcount.pruning import method, spare_groups
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.methods.by_score import halves
from headcount.tasks import Similarity, drawn
from tests.pruning.context import context
from tests.tasks.loaded import PAIRS, TASKS

CANDIDATES = ("gradient", "fisher", "norm", "sink")


def test_halves_are_a_partition() -> None:
    _, task = TASKS["similarity-bert"]()
    first, second = halves(task, 3)
    assert abs(first.num_examples - second.num_examples) <= 1
    lengths = sorted([*first.length_N.tolist(), *second.length_N.tolist()])
    assert lengths == sorted(task.length_N.tolist())
    assert halves(task, 3)[0].sha256 == first.sha256 != halves(task, 4)[0].sha256
    with pytest.raises(InputError, match="Expected at least 2 examples"):
        halves(drawn(task, 1), 0)


@pytest.mark.once
@pytest.mark.parametrize("task", ["similarity-bert", "causal-llama"])
def test_the_lowest_loss_on_the_other_half_wins(task: str) -> None:
    given = context(task)
    keep = len(given.units.heads) // 2
    found = method("auto").choose(given, keep)
    assert found.compared is not None and tuple(found.compared) == CANDIDATES
    first, second = halves(given.train, 0)
    for name in CANDIDATES:
        plan = method(name).choose(replace(given, train=first), keep).plan
        loss = evaluate_gated(given.loaded, plan, second, texts=False).loss
        assert found.compared[name] == pytest.approx(loss)
    best = min(CANDIDATES, key=found.compared.__getitem__)
    alone = method(best).choose(given, keep)
    assert found.plan == alone.plan and found.scores == alone.scores


def test_a_score_that_misleads_is_not_taken() -> None:
    """Half of the heads add a large constant to every dimension, which layer norms take away."""
    loaded, _ = TASKS["similarity-bert"]()
    model = copy.deepcopy(loaded.model)
    deaf = Loaded(model, loaded.tokenizer, "deaf")
    for layer in deaf.anatomy.layers:
        weight = model.get_parameter(f"{layer.output}.weight")
        with torch.no_grad():
            for head in range(0, layer.num_heads, 2):
                rows = slice(head * layer.head_dim, (head + 1) * layer.head_dim)
                weight[:, rows] = 50 * weight[:, rows].abs().mean(0)
    given = replace(context("similarity-bert"), loaded=deaf, train=Similarity(deaf, PAIRS))
    loud = sum((layer.num_heads + 1) // 2 for layer in deaf.anatomy.layers)
    keep = len(deaf.heads) - loud
    by_norm = method("norm").choose(given, keep).plan
    assert all(head.index % 2 == 0 for head in by_norm.kept_heads(deaf.heads))
    found = method("auto").choose(given, keep)
    assert found.compared is not None
    assert min(found.compared, key=found.compared.__getitem__) != "norm"
    assert all(head.index % 2 == 1 for head in found.plan.kept_heads(deaf.heads))


def test_it_is_no_single_ranking() -> None:
    with pytest.raises(InputError, match="got auto"):
        spare_groups(method("auto"), [["enc.0.0"]])


@pytest.mark.slow
def test_a_step_is_checked_and_used() -> None:
    with pytest.raises(InputError, match="from 0 to 1"):
        method("auto", step=2.0)
    given = context("similarity-bert")
    keep = 2
    found = method("auto", step=0.0).choose(given, keep)
    best = min(found.compared or {}, key=(found.compared or {}).__getitem__)
    assert found.plan == method(best, step=0.0).choose(given, keep).plan
