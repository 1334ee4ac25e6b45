"""Folding and rescaling equal what hooks and lstsq do by hand, and never fit the data worse."""

import copy
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.compaction import compact
from headcount.core import Head, InputError, LayerId, ModelError, Plan
from headcount.gates import Fixed
from headcount.importance.ablations import mean
from headcount.models import Loaded
from headcount.pruning import (
    Compensation,
    PruneSettings,
    PruningContext,
    Selection,
    Subset,
    Units,
    prune,
)
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.compensation import control, race, race_passes, recover, rounds, run_stages
from headcount.pruning.reconstruction import OutputMoments, fold, output_moments, rescale
from headcount.results import Calibration
from headcount.tap import Tap
from headcount.tasks import TaskBatch, TaskSplits, evaluate
from headcount.training import FinetuneConfig, TrainingRun, finetune
from tests.examined import examined_double
from tests.tasks import loaded as small
from tests.tasks.tiny_task import TinyTask

NAMES = ["bert", "gpt2", "llama", "marian"]


def made(name: str) -> tuple[Loaded, TinyTask, Plan]:
    """A model, data, and a plan that prunes some heads and all heads of one layer."""
    model, anatomy = examined_double(name)
    loaded = Loaded(model, None, name)
    vars(loaded)["anatomy"] = anatomy
    site = anatomy.layers[-1].site
    gone = [head for head in anatomy.heads if head.index == 1 or head.index == head.layer + 2]
    last = [head for head in anatomy.heads if head.layer_id == (site, 1)]
    stay = set(anatomy.heads) - set(gone) - set(last)
    task = TinyTask(model)
    task.sha256 = "tiny"
    return loaded, task, Plan.keeping(anatomy.heads, stay)


def summed(loaded: Loaded, task: TinyTask) -> dict[LayerId, OutputMoments]:
    return output_moments(loaded.model, task, loaded.anatomy)


def outputs(model: PreTrainedModel, path: str, task: TinyTask, site: str) -> tuple[Tensor, Tensor]:
    """Inputs and outputs of a projection, for every query except padding."""
    into: list[Tensor] = []
    out: list[Tensor] = []
    batch = cast(TaskBatch, None)

    def hear(module: Any, args: Any, output: Any) -> None:
        is_query = batch.is_query(site)
        into.append(args[0].reshape(*is_query.shape, -1)[is_query])
        out.append(output.reshape(*is_query.shape, -1)[is_query])

    handle = model.get_submodule(path).register_forward_hook(hear)
    with torch.no_grad():
        for batch in task.batches():
            task.losses(model, batch)
    handle.remove()
    return torch.cat(into), torch.cat(out)


@pytest.mark.parametrize("name", [*NAMES, "vit"])
def test_folding_is_the_mean_in_place_of_the_head(name: str) -> None:
    loaded, task, plan = made(name)
    folded = fold(loaded, plan, summed(loaded, task))
    stand_in = mean(loaded.model, task, loaded.anatomy)
    gates = plan.gates(loaded.heads)
    for batch in task.batches():
        with torch.no_grad():
            with Tap(loaded.model, loaded.anatomy, gates=gates, replacement=stand_in):
                expected = task.losses(loaded.model, batch).loss_E
            with Tap(folded.model, loaded.anatomy, gates=gates):
                found = task.losses(folded.model, batch).loss_E
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-9)


@pytest.mark.once
@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("per", ["head", "dimension", "map"])
def test_rescaling_is_the_least_squares_of_every_layer(per: Any, fold: bool) -> None:
    """Fitting the outputs themselves with lstsq is no better."""
    loaded, task, plan = made("marian")
    model = rescale(loaded, plan, summed(loaded, task), per, fold).model
    for layer in loaded.anatomy.layers:
        assert layer.output is not None
        into_QO, out_QM = outputs(loaded.model, layer.output, task, layer.site)
        old, new = (
            cast(torch.nn.Linear, each.get_submodule(layer.output))
            for each in (loaded.model, model)
        )
        kept = plan.of_layer(loaded.heads, layer.site, layer.layer)
        stays = torch.zeros(layer.num_heads)
        stays[list(kept)] = 1
        kept_O = stays.repeat_interleave(layer.head_dim).double()
        found_QM = (into_QO * kept_O) @ new.weight.T + new.bias
        target_QM = out_QM - old.bias
        best_QM = best_fit(into_QO * kept_O, old.weight.T, target_QM, layer.head_dim, per, fold)
        errors = [(each - out_QM).square().sum().item() for each in (found_QM, best_QM + old.bias)]
        # A ridge keeps a map of few queries small.
        assert errors[0] == pytest.approx(errors[1], rel=0.1 if per == "map" else 2e-3, abs=1e-3)


