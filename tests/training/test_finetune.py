"""Fine-tuning: every task learns, in a copy; it resumes exactly; parts can be frozen."""

import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headcount.core import InputError, ModelError
from headcount.gates import BudgetConstraint, HardConcrete, Layout, Quota
from headcount.models import Loaded, load
from headcount.tasks import IGNORED, Classification, Task, TaskBatch, evaluate
from headcount.testing import leaving_no_trace
from headcount.training import (
    FinetuneConfig,
    TrainingProgress,
    TrainingRun,
    check_finetuning,
    finetune,
)
from headcount.training.batches_trainer import Batches
from headcount.training.distillation import DistillationLoss
from headcount.training.finetuning import check_gpu
from tests import tiny
from tests.forked import Forked
from tests.tasks import loaded as small

QUICK = FinetuneConfig(updates=13, batch_tokens=100, peak=3e-3, warmup=2, save_every=4)
TASKS = ("translation-M2M100", "causal-gpt2", "masked-bert", "classes-of-pairs", "similarity-cls")


class Stop(Exception):
    """An error that stands for an interrupted training."""


def stop_at(step: int):
    def tell(moment: TrainingProgress) -> None:
        if moment.step >= step:
            raise Stop

    return tell


def gates_for(loaded, keep: int = 4) -> HardConcrete:
    layout = Layout.each(loaded.heads)
    return HardConcrete(layout, BudgetConstraint(layout, [Quota(None, keep)]), seed=2)


def test_masks_are_new_in_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, task = small.TASKS["masked-bert"]()
    seen: dict[int, set[tuple[int, ...]]] = {}
    forward = DistillationLoss.forward

    def recorded(self: DistillationLoss, batch: TaskBatch) -> dict[str, Any]:
        for index, row in zip(batch.index_E.tolist(), batch.labels["labels"], strict=True):
            seen.setdefault(index, set()).add(tuple((row != IGNORED).nonzero().flatten().tolist()))
        return forward(self, batch)

    monkeypatch.setattr(DistillationLoss, "forward", recorded)
    finetune(loaded, task, replace(QUICK, updates=6, batch_tokens=10**4))
    assert len(seen) == task.num_examples
    assert sum(len(masks) > 1 for masks in seen.values()) > task.num_examples / 2


def test_nothing_is_left_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded, task = small.TASKS["similarity-bert"]()
    finetune(loaded, task, replace(QUICK, updates=1))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_every_task_learns_in_a_copy(name: str) -> None:
    loaded, task = small.TASKS[name]()
    with leaving_no_trace(loaded.model, tiny.inputs(loaded.model)):
        tuned = finetune(loaded, task, replace(QUICK, batch_tokens=400))
    before, after = (evaluate(model, task).loss for model in (loaded.model, tuned.loaded.model))
    assert after < 0.98 * before
    assert [row["step"] for row in tuned.history] == list(range(1, 14))
    assert not tuned.loaded.model.training
    assert all(each.requires_grad for each in tuned.loaded.model.parameters()) or "M2M" in name


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_student_comes_nearer_to_its_teacher(name: str) -> None:
    """With distillation alone, a damaged copy answers more like the dense model again."""
    loaded, task = small.TASKS[name]()
    damage = replace(QUICK, batch_tokens=400, updates=6, peak=0.02)
    worse = finetune(loaded, task, damage).loaded
    for module in worse.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    temperature = 1.0 if name.startswith("similarity") else 2.0
    tuning = replace(QUICK, batch_tokens=400, distilled=1.0, temperature=temperature)
    tuned = finetune(worse, task, tuning, teacher=loaded.model).loaded
    (batch,) = task.batches(10**6)
    before, after = (
        DistillationLoss(each.model, task, tuning, loaded.model)(batch)["loss"].item()
        for each in (worse, tuned)
    )
    assert after < 0.8 * before


