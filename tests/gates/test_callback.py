"""A user's own Trainer trains gates with the right gradients: alone, resumed and distributed."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

from headcount.compaction import compact
from headcount.core import InputError
from headcount.gates import GateTraining, HardConcrete, gating
from headcount.models import GATES, as_loaded
from headcount.tap import gated
from tests import tiny
from tests.forked import ranks
from tests.gates.two_lines import STEPS, Texts, made_gates, script


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Complete trainings by kind of gates."""
    out = tmp_path_factory.mktemp("ends")
    return {kind: script(kind, out / kind) for kind in ("l0", "subset")}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=2e-4, atol=2e-5, msg=name)


def test_gates_and_weights_learn_and_nothing_stays(ends: dict[str, Any]) -> None:
    stock = tiny.MODELS["bert"]().state_dict()
    for model, gates, history in ends.values():
        assert GATES not in model._modules and model.state_dict().keys() == stock.keys()
        assert any(not torch.equal(stock[name], each) for name, each in model.state_dict().items())
        assert int(gates.num_draws) == STEPS
        rows = [row for row in history if "loss" in row]
        assert len(rows) == STEPS and all("open encoder.self" in row for row in rows)
    moved = ends["l0"][1].log_a - 0.5
    assert (moved.abs() > 0.02).all() and (moved.abs() < 0.6).all(), "at their own rate: 0.1"


@pytest.mark.slow
def test_a_checkpoint_holds_gates_and_noise(ends: dict[str, Any], tmp_path: Path) -> None:
    for kind, (model, gates, history) in ends.items():
        with pytest.raises(KeyboardInterrupt):
            script(kind, tmp_path / kind, breaks=True)
        resumed = script(kind, tmp_path / kind, resume=True)
        for whole, part in ((model, resumed[0]), (gates, resumed[1])):
            for name, each in whole.state_dict().items():
                assert torch.equal(each, part.state_dict()[name]), (kind, name)
        losses = [[row["loss"] for row in each if "loss" in row] for each in (history, resumed[2])]
        assert losses[0] == losses[1]


@pytest.mark.slow
def test_weight_decay_leaves_gates_alone(ends: dict[str, Any], tmp_path: Path) -> None:
    """AdamW would take a tenth of the weights and, at their rate, all of the gates."""
    gates = script("l0", tmp_path, weight_decay=100.0)[1]
    assert gates.numbers()["open encoder.self"] > 2
    assert (gates.state_dict()["log_a"] - 0.5).abs().min() > 0.02


def test_the_penalty_joins_with_its_gradient() -> None:
    """Plain gradient descent: log a moves by -rate (slope of the loss + slope of the penalty).

    The optimizer has its own rate, not that of the Trainer's arguments.
    """
    model = tiny.MODELS["bert"]().eval()
    gates = made_gates("l0", model)
    assert isinstance(gates, HardConcrete)
    training = GateTraining(gates, rate=0.7)
    args = TrainingArguments(learning_rate=3e-5, use_cpu=True, report_to="none")
    optimizer = torch.optim.SGD(gates.parameters(), 0.01)
    state, control = TrainerState(), TrainerControl()
    with gating(model, gates):
        training.on_train_begin(args, state, control, optimizer=optimizer, model=model)
        gates.train()
        before = gates.log_a.detach().clone()
        loss = model(**tiny.inputs(model)).logits.square().mean()
        loss.backward()
        assert gates.log_a.grad is not None
        slope = gates.log_a.grad.clone()
        opens = (before - 0.33 * torch.tensor(1 / 11).log()).sigmoid()
        training.on_pre_optimizer_step(args, state, control)
        optimizer.step()
        training.on_optimizer_step(args, state, control)
    expected = before - 0.7 * (slope + 0.02 * opens * (1 - opens))
    torch.testing.assert_close(gates.log_a.detach(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_what_a_trainer_of_mixed_precision_had_is_compacted_in_its_own_format(
    tmp_path: Path,
) -> None:
    """The Trainer leaves a forward on the model that casts to bfloat16."""
    from headcount.pruning import Units, plan_of

    model, gates, _ = script("l0", tmp_path, bf16=True)
    assert isinstance(gates, HardConcrete)
    casting = vars(model)["forward"]
    loaded = as_loaded(model, None)
    plan = plan_of(gates, loaded, Units.of(loaded.anatomy), 4)
    inputs = tiny.inputs(model)
    smaller = compact(model, plan).eval()
    with gated(model, dict.fromkeys(map(str, plan.pruned_heads(loaded.heads)), 0.0)):
        here = model.eval()(**inputs).logits
    assert vars(model)["forward"] is casting
    apart = (smaller(**inputs).logits - here).abs().max()
    assert 1e-5 < apart < 0.1 * here.abs().max(), "bfloat16 on the one side only"


def test_an_optimizer_without_the_gates_is_refused(tmp_path: Path) -> None:
    model = tiny.MODELS["bert"]()
    gates = made_gates("l0", model)
    args = TrainingArguments(output_dir=str(tmp_path), max_steps=1, use_cpu=True, report_to="none")
    trainer = Trainer(model, args, train_dataset=Texts(), callbacks=[GateTraining(gates)])
    with pytest.raises(InputError, match="make the optimizer, inside `with gating"):
        trainer.train()


def test_one_process_with_several_gpus_is_refused(tmp_path: Path) -> None:
    """The Trainer would train copies of the model, whose attention is not gated."""
    gates = made_gates("l0", tiny.MODELS["bert"]())
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    args._n_gpu = 2
    with pytest.raises(InputError, match="Expected a process for each of the 2 GPUs, .*torchrun"):
        GateTraining(gates).on_train_begin(args, TrainerState(), TrainerControl())


def test_layers_that_run_again_without_a_gradient_are_refused(tmp_path: Path) -> None:
    """The Trainer's default checkpointing is accepted."""
    gates = made_gates("l0", tiny.MODELS["bert"]())
    optimizer = torch.optim.SGD(gates.parameters(), 0.01)
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    model = tiny.MODELS["bert"]()
    for options, passes in [
        (None, True),
        ({"use_reentrant": True}, False),
        ({"preserve_rng_state": False}, False),  # torch's own default is the older way
        ({"use_reentrant": None}, False),
        ({"use_reentrant": False}, True),
    ]:
        tiny.recomputing(model, options)
        expected = nullcontext() if passes else pytest.raises(InputError, match="not reentrant")
        with expected:
            GateTraining(gates).on_train_begin(
                args, TrainerState(), TrainerControl(), optimizer=optimizer, model=model
            )


def test_half_precision_without_clipping_is_refused(tmp_path: Path) -> None:
    model = tiny.MODELS["bert"]()
    gates = made_gates("l0", model)
    given = {"optimizer": torch.optim.SGD(gates.parameters(), 0.01), "model": model}
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    args.fp16 = True
    GateTraining(gates).on_train_begin(args, TrainerState(), TrainerControl(), **given)
    args.max_grad_norm = 0.0
    with pytest.raises(InputError, match="got fp16 without clipping"):
        GateTraining(gates).on_train_begin(args, TrainerState(), TrainerControl(), **given)


@pytest.mark.slow
def test_gates_move_at_their_rate_by_an_optimizer_of_ones_own(tmp_path: Path) -> None:
    """The first step of Adam is the rate, in its direction; warmup halves it, a rate of 0 has none.

    The Trainer's own rate, 5e-5, is not used.
    """
    for lr in (1e-3, 0.0):
        model = tiny.MODELS["bert"]()
        gates = made_gates("l0", model)
        args = TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=1,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
        )
        with gating(model, gates):
            adam = torch.optim.Adam([*model.parameters()], lr)
            half = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 0.5)
            trainer = Trainer(
                model,
                args,
                train_dataset=Texts(),
                optimizers=(adam, half),
                callbacks=[GateTraining(gates, rate=0.08)],
            )
            if not lr:
                with pytest.raises(
                    InputError, match="Expected an optimizer with a learning rate above 0"
                ):
                    trainer.train()
                continue
            trainer.train()
        assert isinstance(gates, HardConcrete)
        torch.testing.assert_close(
            (gates.log_a - 0.5).abs(), torch.full_like(gates.log_a, 0.04), rtol=1e-3, atol=1e-5
        )