@pytest.mark.parametrize("how", [partial(rescale, per="map"), fold])
def test_only_what_changes_is_held_twice(how: Any) -> None:
    """All other weights are those of the given model, which stays as it was."""
    loaded, task, plan = made("marian")
    before = {name: each.clone() for name, each in loaded.model.state_dict().items()}
    new = dict(how(loaded, plan, summed(loaded, task)).model.named_parameters())
    written = {
        each.output
        for each in loaded.anatomy.layers
        if len(plan.of_layer(loaded.heads, each.site, each.layer)) < each.num_heads
    }
    for name, old in loaded.model.named_parameters():
        is_written = name.rpartition(".")[0] in written
        assert (old is new[name]) is not is_written, name
        torch.testing.assert_close(old.data, before[name], rtol=0, atol=0)


def best_fit(
    into_QO: Tensor, weight_OM: Tensor, target_QM: Tensor, head_dim: int, per: str, fold: bool
) -> Tensor:
    """The closest fit to the target by scales or a map, with an optional constant."""
    num_queries, num_outputs = target_QM.shape
    if per == "map":
        columns = torch.cat([into_QO, torch.ones(num_queries, int(fold)).double()], 1)
        return columns @ torch.linalg.lstsq(columns, target_QM, driver="gelsd").solution
    columns_QMC = torch.einsum("qo,om->qmo", into_QO, weight_OM)
    if per == "head":
        columns_QMC = columns_QMC.unflatten(2, (-1, head_dim)).sum(3)
    if fold:  # a separate constant for every output
        ones_QMM = torch.eye(num_outputs).double().expand(num_queries, -1, -1)
        columns_QMC = torch.cat([columns_QMC, ones_QMM], 2)
    columns, target = columns_QMC.flatten(0, 1), target_QM.flatten()[:, None]
    return (columns @ torch.linalg.lstsq(columns, target, driver="gelsd").solution).view_as(
        target_QM
    )


def test_a_model_without_heads_has_nothing_to_mend() -> None:
    """A model that has already lost every head needs no compensation."""
    loaded, task = small.TASKS["classes-bert"]()
    none = Plan.keeping(loaded.heads, [])
    empty = Loaded(compact(loaded, none), loaded.tokenizer, "empty")
    selection = Selection(Plan.keeping(empty.heads, []), empty)
    given = PruningContext(empty, task, Units.of(empty.anatomy))
    assert run_stages(selection, Compensation(), given, task).facts.calibration == Calibration(
        task.sha256, task.num_examples, 0
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_gone_changes_nothing_and_the_callers_model_stays(name: str) -> None:
    loaded, task, plan = made(name)
    before = copy.deepcopy(loaded.model.state_dict())
    dense = Plan.keeping(loaded.heads, loaded.heads)
    sums, loss = summed(loaded, task), evaluate(loaded.model, task).loss
    for compensated in (fold(loaded, dense, sums), rescale(loaded, dense, sums)):
        assert evaluate(compensated.model, task).loss == pytest.approx(loss, abs=1e-9)
    rescale(loaded, plan, sums)
    after = loaded.model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_projection_gets_a_bias_where_it_has_none() -> None:
    loaded, task, plan = made("llama")
    path = loaded.anatomy.layers[0].output
    assert path is not None and loaded.model.get_submodule(path).bias is None
    bias = fold(loaded, plan, summed(loaded, task)).model.get_submodule(path).bias
    assert isinstance(bias, torch.nn.Parameter) and (bias != 0).all()


def test_shared_layers_are_refused() -> None:
    model, anatomy = examined_double("albert")
    loaded = Loaded(model, None, "albert")
    vars(loaded)["anatomy"] = anatomy
    with pytest.raises(InputError, match="layers with weights of their own, .* 3 layers at once"):
        output_moments(model, TinyTask(model), anatomy)


def test_moments_are_those_of_the_examples_drawn() -> None:
    """Compensation uses the given number of examples, drawn by the seed."""
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1, calibration=5)
    facts = run_stages(Selection(plan, loaded), Compensation(), context, task).facts
    index_N = np.random.default_rng(1).choice(task.num_examples, 5, replace=False)
    lengths = [task.batch(np.array([index])).inputs["attention_mask"].sum() for index in index_N]
    assert facts.calibration == Calibration(task.sha256, 5, sum(map(int, lengths)))


