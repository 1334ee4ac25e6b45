"""Gradient importance equals finite differences, one example and one head at a time."""

import copy
from collections.abc import Callable
from functools import cache

import pytest
import torch
from transformers import PreTrainedModel

from headcount.core import InputError, LayerId, ModelError
from headcount.importance import attention_gradients, gradient, relevance
from headcount.tap import Anatomy, Tap, tapped
from headcount.tasks import Task, TaskBatch, build
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined, examined_double
from tests.tasks.loaded import TEXTS, loaded
from tests.tasks.tiny_task import TinyTask
from tests.turns import slow

SOME = ["bert", "albert", "llama", "gpt2", "t5", "vit"]
STEP = 1e-4
IN_FLOAT32 = {"llama", "t5"}
"""Models that compute norms in float32 whatever their type, which finite differences notice."""


def by_differences(model: PreTrainedModel, anatomy: Anatomy) -> dict[LayerId, list[list[float]]]:
    """dL(x)/dg of every head (outer list) and example (inner list), two forwards each."""
    found: dict[LayerId, list[list[float]]] = {}
    for head in anatomy.heads:
        differences = []
        for batch in TinyTask(model).batches():
            losses = []
            for gate in (1 + STEP, 1 - STEP):
                with tapped(model, gates={str(head): gate}, anatomy=anatomy):
                    losses.append(TinyTask(model).losses(model, batch).loss_E)
            differences += ((losses[0] - losses[1]) / (2 * STEP)).tolist()
        found.setdefault(head.layer_id, []).append(differences)
    return found


@cache
def num_tokens(model: PreTrainedModel) -> int:
    task = TinyTask(model)
    return sum(int(task.losses(model, batch).count_E.sum()) for batch in task.batches())


@pytest.mark.once
@pytest.mark.parametrize("name", [*SOME, *slow("marian")])
def test_samples(name: str) -> None:
    model, anatomy = examined_double(name)
    expected = by_differences(model, anatomy)
    found = gradient(model, TinyTask(model), normalise=False, anatomy=anatomy)
    assert set(found) == set(expected)
    for place, heads in expected.items():
        sums = [sum(abs(one) for one in each) / num_tokens(model) for each in heads]
        rel = 2e-2 if name in IN_FLOAT32 else 1e-5
        assert found[place].tolist() == pytest.approx(sums, rel=rel, abs=1e-8)


@pytest.mark.parametrize("name", sorted(IN_FLOAT32))
def test_samples_one_by_one(name: str) -> None:
    """Gradient importance equals a loop over single examples with one gate per head."""
    model, anatomy = examined_double(name)
    task, sums = TinyTask(model), {}
    for batch in task.batches():
        for row in range(batch.num_examples):
            one = TaskBatch(
                {name: tensor[row : row + 1] for name, tensor in batch.inputs.items()},
                {name: tensor[row : row + 1] for name, tensor in batch.labels.items()},
                torch.tensor([0]),
                batch.index_E[row : row + 1],
            )
            gates = {
                layer.layer_id: torch.ones(layer.num_heads, requires_grad=True)
                for layer in anatomy.layers
            }
            with Tap(model, anatomy, gates=gates):
                loss = task.losses(model, one).loss_E.sum()
            slopes = torch.autograd.grad(loss, list(gates.values()))
            for place, slope in zip(gates, slopes, strict=True):
                sums[place] = sums.get(place, 0) + slope.abs() / num_tokens(model)
    found = gradient(model, task, normalise=False, anatomy=anatomy)
    assert found.keys() == sums.keys()
    for place, scores in found.items():
        torch.testing.assert_close(scores.float(), sums[place].float(), rtol=1e-4, atol=1e-7)


def test_batches() -> None:
    model, anatomy = examined_double("bert")
    expected = by_differences(model, anatomy)
    with torch.no_grad():  # as another caller may have set it
        found = gradient(model, TinyTask(model), "batch", normalise=False, anatomy=anatomy)
    for place, heads in expected.items():
        sums = [(abs(sum(each[:3])) + abs(sum(each[3:]))) / num_tokens(model) for each in heads]
        assert found[place].tolist() == pytest.approx(sums, rel=1e-5, abs=1e-8)


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "llama", "marian"])
def test_tokens(name: str) -> None:
    """|<output, gradient of output>| per position, read before the output projection."""
    model, anatomy = examined_double(name)
    found = gradient(model, TinyTask(model), "token", normalise=False, anatomy=anatomy)
    for layer in anatomy.layers:
        assert layer.output is not None
        total = [0.0] * layer.num_heads
        for batch in TinyTask(model).batches():
            kept: list[torch.Tensor] = []

            def keep(module: object, inputs: tuple, kept: list = kept) -> tuple:
                kept.append(inputs[0].detach().requires_grad_())
                return (kept[0],)

            handle = model.get_submodule(layer.output).register_forward_pre_hook(keep)
            loss = TinyTask(model).losses(model, batch).loss_E.sum()
            handle.remove()
            (slope,) = torch.autograd.grad(loss, kept)
            for row in range(slope.shape[0]):
                for query in range(slope.shape[1]):
                    for head in range(layer.num_heads):
                        part = slice(head * layer.head_dim, (head + 1) * layer.head_dim)
                        one = (kept[0][row, query, part] * slope[row, query, part]).sum()
                        total[head] += abs(one.item())
        expected = [one / num_tokens(model) for one in total]
        assert found[layer.layer_id].tolist() == pytest.approx(expected, rel=1e-8)


def test_tokens_need_a_mask() -> None:
    model, anatomy = examined_double("vit")
    with pytest.raises(InputError, match="Expected an attention mask among the inputs"):
        gradient(model, TinyTask(model), "token", anatomy=anatomy)


def test_normalised() -> None:
    model, anatomy = examined_double("bert")
    raw = gradient(model, TinyTask(model), normalise=False, anatomy=anatomy)
    found = gradient(model, TinyTask(model), anatomy=anatomy)
    assert found.keys() == {layer.layer_id for layer in anatomy.layers}
    for place, scores in found.items():
        norm = sum(one**2 for one in raw[place].tolist()) ** 0.5
        assert scores.tolist() == pytest.approx([one / norm for one in raw[place].tolist()])


@pytest.mark.parametrize("name", tiny.MODELS)
def test_every_architecture(name: str) -> None:
    """Scores are finite and not all zero, and nothing of ours remains, not even parameter flags."""
    model, anatomy = examined(name)
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    with leaving_no_trace(model, tiny.inputs(model)):
        found = gradient(model, TinyTask(model), anatomy=anatomy)
    assert wanted == [parameter.requires_grad for parameter in model.parameters()]
    assert all(scores.isfinite().all() and scores.sum() > 0 for scores in found.values())


STOPPED: dict[str, Callable[[PreTrainedModel, Task], object]] = {
    "gradient": gradient,
    "relevance": relevance,
    "attention": lambda model, task: attention_gradients(
        model, task, lambda batch, site: torch.ones(*batch.inputs["input_ids"].shape, 4)
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", STOPPED)
@pytest.mark.parametrize("path", ["lm_head", "model.layers.0.self_attn.o_proj"])
def test_a_step_that_passes_no_gradient(name: str, path: str) -> None:
    """As kernels for packed weights do that only run forward."""
    held = loaded("LlamaForCausalLM")
    task = build("causal-lm", held, {"text": TEXTS})
    module = copy.deepcopy(held.model)
    module.get_submodule(path).register_forward_hook(lambda *given: given[2].detach())
    with pytest.raises(ModelError, match=r"^Expected .*passes none.* \(ablation, sink\)\.$"):
        STOPPED[name](module, task)