def test_a_finished_fine_tuning_leaves_weights_only(tmp_path: Path) -> None:
    """The optimizer's state is twice as large, and a curve has a state per budget."""
    loaded, task = small.TASKS["classes-bert"]()
    first = finetune(loaded, task, QUICK, run=TrainingRun(3, tmp_path))
    (last,) = (tmp_path / "checkpoints").iterdir()
    names = {path.name for path in last.iterdir()}
    assert "model.safetensors" in names
    assert not [name for name in names if name.startswith(("optimizer", "scheduler", "rng_state"))]
    again = finetune(loaded, task, QUICK, run=TrainingRun(3, tmp_path))
    for name, weight in first.loaded.model.state_dict().items():
        assert torch.equal(weight, again.loaded.model.state_dict()[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_resumed_is_unbroken(optimizer: str, tmp_path: Path) -> None:
    """With gates, weights, gates, noise and history equal an uninterrupted fine-tuning's."""
    loaded, task = small.TASKS["classes-bert"]()
    quick = replace(QUICK, optimizer=optimizer)
    whole_gates, gates = gates_for(loaded), gates_for(loaded)
    whole = finetune(loaded, task, quick, gates=whole_gates, run=TrainingRun(3))
    state = tmp_path / "state"
    with pytest.raises(Stop):
        finetune(loaded, task, quick, gates=gates, run=TrainingRun(3, state, tell=stop_at(6)))
    gates, steps = gates_for(loaded), []
    run = TrainingRun(3, state, tell=lambda m: steps.append(m.step))
    resumed = finetune(loaded, task, quick, gates=gates, run=run)
    assert min(steps) == 5, "and not from the start"
    for name, weight in whole.loaded.model.state_dict().items():
        assert torch.equal(weight, resumed.loaded.model.state_dict()[name]), name
    assert torch.equal(gates.log_a, whole_gates.log_a)
    numbers = [[row["loss"] for row in each.history] for each in (whole, resumed)]
    assert numbers[0] == numbers[1]
    again, gates = gates_for(loaded), gates_for(loaded)
    done = finetune(loaded, task, quick, gates=again, run=TrainingRun(3, state, tell=stop_at(0)))
    assert torch.equal(again.log_a, whole_gates.log_a) and done.history == resumed.history
    with pytest.raises(InputError, match="was begun with seed 3, and this command has 4"):
        finetune(loaded, task, quick, gates=gates, run=TrainingRun(4, state))


def test_the_optimizer_is_the_one_asked_for() -> None:
    """Muon's first step moves a matrix equally in all directions, AdamW's in all entries."""
    loaded, task = small.TASKS["classes-bert"]()
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    before = loaded.model.state_dict()[name]
    spread = {}
    for optimizer in ("adamw", "muon"):
        tuning = replace(QUICK, updates=1, warmup=0, optimizer=optimizer)
        step = finetune(loaded, task, tuning).loaded.model.state_dict()[name] - before
        spread[optimizer] = (step.abs().std() / step.abs().mean()).item()
    assert spread["adamw"] < 0.3 < spread["muon"], spread


def of_folder(folder: Path) -> tuple[Loaded, Task]:
    loaded = load(folder)
    return loaded, Classification(loaded, small.CLASSES)


KILLED = """
import sys, time
from pathlib import Path
from headcount.training import TrainingRun, finetune
from tests.training.test_finetune import QUICK, of_folder
loaded, task = of_folder(Path(sys.argv[1]))
run = TrainingRun(3, Path(sys.argv[2]), tell=lambda m: time.sleep(0.2))
finetune(loaded, task, QUICK, run=run)
"""


@pytest.mark.slow
def test_a_killed_fine_tuning_resumes(tmp_path: Path) -> None:
    state, folder = tmp_path / "state", tmp_path / "model"
    made = small.TASKS["classes-bert"]()[0]
    assert made.tokenizer is not None
    made.model.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    # One thread, as here: two threads change the last bit of sums
    process = Forked("-c", KILLED, folder, state)
    end = time.monotonic() + 300
    while not (state / "checkpoints" / "checkpoint-4" / "whole").exists():
        assert time.monotonic() < end and process.returncode is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    loaded, task = of_folder(folder)
    whole, resumed = (
        finetune(loaded, task, QUICK, run=TrainingRun(3, each)) for each in (None, state)
    )
    for name, weight in whole.loaded.model.state_dict().items():
        assert torch.equal(weight, resumed.loaded.model.state_dict()[name]), name


@pytest.mark.once
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_what_is_frozen_stays(optimizer: str) -> None:
    loaded, task = small.TASKS["translation-M2M100"]()
    quick = replace(QUICK, updates=2, optimizer=optimizer)
    stock = loaded.model.state_dict()

    def moved(trained: str, gates: HardConcrete | None) -> set[str]:
        tuned = finetune(loaded, task, replace(quick, trained=trained), gates=gates)  # type: ignore[arg-type]
        state = tuned.loaded.model.state_dict()
        assert state.keys() == stock.keys()
        return {name for name, each in state.items() if not torch.equal(each, stock[name])}

    gates = gates_for(loaded)
    before = gates.log_a.detach().clone()
    assert moved("gates", gates) == set() and not torch.equal(gates.log_a, before)
    encoder = moved("encoder", None)
    assert encoder and all("encoder." in name and "decoder." not in name for name in encoder)
    assert not any("embed" in name or "shared" in name for name in encoder), "the decoder's too"
    assert any("decoder." in name for name in moved("all", None))
    with pytest.raises(InputError, match="Expected gates to train, got none"):
        moved("gates", None)


@pytest.mark.once
@pytest.mark.parametrize("name", ["translation-M2M100", "classes-bart", "causal-llama"])
def test_a_step_over_several_batches_is_a_mean_of_all_that_is_predicted(name: str) -> None:
    """The mean is not of the batches' means: a small batch counts less."""
    loaded, task = small.TASKS[name]()
    tuning = replace(QUICK, updates=1, batch_tokens=60, dropout=0.0)
    batches = Batches(task.length_N[:, None], tuning.batch_tokens, 1, seed=0).per_epoch
    assert batches > 1
    (row, *_) = finetune(loaded, task, replace(tuning, accumulate=batches)).history
    each = [task.losses(loaded.model, batch) for batch in task.batches(tuning.batch_tokens)]
    of_means = sum((one.loss_E.sum() / one.count_E.sum()).item() for one in each) / len(each)
    expected = evaluate(loaded.model, task).loss
    assert abs(row["loss"] - expected) < 0.05 * abs(of_means - expected)
    assert abs(of_means - expected) > 1e-4 * expected


def test_of_an_encoder_alone_everything_is_the_encoder() -> None:
    loaded, task = small.TASKS["similarity-bert"]()
    whole, encoder = (
        finetune(loaded, task, replace(QUICK, updates=2, trained=trained)).loaded.model.state_dict()
        for trained in ("all", "encoder")
    )
    assert all(torch.equal(each, encoder[name]) for name, each in whole.items())
    stock = loaded.model.state_dict()["embeddings.word_embeddings.weight"]
    assert not torch.equal(encoder["embeddings.word_embeddings.weight"], stock)


def test_a_gpu_that_the_trainer_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, task = small.TASKS["similarity-bert"]()
    elsewhere = property(lambda self: torch.device("cuda", 1))
    with monkeypatch.context() as patch:
        patch.setattr(type(loaded.model), "device", elsewhere)
        with pytest.raises(InputError, match="Expected GPU 0, .* got cuda:1"):
            check_finetuning(loaded, task, QUICK)
    with pytest.raises(InputError, match="Expected GPU 0, .* got cuda:1. Give --device cuda"):
        check_gpu(torch.device("cuda", 1))
    check_gpu(torch.device("cuda", 0))
    check_gpu(torch.device("cpu"))


def test_refusals() -> None:
    loaded, task = small.TASKS["similarity-bert"]()
    with pytest.raises(InputError, match="similarity has no answers to smooth"):
        finetune(loaded, task, replace(QUICK, label_smoothing=0.1))
    for distilled in (0.0, 0.5):
        with pytest.raises(
            InputError, match="Expected logits to distil with the temperature, got none"
        ):
            finetune(loaded, task, replace(QUICK, temperature=2.0, distilled=distilled))
    with pytest.raises(InputError, match="Expected a teacher"):
        finetune(loaded, task, replace(QUICK, distilled=0.5))
    llama, texts = small.TASKS["causal-llama"]()
    with pytest.raises(
        InputError, match="an encoder to train, got LlamaForCausalLM, which has none"
    ):
        finetune(llama, texts, replace(QUICK, trained="encoder"))
    with pytest.raises(InputError, match="Expected a finite number above 0 for peak, got 0"):
        replace(QUICK, peak=0.0)
    with pytest.raises(InputError, match="above 0 for peak, got -0.1"):
        replace(QUICK, peak=-0.1)
    with pytest.raises(ModelError, match="Expected a finite training loss, got"):
        finetune(loaded, task, replace(QUICK, peak=1e30, warmup=0, clip=1e30))


def test_teachers_of_another_shape() -> None:
    loaded, task = small.TASKS["masked-bert"]()
    wider = small.loaded("BertForMaskedLM", vocab_size=loaded.model.config.vocab_size + 8)
    with pytest.raises(
        ModelError, match="Expected answers of the same shape as the teacher's to dis"
    ):
        finetune(loaded, task, replace(QUICK, distilled=0.5), teacher=wider.model)
    deeper = small.loaded("BertForMaskedLM", num_hidden_layers=3)
    with pytest.raises(ModelError, match="hidden states of every layer of the same shape as the"):
        finetune(loaded, task, replace(QUICK, layerwise=1.0), teacher=deeper.model)