@pytest.mark.parametrize(
    ("stages", "names"),
    [
        (Compensation(rescale=False), ["folding"]),
        (
            Compensation(fold=False),
            ["rescaling by head", "rescaling by dimension", "rescaling by map"],
        ),
        (Compensation(fold=False, rescale=False), []),
    ],
)
def test_stages_that_are_switched_off(stages: Compensation, names: list[str]) -> None:
    """Stages that are off are neither tried nor kept; the best one tried is kept."""
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    done = run_stages(Selection(plan, loaded), stages, context, task)
    assert sorted(gain.stage for gain in done.results) == sorted(names)
    losses = [evaluate_gated(loaded, plan, task).loss, *(gain.after for gain in done.results)]
    assert evaluate_gated(done.loaded, plan, task).loss == pytest.approx(min(losses), rel=1e-6)


def test_folding_and_rescaling_resume_way_by_way(tmp_path: Path) -> None:
    """The state names each way; a way whose loss is known is not measured again."""
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1, state=tmp_path)
    measured = list[str]()

    def report(stage: str, done: int, total: int) -> None:
        measured.extend([stage] if stage == "gated model on dev" and done == 0 else [])

    def killed(stage: str, done: int, total: int) -> None:
        report(stage, done, total)
        if stage == "folding and rescaling" and done == 4:
            raise KeyboardInterrupt

    given = Selection(plan, loaded), Compensation()
    with pytest.raises(KeyboardInterrupt):
        run_stages(*given, replace(context, progress=killed), task)
    assert len(measured) == 4, "no compensation, folding, and two ways of rescaling"
    state = (tmp_path / "compensation.json").read_text(encoding="utf-8")
    assert '"no compensation"' in state and '"rescaling by head, folding"' in state
    resumed = run_stages(*given, replace(context, progress=report), task)
    unbroken = run_stages(*given, replace(context, state=None), task)
    assert len(measured) == 8 and resumed.results == unbroken.results
    whole = unbroken.loaded.model.state_dict()
    ours = resumed.loaded.model.state_dict()
    assert all(torch.equal(ours[name], each) for name, each in whole.items())
    again = run_stages(*given, replace(context, progress=report), task)
    assert len(measured) == 8 and again.results == resumed.results


def test_the_rounds_of_a_race_hold_each_example_once() -> None:
    """A small development set is not divided."""
    _, task = small.TASKS["classes-bert"]()
    assert rounds(task) == [task]
    many = task.some(np.arange(80) % task.num_examples)
    parts = rounds(many, seed=3)
    assert [each.num_examples for each in parts] == [10, 10, 20, 40]
    assert race_passes(Compensation(), many) == 8 / 8 + 5 / 8 + 3 / 4 + 2 / 2, "of eight"
    ids = [each.batch(np.arange(each.num_examples)).inputs["input_ids"] for each in (many, *parts)]
    whole, *drawn = (sorted(map(str, each[:, :3].tolist())) for each in ids)
    assert sorted(sum(drawn, [])) == whole
    assert [each.sha256 for each in parts] != [each.sha256 for each in rounds(many, seed=4)]