@pytest.mark.parametrize(
    ("group", "peak", "expected"),
    [
        ({"lr": 0.0, "initial_lr": 0.02}, None, 0.02),  # while it warms up
        ({"lr": 0.1, "initial_lr": 0.04, "max_lr": 1.0}, None, 1.0),  # OneCycleLR
        ({"lr": 0.3}, None, 0.3),  # no schedule, or one by the loss
        ({"lr": 1.0, "initial_lr": 1.0}, 7e-4, 7e-4),  # the caller knows better
        ({"lr": None}, None, None),  # Adafactor's own
    ],
)
def test_the_optimizer_s_peak(
    group: dict[str, float | None], peak: float | None, expected: float | None
) -> None:
    """A loss-driven schedule has already lowered the rate when training resumes."""
    model = tiny.MODELS["bert"]()
    gates = made_gates("subset", model)
    optimizer = torch.optim.SGD(gates.parameters(), 0.5)
    optimizer.param_groups[0].update(group)
    training = GateTraining(gates, rate=0.3, peak=peak)
    state = (TrainingArguments(use_cpu=True, report_to="none"), TrainerState(), TrainerControl())

    def begin() -> None:
        training.on_train_begin(*state, optimizer=optimizer, model=model)

    if expected is None:
        with pytest.raises(InputError, match="got none. Give GateTraining its peak"):
            begin()
        return
    for _ in range(2):
        begin()
        before = [parameter.detach().clone() for parameter in gates.parameters()]
        training.on_pre_optimizer_step(*state)
        for parameter in gates.parameters():  # the optimizer's step
            parameter.data.sub_(0.01)
        training.on_optimizer_step(*state)
        for parameter, value in zip(gates.parameters(), before, strict=True):
            torch.testing.assert_close(parameter.detach(), value - 0.01 * 0.3 / expected)
        optimizer.param_groups[0]["lr"] = 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["l0", "subset"])
def test_two_processes_learn_what_one_does(kind: str, tmp_path: Path) -> None:
    """Accumulating the gradients of two batches gives the same steps and the same noise."""
    for process in ranks("tests.gates.two_lines", kind, tmp_path):
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-3000:]
    ends = [torch.load(tmp_path / f"end-{rank}.pt") for rank in range(2)]
    model, gates, _ = script(kind, tmp_path / "one", accumulate=2)
    for end in ends:
        same(end["model"], dict(model.state_dict()))
        end["gates"]["num_draws"] *= 2
        same(end["gates"], dict(gates.state_dict()))
