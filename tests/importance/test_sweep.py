"""A sweep equals one plain gated forward per ablation; reuse does not change the result."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from headcount.compaction import compact
from headcount.core import Head, Heads, InputError, ModelError, Plan
from headcount.importance import (
    Ablation,
    AblationSetting,
    Instead,
    Swept,
    ablation,
    all_but_one,
    single_heads,
    sweep,
    whole_layers,
    whole_sites,
)
from headcount.importance.ablations import replacement
from headcount.importance.reuse import Blocks
from headcount.tap import Tap, examine, gated, tap, tapped
from headcount.tasks import TaskBatch
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined, examined_double
from tests.tasks.tiny_task import TinyTask
from tests.turns import slow


@pytest.mark.once
@pytest.mark.parametrize("name", tiny.MODELS)
def test_equals_gated_forwards(name: str) -> None:
    model, anatomy = examined_double(name)
    heads = anatomy.heads
    ablations = [*single_heads(heads)[::3], *whole_layers(heads), *all_but_one(heads)[::7]]
    task = TinyTask(model)
    with leaving_no_trace(model, task.inputs[0]):
        swept = sweep(AblationSetting(model, task, anatomy), ablations)
    assert swept.base.count_N.min() > 0
    for row, each in enumerate(ablations):
        gates = dict.fromkeys(map(str, each.heads), 0.0)
        with tapped(model, gates=gates, anatomy=anatomy), torch.no_grad():
            for batch in task.batches():
                expected = task.losses(model, batch)
                index = batch.index_E.numpy()
                np.testing.assert_allclose(swept.loss_AN[row, index], expected.loss_E, rtol=1e-9)
                np.testing.assert_allclose(
                    swept.outcome_AN[row, index], expected.outcome_E, rtol=1e-9
                )


@pytest.mark.parametrize("most", [1, 60, 4096])
def test_no_forward_has_more_tokens_than_asked_for(most: int) -> None:
    """Only a single batch of the task itself may have more."""
    model, anatomy = examined("bert")
    task, tokens = TinyTask(model), []
    largest = max(batch.inputs["input_ids"].numel() for batch in task.batches())
    last: Any = model.get_submodule("bert.encoder.layer.1")
    hook = last.register_forward_pre_hook(
        lambda _, inputs: tokens.append(inputs[0].shape[0] * inputs[0].shape[1])
    )
    sweep(AblationSetting(model, task, anatomy, None, most), single_heads(anatomy.heads))
    hook.remove()
    assert max(tokens) <= max(most, largest)
    assert (max(tokens) > largest) == (most > 1)


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["enc.0", *slow("enc.1", "dec.1", "cross.1")])
def test_of_a_compact_model_with_a_layer_without_heads(dead: str) -> None:
    """Its block runs between others that are skipped."""
    config: Any = tiny.MODELS["marian"]().config
    config.update({"encoder_layers": 4, "decoder_layers": 4, "decoder_attention_heads": 5})
    dense = hf.MarianMTModel(config).double().eval()
    stay = [head for head in examine(dense).heads if not str(head).startswith(f"{dead}.")]
    model = compact(dense, Plan.keeping(examine(dense).heads, stay))
    anatomy, task = examine(model), TinyTask(model)
    ablations = [*single_heads(anatomy.heads)[::3], *whole_layers(anatomy.heads)]  # of each layer
    swept = sweep(AblationSetting(model, task, anatomy), ablations)
    for row, each in enumerate(ablations):
        gates = dict.fromkeys(map(str, each.heads), 0.0)
        with tapped(model, gates=gates, anatomy=anatomy), torch.no_grad():
            for batch in task.batches():
                expected = task.losses(model, batch).loss_E
                found = swept.loss_AN[row, batch.index_E.numpy()]
                np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_site_without_heads_is_not_ablated() -> None:
    heads = Heads({"encoder.self": (0, 0), "decoder.self": (2, 1)})
    assert [each.name for each in whole_sites(heads)] == ["decoder.self"]


@pytest.mark.once
@pytest.mark.parametrize("instead", ["mean", "uniform"])
@pytest.mark.parametrize("name", ["bert", "marian"])
def test_stand_ins_are_those_of_a_gated_forward(name: str, instead: Instead) -> None:
    model, anatomy = examined_double(name)
    task, ablations = TinyTask(model), single_heads(anatomy.heads)[::5]
    stand_in = replacement(instead, model, task, anatomy)
    swept = sweep(AblationSetting(model, task, anatomy, stand_in), ablations)
    zeroed = sweep(AblationSetting(model, task, anatomy), ablations)
    assert not np.allclose(swept.loss_AN, zeroed.loss_AN, rtol=1e-6)
    for row, each in enumerate(ablations):
        (head,) = each.heads
        gate = torch.ones(anatomy.heads.counts[head.site][head.layer], dtype=model.dtype)
        gate[head.index] = 0
        gates = {head.layer_id: gate}
        with Tap(model, anatomy, gates=gates, replacement=stand_in), torch.no_grad():
            for batch in task.batches():
                expected = task.losses(model, batch).loss_E
                found = swept.loss_AN[row, batch.index_E.numpy()]
                np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_base_is_the_stock_model() -> None:
    model, anatomy = examined_double("bert")
    task = TinyTask(model)
    base = sweep(AblationSetting(model, task, anatomy), []).base
    with torch.no_grad():
        for batch in task.batches():
            expected = task.losses(model, batch)
            np.testing.assert_allclose(base.loss_N[batch.index_E], expected.loss_E, rtol=1e-9)
            assert (base.count_N[batch.index_E] == expected.count_E.numpy()).all()


@pytest.mark.parametrize("name", ["bert", "marian", "t5"])
def test_blocks_are_passed_over(name: str) -> None:
    """With `resuming(start)`, exactly the blocks from `start` on run their attention."""
    model, anatomy = examined(name)
    blocks, inputs = Blocks(model, anatomy), tiny.inputs(model)
    with torch.no_grad(), blocks.keeping():
        model(**inputs, use_cache=False) if name != "bert" else model(**inputs)
    for start in range(len(blocks)):
        calls: list[str] = []
        handles = [
            model.get_submodule(layer.module).register_forward_hook(
                lambda *_, path=layer.module, calls=calls: calls.append(path)
            )
            for layer in anatomy.layers
            if layer.call == 0
        ]
        with torch.no_grad(), blocks.resuming(start, 3, 1):
            model(**inputs)
        for handle in handles:
            handle.remove()
        late = [one for one in anatomy.layers if blocks.start(one.layer_id) >= start]
        assert len(calls) == len(late)


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "marian", "t5", "albert"])
def test_attention_runs_behind_the_first_change_only(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, anatomy = examined(name)
    calls: list[str] = []
    plain = tap.sdpa_attention_forward

    def counted(module, *args, **kwargs):
        calls.append(module)
        return plain(module, *args, **kwargs)

    monkeypatch.setattr(tap, "sdpa_attention_forward", counted)
    num_layers, num_batches = len(anatomy.layers), 2
    for number, layer in enumerate(anatomy.layers):
        calls.clear()
        head = Head(layer.site, layer.layer, 0)
        sweep(AblationSetting(model, TinyTask(model), anatomy), [Ablation("one", (head,))])
        again = num_layers if name == "albert" else num_layers - number - 1  # shared: all of them
        assert len(calls) == num_batches * (num_layers + again)


def test_resumes(tmp_path: Path) -> None:
    model, anatomy = examined("bert")
    ablations = single_heads(anatomy.heads)
    dense = sweep(AblationSetting(model, TinyTask(model), anatomy), ablations)

    moved = list[int]()

    def stop(done: int, total: int) -> None:
        moved.append(done)
        if done < 3:  # the bar moves with each forward pass
            return
        assert (done, total) == (3, 5) and 1 in moved
        raise KeyboardInterrupt

    def run(task: TinyTask, key: str = "a", progress=lambda done, total: None) -> Swept:
        return sweep(
            AblationSetting(model, task, anatomy),
            ablations,
            state=tmp_path / "s",
            key=key,
            progress=progress,
        )

    with pytest.raises(KeyboardInterrupt):
        run(TinyTask(model), progress=stop)
    task = TinyTask(model)
    again = run(task)
    assert set(task.runs) <= {2 * times for times in range(1, 11)}  # the batch of two only
    np.testing.assert_array_equal(again.loss_AN, dense.loss_AN)
    np.testing.assert_array_equal(again.base.loss_N, dense.base.loss_N)
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        run(TinyTask(model), key="b")
    task = TinyTask(model)
    run(task)
    assert task.runs == []  # nothing is left to do
    with pytest.raises(InputError, match="losses of 5 examples"):
        sweep(AblationSetting(model, task, anatomy), ablations[1:], state=tmp_path / "s", key="a")
    first, second = tmp_path.iterdir()
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="can't be read: .* What it held is computed again"):
        again = run(task := TinyTask(model))
    assert 0 < len(task.runs) < 20, "one of two batches"
    np.testing.assert_array_equal(again.loss_AN, dense.loss_AN)


def test_resumes_with_other_batches(tmp_path: Path) -> None:
    """Progress is stored by example: a batch with only some examples done is run again."""
    model, anatomy = examined("bert")
    ablations = single_heads(anatomy.heads)

    class Halved(TinyTask):
        """The first two examples of the first batch form their own batch."""

        def batches(self, max_tokens: int = 4096):
            first, second = super().batches()
            yield of_rows(first, slice(0, 2))
            yield of_rows(first, slice(2, 3))
            yield second

    def of_rows(batch: TaskBatch, rows: slice) -> TaskBatch:
        inputs = {name: tensor[rows] for name, tensor in batch.inputs.items()}
        labels = {name: tensor[rows] for name, tensor in batch.labels.items()}
        index_E = batch.index_E[rows]
        return TaskBatch(inputs, labels, torch.arange(len(index_E)), index_E)

    def stop(done: int, total: int) -> None:
        if done < 2:
            return
        assert done == 2
        raise KeyboardInterrupt

    state = tmp_path / "s"
    with pytest.raises(KeyboardInterrupt):
        sweep(AblationSetting(model, Halved(model), anatomy), ablations, state=state, progress=stop)
    again = sweep(AblationSetting(model, TinyTask(model), anatomy), ablations, state=state)
    dense = sweep(AblationSetting(model, TinyTask(model), anatomy), ablations)
    np.testing.assert_allclose(again.loss_AN, dense.loss_AN, rtol=1e-5)
    np.testing.assert_array_equal(again.base.count_N, dense.base.count_N)


def test_not_finite() -> None:
    model, anatomy = examined("bert")

    class Broken(TinyTask):
        def batches(self, max_tokens: int = 4096):
            for batch in super().batches():
                batch.labels["weight"][:1] = torch.inf
                yield batch

    with pytest.raises(ModelError, match="example 4 gave inf under ablation no ablation"):
        sweep(AblationSetting(model, Broken(model), anatomy), single_heads(anatomy.heads))


@pytest.mark.slow
def test_deltas() -> None:
    """Rise of the mean loss over tokens without each head."""
    model, anatomy = examined_double("marian")
    swept = sweep(AblationSetting(model, TinyTask(model), anatomy), single_heads(anatomy.heads))
    found = ablation(model, TinyTask(model), anatomy=anatomy)
    for number, head in enumerate(anatomy.heads):
        loss = swept.loss_AN[number].sum() / swept.base.count_N.sum()
        base = swept.base.loss_N.sum() / swept.base.count_N.sum()
        assert found[head.layer_id][head.index].item() == pytest.approx(loss - base)


def test_ablations_of_two_layers_begin_at_the_first() -> None:
    model, anatomy = examined_double("bert")
    heads = list(anatomy.heads)
    both = Ablation("both", (heads[-1], heads[0]))
    swept = sweep(AblationSetting(model, TinyTask(model), anatomy), [both])
    with gated(model, {str(heads[0]): 0.0, str(heads[-1]): 0.0}), torch.no_grad():
        for batch in TinyTask(model).batches():
            expected = TinyTask(model).losses(model, batch).loss_E
            np.testing.assert_allclose(swept.loss_AN[0, batch.index_E], expected, rtol=1e-9)