def test_the_better_half_of_the_ways_goes_on() -> None:
    """Losses of a fifth of the terms that a round adds are lower for a better way."""
    asked, steps = list[tuple[str, int]](), list[tuple[int, int]]()
    worth = {"no compensation": 1.0, "a": 0.9, "b": 0.7, "c": 1.3, "d": 0.8, "e": math.inf}
    task = small.TASKS["classes-bert"]()[1]
    parts = rounds(task.some(np.arange(80) % task.num_examples))

    def measure(name: str, number: int) -> tuple[float, float]:
        asked.append((name, number))
        size = parts[number].num_examples
        return worth[name] * size, size

    found = race([*"abcde"], parts, measure, lambda *step: steps.append(step))
    assert [name for name, number in asked if number == 0] == ["no compensation", *"abcde"]
    assert {name for name, number in asked if number == 1} == {"no compensation", *"bda"}
    assert {name for name, number in asked if number == 2} == {"no compensation", *"bd"}
    assert {name for name, number in asked if number == 3} == {"no compensation", "b"}
    assert [each.stage for each in found] == [*"abcde"]
    assert {each.stage: each.examples for each in found} == (
        {"a": 20, "b": None, "c": 10, "d": 40, "e": 10}
    )
    assert [each.stage for each in found if each.kept] == ["b"]
    assert found[1].verdict == "kept" and found[2].verdict == "not kept, on 10 examples"
    assert all(each.before == pytest.approx(1) for each in found)
    assert found[0].after == pytest.approx(0.9) and math.isinf(found[4].after)
    assert steps[0] == (0, 15) and steps[-1] == (15, 15) and len(asked) == 15
    worth |= dict.fromkeys("abd", 1.1)
    assert not any(each.kept for each in race([*"abcde"], parts, measure, lambda *_: None))


def test_a_refusal_says_at_which_stage_it_arose(tmp_path: Path) -> None:
    loaded, task = small.TASKS["classes-bert"]()
    stages = list[str]()

    def refused(stage: str, done: int, total: int) -> None:
        stages.append(stage)
        if stage == "cut":
            raise ModelError("Expected another model.")

    settings = PruneSettings(state=tmp_path, progress=refused)
    with pytest.raises(
        ModelError,
        match=r"Expected another model\. prune stopped at its stage 'cut'\. Finished stages are in",
    ):
        prune(loaded, TaskSplits(task, task), "norm", 4, settings=settings)
    assert "folding and rescaling" in stages


@pytest.mark.slow
@pytest.mark.parametrize(("peak", "gains"), [(3e-3, True), (0.3, False)])
def test_recovery_is_kept_where_it_gains(peak: float, gains: bool) -> None:
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    recovery = FinetuneConfig(updates=12, batch_tokens=100, peak=peak, warmup=2)
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    stages = Compensation(fold=False, rescale=False, recovery=recovery)
    done = run_stages(Selection(plan, loaded), stages, context, task)
    (gain,) = done.results
    assert gain.kept == gains == (gain.after < gain.before)
    loss = evaluate_gated(done.loaded, plan, task).loss
    assert loss == pytest.approx(min(gain.before, gain.after), rel=1e-6)


@pytest.mark.slow
def test_a_recovery_resumes_with_batches_of_another_size(tmp_path: Path) -> None:
    """A resumed start may differ in the last bits; another compensation is refused."""
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    recovery = FinetuneConfig(updates=4, batch_tokens=100, peak=3e-3, warmup=2, save_every=2)
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1, state=tmp_path)
    stages = Compensation(rescale=False, recovery=recovery)
    first, again = (
        run_stages(Selection(plan, loaded), stages, replace(context, max_tokens=each), task)
        for each in (4096, 16)
    )
    assert first.results[-1].after == pytest.approx(again.results[-1].after)
    record = json.loads((tmp_path / "recovery" / "training.json").read_text())
    assert record["compensated by"] == next(gain.stage for gain in first.results if gain.kept)
    fewer = replace(context, calibration=3)
    with pytest.raises(InputError, match="compensation.json belongs to the run"):
        run_stages(Selection(plan, loaded), stages, fewer, task)
    stages = Compensation(fold=False, recovery=recovery)
    with pytest.raises(
        InputError, match="was begun with compensated by .*, and this command has resc"
    ):
        run_stages(Selection(plan, loaded), stages, context, task)


