"""Heads and neurons are chosen together by the Fisher information of their masks."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headcount.compaction import feed_forwards, kept_neurons
from headcount.core import InputError, LayerId, ModelError, Plan
from headcount.models import Loaded
from headcount.pruning import BudgetSpec, PruneSettings, PruningContext, Units, prune
from headcount.pruning.costs import Costs
from headcount.pruning.reconstruction import fold, output_moments, rescale
from headcount.pruning.together import Savings, Together, information, rearranged, slopes
from headcount.results import PruneRecord
from headcount.speed import model_flops
from headcount.tasks import TaskSplits
from tests.examined import examined_double
from tests.pruning.context import context
from tests.tasks.loaded import TASKS
from tests.tasks.tiny_task import TinyTask
from tests.textbook.fisher_masks import best_of_all, columns, loss_to_second_order, slope

SETTINGS = PruneSettings(neurons=True)


def of(name: str) -> PruningContext:
    """What can be pruned of a tiny model in float64, with a task."""
    model, anatomy = examined_double(name)
    loaded = Loaded(copy.deepcopy(model), None, name)
    vars(loaded)["anatomy"] = anatomy
    task = TinyTask(model)
    task.sha256 = "tiny"
    fed = tuple(feed_forwards(loaded.model, anatomy))
    return PruningContext(loaded=loaded, train=task, units=Units.of(anatomy), feed_forwards=fed)


@pytest.mark.parametrize("name", ["bert", "llama", "marian"])
def test_the_slopes_are_those_of_finite_masks(name: str) -> None:
    """The column of a neuron is scaled by hand."""
    given = of(name)
    found, model = slopes(given), given.loaded.model
    for each in given.feed_forwards[:: max(1, len(given.feed_forwards) - 1)]:
        for neuron in (0, 7, 22):

            def losses(mask: float, path: str = each.output, neuron: int = neuron) -> Any:
                undo = columns(model, path, neuron, mask)
                with torch.no_grad():
                    batches = given.train.batches(given.max_tokens)
                    loss = torch.cat([given.train.losses(model, b).loss_E for b in batches])
                undo()
                return loss

            # RMSNorm of Llama rounds to float32 in a model of float64
            step, within = (5e-3, 5e-3) if name == "llama" else (1e-4, 2e-4)
            expected = slope(losses, step)
            assert found[each.layer_id][:, neuron].tolist() == pytest.approx(
                expected.tolist(), rel=within, abs=within / 10
            )


def test_heads_have_the_information_of_the_score() -> None:
    from headcount.importance import fisher

    given = of("bert")
    found = slopes(given)
    expected = fisher(given.loaded, given.train)
    for place, score_H in expected.items():
        assert information(found[place]).tolist() == pytest.approx(score_H.tolist(), rel=1e-5)


@pytest.mark.parametrize("number", [1, 3, 6])
def test_rearranging_loses_less_and_nearly_as_little_as_the_best_of_all(number: int) -> None:
    generator = torch.Generator().manual_seed(3)
    slope_EU = torch.randn(13, 4, generator=generator) @ torch.randn(4, 9, generator=generator)
    least = information(slope_EU).argsort()[:number].tolist()
    after = rearranged(slope_EU, least).tolist()
    assert len(after) == len(set(after)) == number
    found, before = (loss_to_second_order(slope_EU, each) for each in (after, least))
    assert best_of_all(slope_EU, number) - 1e-9 <= found <= before + 1e-9
    if number == 6:
        assert found < 0.5 * before


@pytest.mark.parametrize("pruned", [[], [0, 1, 2]])
def test_nothing_to_rearrange(pruned: list[int]) -> None:
    assert rearranged(torch.eye(3), pruned).tolist() == pruned


def test_two_neurons_that_cancel_are_pruned_together() -> None:
    """Alone, the second would cost most."""
    slope_EU = torch.tensor([[1.0, -1.1, 1.05]])
    assert rearranged(slope_EU, [0, 2]).tolist() == [1, 2]


@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize("budget", [0.9, 0.6])
def test_a_budget_is_met_exactly_and_each_layer_keeps_a_neuron(name: str, budget: float) -> None:
    given = of(name)
    together, savings = Together.of(given), Savings(head=0.03, neuron=0.011)
    plan = together.choose(savings, budget).plan
    paid = together.promised(savings, plan)
    assert paid <= budget < paid + max(savings.head * 2, savings.neuron) + 1e-9
    assert all(kept_neurons(plan, each) for each in given.feed_forwards)


def test_even_layers_keep_equally_many_neurons() -> None:
    given = replace(of("bert"), is_even=True)
    plan = Together.of(given).choose(Savings(head=1e-9, neuron=0.011), 0.7).plan
    assert len({len(kept_neurons(plan, each)) for each in given.feed_forwards}) == 1


def test_what_is_cheap_is_pruned_first() -> None:
    """Where a head saves nothing no head is pruned, and where a neuron does, no neuron is."""
    given = of("bert")
    together, heads = Together.of(given), given.loaded.heads
    neurons = together.choose(Savings(head=0.0, neuron=0.01), 0.8).plan
    assert len(neurons.kept_heads(heads)) == len(heads)
    some = together.choose(Savings(head=0.1, neuron=1e-9), 0.8).plan
    assert len(some.pruned_heads(heads)) >= 2


@torch.no_grad()
@pytest.mark.parametrize("per", ["head", "map"])
def test_neurons_are_compensated(per: Any) -> None:
    """Least squares by hand on what enters the second map; folding is the mean."""
    given = of("bert")
    each, task = given.feed_forwards[1], given.train
    site, layer = each.layer_id
    kept = tuple(range(0, each.num_neurons, 2))
    plan = Plan({}, neurons={site: {layer: kept}})
    sums = output_moments(given.loaded.model, task, given.loaded.anatomy, fed=given.feed_forwards)
    enters = list[torch.Tensor]()
    handle = given.loaded.model.get_submodule(each.output).register_forward_pre_hook(
        lambda _, args: enters.append(args[0])
    )
    rows = list[torch.Tensor]()
    with torch.no_grad():
        for batch in task.batches():
            task.losses(given.loaded.model, batch)
            rows.append(enters.pop()[batch.is_query("encoder.self")])
    handle.remove()
    in_QO = torch.cat(rows)
    down: Any = given.loaded.model.get_submodule(each.output)
    expected = in_QO @ down.weight.T + down.bias
    folded: Any = fold(given.loaded, plan, sums, given.feed_forwards).model
    moved = folded.get_submodule(each.output).bias - down.bias
    gone = [n for n in range(each.num_neurons) if n not in kept]
    by_hand = in_QO[:, gone].mean(0) @ down.weight[:, gone].T
    assert torch.allclose(moved, by_hand, atol=1e-9)
    model: Any = rescale(given.loaded, plan, sums, per, True, given.feed_forwards).model
    new = model.get_submodule(each.output)
    found = in_QO[:, kept] @ new.weight[:, kept].T + new.bias
    design = torch.cat([in_QO[:, kept], torch.ones(len(in_QO), 1).double()], 1)
    best = design @ torch.linalg.lstsq(design, expected).solution
    apart, least = ((each - expected).square().sum() for each in (found, best))
    worst = in_QO[:, kept] @ down.weight[:, kept].T + folded.get_submodule(each.output).bias
    assert apart <= (worst - expected).square().sum()
    if per == "map":
        assert float(apart) == pytest.approx(float(least), rel=1e-2, abs=1e-6)


def test_flops_of_neurons() -> None:
    """The second map of half of the neurons, and half of the first, are half of their FLOPs."""
    given = of("bert")
    model, anatomy = given.loaded.model, given.loaded.anatomy
    flops = model_flops(model, anatomy, 5, given.feed_forwards)
    hidden = model.config.hidden_size
    assert flops.neurons[LayerId("encoder.mlp", 0)] == 2 * 2 * 5 * hidden
    plan = Plan({}, neurons={"encoder.mlp": {1: tuple(range(20))}})
    assert flops.total - flops.of(plan) == 3 * 2 * 2 * 5 * hidden


@pytest.mark.once
def test_a_model_pruned_to_a_size(tmp_path: Path) -> None:
    """From data to folder: heads, neurons, certificate, card."""
    from headcount.artifact import save_pruned

    loaded, task = TASKS["classes-bert"]()
    pruned = prune(loaded, TaskSplits(task, task), keep=BudgetSpec(size=0.9), settings=SETTINGS)
    assert pruned.record.size is not None and pruned.record.size.share <= 0.9
    assert pruned.record.pipeline is not None and pruned.record.pipeline.within_limit == {
        "size": True
    }
    save_pruned(pruned, tmp_path / "small")
    record = PruneRecord.read(tmp_path / "small")
    assert [each.site for each in record.neurons] == ["encoder.mlp"] * len(record.neurons)
    total = sum(each.total for each in record.neurons)
    kept = sum(each.kept for each in record.neurons)
    assert kept < total
    card = (tmp_path / "small/README.md").read_text()
    assert f"and {kept:,} of {total:,} neurons kept" in card
    assert Plan.read(tmp_path / "small/plan.json").neurons == pruned.plan.neurons


def test_what_is_refused() -> None:
    given = replace(context("classes-bert"), feed_forwards=())
    fed = tuple(feed_forwards(given.loaded.model, given.loaded.anatomy))
    given = replace(given, feed_forwards=fed)
    with pytest.raises(InputError, match="Expected --speedup or --size, to prune neurons"):
        Costs(BudgetSpec(keep=3), given, given.train).together()
    with pytest.raises(InputError, match="with one neuron a layer and no head that can be pruned"):
        Costs(BudgetSpec(size=0.01), given, given.train).together()


def test_a_model_whose_neurons_can_t_be_told_apart() -> None:
    model, _ = examined_double("albert")
    loaded = Loaded(model, None, "albert")
    with pytest.raises(ModelError, match="layers share the feed-forward network"):
        SETTINGS.context(loaded, TinyTask(model))


@pytest.mark.once
def test_a_killed_pruning_resumes_with_the_same_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times differ each time, so that a choice made again would be another one."""
    given = replace(context("classes-bert", tmp_path), feed_forwards=())
    fed = tuple(feed_forwards(given.loaded.model, given.loaded.anatomy))
    costs = Costs(BudgetSpec(size=0.9), replace(given, feed_forwards=fed), given.train)
    first = costs.together()
    monkeypatch.setattr(Together, "of", lambda context: pytest.fail("made again"))
    again = costs.together()
    assert again.selection.plan == first.selection.plan and again.keep == first.keep
    assert again.selection.scores == first.selection.scores
