"""Methods that learn their choice: exact budgets, the best heads, and an unchanged input model."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headcount.compaction import compact
from headcount.core import Head, InputError
from headcount.gates import BudgetConstraint, HardConcrete, Layout, Quota
from headcount.models import as_loaded, check_plan, revision
from headcount.pruning import Method, PruningContext, Subset, Units, plan_of
from headcount.pruning.methods.learned import L0
from headcount.testing import leaving_no_trace
from headcount.training import FinetuneConfig
from tests import tiny
from tests.tasks import loaded as small

QUICK = FinetuneConfig(updates=4, batch_tokens=200, warmup=1, gate_rate=0.3)
METHODS = [
    L0(QUICK),
    L0(QUICK, coefficient=0.05),
    L0(QUICK, coefficient=0.01, sweep=2),
    L0(QUICK, voita2019=True),
    Subset(QUICK),
    Subset(QUICK, straight_through=True),
]
KEEPS: list[tuple[str, Any, dict[str, int]]] = [
    ("classes-bert", 3, {"encoder.self": 3}),
    ("causal-llama", 6, {"decoder.self": 6}),
    (
        "translation-Marian",
        {"encoder.self": 2, "decoder.cross": 5},
        {"encoder.self": 2, "decoder.self": 33, "decoder.cross": 5},
    ),
]


@pytest.mark.once
@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize(("name", "keep", "expected"), KEEPS)
def test_exactly_so_many(method: Method, name: str, keep: Any, expected: dict[str, int]) -> None:
    loaded, task = small.TASKS[name]()
    units = Units.of(loaded.anatomy)
    with leaving_no_trace(loaded.model, tiny.inputs(loaded.model)):
        selection = method.choose(PruningContext(loaded, task, units), keep)
    stay = selection.plan.kept_heads(loaded.heads)
    assert {site: sum(head.site == site for head in stay) for site in expected} == expected
    check_plan(selection.plan, selection.loaded.model, loaded.anatomy)
    assert selection.plan.model == revision(selection.loaded.model) != revision(loaded.model)
    for unit in units.units:
        assert len({head in stay for head in unit}) == 1, "groups go whole"
    scores = selection.scores
    if name == "classes-bert":
        gone = [scores[str(head)] for head in loaded.heads if head not in stay]
        assert min(scores[str(head)] for head in stay) >= max(gone)
    assert selection.history is not None and "open" in " ".join(selection.history[-1])
    if isinstance(method, L0):
        sites = {head.partition(".")[0] for head in scores}
        open_at = [
            sum(score > 0 for head, score in scores.items() if head.startswith(f"{site}."))
            for site in ("enc", "dec", "cross")
            if site in sites
        ]
        assert selection.open is not None and list(selection.open.values()) == open_at


@pytest.mark.once
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_as_many_heads_of_every_group(method: Method) -> None:
    """One gate serves the heads at one place of all groups, so trained heads are kept heads."""
    loaded, task = small.TASKS["causal-llama"]()
    units = Units.of(loaded.anatomy, whole_groups=False)
    keep = units.possible()[len(units.possible()) // 2]
    selection = method.choose(PruningContext(loaded, task, units), keep)
    stay = selection.plan.kept_heads(loaded.heads)
    assert len(stay) == keep
    for groups in units.groups:
        places = [{at for at, head in enumerate(unit) if head in stay} for unit in groups]
        assert all(each == places[0] for each in places)
    for row in units.tied().units:
        assert len({selection.scores[str(head)] for head in row}) == 1


@pytest.mark.once
@pytest.mark.parametrize("name", ["causal-llama", "translation-Marian"])
def test_from_gates_of_ones_own_to_a_compact_model(name: str) -> None:
    """The requested number of heads is kept, by score, although more gates are open."""
    loaded, _ = small.TASKS[name]()
    units = Units.of(loaded.anatomy)
    layout = Layout(units.heads, units.units)
    keep = units.possible()[2]
    gates = HardConcrete(layout, BudgetConstraint(layout, [Quota(None, keep)]))
    generator = torch.Generator().manual_seed(0)
    gates.log_a.data = 5 + torch.rand(len(layout.units), generator=generator)
    plan = plan_of(gates, loaded, units, keep)
    stay = set(plan.kept_heads(loaded.heads))
    assert len(stay) == keep and plan.model == revision(loaded.model)
    score_of = {
        head: score
        for unit, score in zip(layout.units, gates.log_a.tolist(), strict=True)
        for head in unit
    }
    assert min(score_of[head] for head in stay) >= max(
        score for head, score in score_of.items() if head not in stay
    )
    assert len(as_loaded(compact(loaded, plan), None).heads) == keep
    site = next(iter(loaded.heads.counts))
    with pytest.raises(InputError, match="got gates for others"):
        plan_of(
            gates,
            loaded,
            Units.of(loaded.anatomy, [site])
            if len(loaded.heads.counts) > 1
            else Units.of(loaded.anatomy, whole_groups=False).tied(),
            keep,
        )


def test_no_head_at_all() -> None:
    tuning = replace(QUICK, trained="gates")
    loaded, task = small.TASKS["classes-bert"]()
    for method in (Subset(tuning), L0(tuning)):
        selection = method.choose(PruningContext(loaded, task, Units.of(loaded.anatomy)), 0)
        assert selection.plan.kept_heads(loaded.heads) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", [L0(QUICK), Subset(QUICK)], ids=repr)
def test_a_seed_says_it_all_and_an_impossible_budget_is_refused(
    method: Method, tmp_path: Path
) -> None:
    """Two budgets share one folder; finished work there is not repeated."""
    loaded, task = small.TASKS["causal-llama"]()
    units = Units.of(loaded.anatomy)
    one = method.choose(PruningContext(loaded, task, units, seed=4), 6)
    steps: list[int] = []
    context = PruningContext(
        loaded,
        task,
        units,
        seed=4,
        state=tmp_path / "state",
        progress=lambda stage, done, total: steps.append(done),
    )
    two, others, again = (method.choose(context, keep) for keep in (6, 9, 6))
    assert one.plan == two.plan == again.plan != others.plan
    assert one.scores == two.scores and one.history == two.history
    assert len(steps) == 2 * QUICK.updates
    with pytest.raises(InputError, match="in groups of 3, got 5. The nearest is 6"):
        method.choose(PruningContext(loaded, task, units), 5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [L0(QUICK), Subset(QUICK)], ids=repr)
def test_only_heads_that_may_go_have_gates(method: Method, tmp_path: Path) -> None:
    """Work begun with other options is not resumed, although the budget is the same."""
    loaded, task = small.TASKS["translation-Marian"]()
    everywhere = Units.of(loaded.anatomy)
    keep = {"encoder.self": 2}
    scores = method.choose(PruningContext(loaded, task, everywhere), keep).scores
    assert set(scores) == {str(head) for head in loaded.heads if head.site == "encoder.self"}
    one, other = (Units.of(loaded.anatomy, [site]) for site in ("encoder.self", "decoder.self"))
    number = len(loaded.heads) - 2
    method.choose(PruningContext(loaded, task, one, state=tmp_path / "state"), number)
    with pytest.raises(InputError, match="units"):
        method.choose(PruningContext(loaded, task, other, state=tmp_path / "state"), number)


@pytest.mark.slow
def test_budgets_share_the_trainings_of_a_sweep(tmp_path: Path) -> None:
    """The choice equals that of the nearest coefficient alone."""
    loaded, task = small.TASKS["classes-bert"]()
    units, steps = Units.of(loaded.anatomy), []
    context = PruningContext(
        loaded,
        task,
        units,
        state=tmp_path / "state",
        progress=lambda stage, done, total: steps.append(done),
    )
    way = L0(replace(QUICK, updates=12), voita2019=True, sweep=4)
    found = {keep: way.choose(context, keep) for keep in (3, 4)}
    tried = {keep: selection.swept or {} for keep, selection in found.items()}
    first = next(iter(tried[3]))
    assert first == next(iter(tried[4])) == str(0.1 / len(loaded.anatomy.layers))
    assert len({*tried[3], *tried[4]}) == len(steps) / 12 < len(tried[3]) + len(tried[4])
    for keep, selection in found.items():
        nearest = min(tried[keep].values(), key=lambda number: (abs(number - keep), -number))
        assert selection.open == {"encoder.self": nearest}
        (coefficient, *_) = [float(each) for each, n in tried[keep].items() if n == nearest]
        alone = replace(way, sweep=0, coefficient=coefficient).choose(
            replace(context, state=None), keep
        )
        assert alone.plan == selection.plan


GATES = FinetuneConfig(
    updates=40, batch_tokens=400, gate_rate=0.3, warmup=2, trained="gates", distilled=1.0
)


@pytest.mark.slow
@pytest.mark.parametrize("method", [L0(GATES), Subset(GATES)], ids=["l0", "subset"])
def test_heads_that_matter_are_kept(method: Method) -> None:
    """Matching the dense model needs the four heads with more than negligible output."""
    loaded, task = small.TASKS["masked-bert"]()
    needed = {
        Head("encoder.self", 0, 1),
        Head("encoder.self", 0, 4),
        Head("encoder.self", 1, 0),
        Head("encoder.self", 1, 2),
    }
    model = copy.deepcopy(loaded.model)
    for layer in loaded.anatomy.layers:
        assert layer.output is not None
        weight = model.get_submodule(layer.output).weight
        assert isinstance(weight, torch.Tensor)
        for index in range(layer.num_heads):
            if Head(layer.site, layer.layer, index) not in needed:
                weight.data[:, index * layer.head_dim : (index + 1) * layer.head_dim] *= 1e-3
    dense = replace(loaded, model=model)
    selection = method.choose(PruningContext(dense, task, Units.of(loaded.anatomy)), 4)
    # Every process renumbers word pieces: one head may differ.
    assert len(set(selection.plan.kept_heads(loaded.heads)) & needed) >= 3