def test_where_only_gates_learned_there_is_no_control() -> None:
    loaded, task = small.TASKS["classes-bert"]()
    context = PruningContext(loaded, task, Units.of(loaded.anatomy))
    tuning = FinetuneConfig(updates=2, batch_tokens=100)
    gates = Subset(replace(tuning, trained="gates"))
    assert control(Compensation(), gates, context, task) is None
    made = control(Compensation(recovery=tuning), gates, context, task)
    assert made is not None and [each.settings["updates"] for each in made[1]] == [2]


@pytest.mark.slow
@pytest.mark.parametrize("peak", [3e-3, 0.3])
def test_a_control_is_trained_in_the_same_ways(peak: float) -> None:
    """One training after another, each like the pruned model's; the second only if it gains."""
    loaded, task = small.TASKS["classes-bert"]()
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    first = FinetuneConfig(
        updates=3, batch_tokens=60, peak=1e-3, warmup=0, distilled=0.5, layerwise=2.0
    )
    second = FinetuneConfig(updates=12, batch_tokens=100, peak=peak, warmup=2)
    made = control(Compensation(recovery=second), Subset(first), context, task)
    assert made is not None
    once = finetune(
        loaded, task, replace(first, distilled=0.0, layerwise=0.0), run=TrainingRun(1)
    ).loaded
    twice = finetune(once, task, second, run=TrainingRun(1)).loaded
    losses = [evaluate(each.model, task).loss for each in (once, twice)]
    gains = losses[1] < losses[0]
    assert gains == (peak < 0.1), losses
    assert evaluate(made[0].model, task).loss == pytest.approx(min(losses), rel=1e-6)
    assert [each.kept for each in made[1]] == [True, gains]


@pytest.mark.slow
def test_a_control_can_have_the_pruned_model_s_teacher() -> None:
    """The dense model before any training; gates are no part of it."""
    loaded, task = small.TASKS["classes-bert"]()
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    first = FinetuneConfig(
        updates=3, batch_tokens=60, peak=1e-3, warmup=0, distilled=0.5, layerwise=2.0, gate_rate=0.3
    )
    second = replace(first, peak=3e-3, layerwise=0.0, gate_rate=FinetuneConfig.gate_rate)
    stages = Compensation(recovery=second, control_taught=True)
    made = control(stages, Subset(first), context, task)
    plain = control(replace(stages, control_taught=False), Subset(first), context, task)
    assert made is not None and plain is not None
    settings = replace(first, gate_rate=FinetuneConfig.gate_rate)
    once = finetune(loaded, task, settings, teacher=loaded, run=TrainingRun(1)).loaded
    twice = finetune(once, task, second, teacher=loaded, run=TrainingRun(1)).loaded
    losses = [evaluate(each.model, task).loss for each in (once, twice)]
    found = evaluate(made[0].model, task).loss
    assert found == pytest.approx(min(losses), rel=1e-6)
    assert found != pytest.approx(evaluate(plain[0].model, task).loss, rel=1e-6)
    assert [each.lacks_teacher for each in made[1]] == [False, False]
    assert [each.lacks_teacher for each in plain[1]] == [True, True]


@pytest.mark.parametrize(
    ("stages", "choice"),
    [
        (Compensation(control_taught=True), None),
        (Compensation(recovery=FinetuneConfig(), control_taught=True), None),
        (Compensation(control_taught=True), FinetuneConfig(distilled=0.5, trained="gates")),
        (
            Compensation(
                recovery=FinetuneConfig(distilled=0.5), control=False, control_taught=True
            ),
            None,
        ),
    ],
)
def test_a_taught_control_needs_a_teacher(
    stages: Compensation, choice: FinetuneConfig | None
) -> None:
    with pytest.raises(InputError, match="a control and a training with a teacher"):
        stages.check_control(choice)


@pytest.mark.slow
def test_a_control_learns_where_the_pruned_model_does() -> None:
    loaded, task = small.TASKS["translation-Marian"]()
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    tuning = FinetuneConfig(updates=2, batch_tokens=60, peak=1e-2, warmup=0, trained="encoder")
    made = control(Compensation(), Subset(tuning), context, task)
    assert made is not None and made[1][0].settings["trained"] == "encoder"
    learned = made[0].model.state_dict()
    changed = {
        name.split(".")[1]
        for name, weight in loaded.model.state_dict().items()
        if not torch.equal(weight, learned[name])
    }
    assert changed == {"encoder"}


def embeddings(loaded: Loaded) -> Tensor:
    weight = loaded.model.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight.detach()


def test_recovery_gains_and_keeps_to_the_plan() -> None:
    """The pruned heads may hold anything afterwards."""
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    tuning = FinetuneConfig(updates=12, batch_tokens=100, peak=3e-3, warmup=2, distilled=0.5)
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    compensated = recover(context, loaded, plan, tuning)
    before, after = (evaluate_gated(each, plan, task).loss for each in (loaded, compensated.loaded))
    assert after < before != evaluate(loaded.model, task).loss and len(compensated.history) == 12
    assert compensated.loaded.heads.counts == loaded.heads.counts
    assert (embeddings(compensated.loaded) - embeddings(loaded)).abs().max() < 0.1


def form(state: Path) -> str:
    """The model that a recovery trained."""
    return json.loads((state / "training.json").read_text())["form"]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize(
    "name", ["classes-bert", pytest.param("translation-Marian", marks=pytest.mark.slow)]
)
def test_a_compact_model_recovers_as_the_gated_one_does(
    name: str, optimizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kept weights are the same, also with a layer without heads."""
    # Newton and Schulz's iterations in float32: in bfloat16 they depend on a map's orientation.
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    loaded, task = small.TASKS[name]()
    stay = [head for head in loaded.heads if head.layer != 1 and head.index != 1]
    plan = Plan.keeping(loaded.heads, stay)
    tuning = FinetuneConfig(
        updates=6,
        batch_tokens=100,
        peak=3e-3,
        warmup=2,
        distilled=0.5,
        layerwise=1.0,
        optimizer=optimizer,
        trained="encoder",
        dropout=0.0,
    )
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1, state=tmp_path)
    found = recover(context, loaded, plan, tuning)
    assert form(tmp_path) == "compact"
    gates = Fixed(plan.gates(loaded.heads))
    expected = finetune(loaded, task, tuning, gates=gates, teacher=loaded.model, run=TrainingRun(1))
    ours, theirs = (
        compact(each.loaded, replace(plan, model=None)).state_dict() for each in (found, expected)
    )
    for key, tensor in theirs.items():
        if not key.endswith(
            ("k_proj.bias", "key.bias")
        ):  # their gradients are only rounding errors
            torch.testing.assert_close(ours[key], tensor, rtol=1e-3, atol=1e-5, msg=key)
    assert found.history[-1]["loss"] == pytest.approx(expected.history[-1]["loss"], rel=1e-4)


@pytest.mark.slow
def test_a_compact_recovery_resumes(tmp_path: Path) -> None:
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    tuning = FinetuneConfig(updates=5, batch_tokens=100, peak=3e-3, warmup=2, save_every=2)
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1, state=tmp_path)

    def killed(stage: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recover(replace(context, progress=killed), loaded, plan, tuning)
    steps: dict[str, list[int]] = {}

    def report(stage: str, done: int, total: int) -> None:
        steps.setdefault(stage, []).append(done)

    reported = replace(context, progress=report)
    resumed = recover(reported, loaded, plan, tuning).loaded.model.state_dict()
    assert steps["recovery"] == [0, 3, 4, 5], "and not from the start"
    unbroken = recover(replace(context, state=None), loaded, plan, tuning).loaded.model.state_dict()
    assert all(torch.equal(resumed[key], tensor) for key, tensor in unbroken.items())


@pytest.mark.slow
def test_where_no_compact_model_can_be_given_back_the_gated_one_recovers(tmp_path: Path) -> None:
    """T5's layers share a table of position biases."""
    loaded, task = small.TASKS["translation-T5ForC"]()
    plan = Plan.keeping(loaded.heads, [head for head in loaded.heads if head.index])
    context = PruningContext(loaded, task, Units.of(loaded.anatomy), state=tmp_path)
    recover(context, loaded, plan, FinetuneConfig(updates=1, batch_tokens=100, warmup=0))
    assert form(tmp_path) == "gated"
