"""Mean and uniform replacements equal hooks that insert them before the output projection."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import LayerId
from headcount.importance.ablations import mean, uniform
from headcount.tap import Anatomy, AttentionLayer, Tap
from tests.examined import examined_double
from tests.tasks.tiny_task import TinyTask

CASES = [
    ("bert", "encoder.self", "value"),
    ("llama", "decoder.self", "v_proj"),
    ("marian", "encoder.self", "v_proj"),
    ("marian", "decoder.self", "v_proj"),
    ("marian", "decoder.cross", "v_proj"),
]


@contextmanager
def put_in(model: PreTrainedModel, layer: AttentionLayer, head: int, new: Tensor) -> Iterator[None]:
    """The head's output before W_O is `new` [row, query, dim] or [dim]."""

    def replace(module: object, inputs: tuple) -> tuple:
        changed = inputs[0].clone()
        changed[..., head * layer.head_dim : (head + 1) * layer.head_dim] = new
        return (changed,)

    assert layer.output is not None
    handle = model.get_submodule(layer.output).register_forward_pre_hook(replace)
    yield
    handle.remove()


def first_layer(anatomy: Anatomy, site: str) -> AttentionLayer:
    return next(layer for layer in anatomy.layers if layer.site == site)


@pytest.mark.parametrize(("name", "site", "value_name"), CASES)
def test_uniform(name: str, site: str, value_name: str) -> None:
    model, anatomy = examined_double(name)
    layer, head, task = first_layer(anatomy, site), 1, TinyTask(model)
    group = head * layer.num_key_value_heads // layer.num_heads
    gate = torch.ones(layer.num_heads)
    gate[head] = 0
    for batch in task.batches():
        values: list[Tensor] = []
        module = model.get_submodule(f"{layer.module}.{value_name}")
        handle = module.register_forward_hook(lambda *_, values=values: values.append(_[2]))
        with torch.no_grad():
            task.losses(model, batch)
            handle.remove()
            part = values[0][..., group * layer.head_dim : (group + 1) * layer.head_dim]
            keys = batch.is_query("encoder.self" if site == "decoder.cross" else site)
            new = blind(part, keys, batch.is_query(site).shape[1], causal=site == "decoder.self")
            with put_in(model, layer, head, new):
                expected = task.losses(model, batch).loss_E
            gates = {LayerId(site, 0): gate}
            with Tap(model, anatomy, gates=gates, replacement=uniform):
                found = task.losses(model, batch).loss_E
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-9)


def blind(value_RKD: Tensor, is_key_RK: Tensor, num_queries: int, causal: bool) -> Tensor:
    """Mean of the values visible to each query, in loops."""
    num_rows, num_keys, dim = value_RKD.shape
    new = torch.zeros(num_rows, num_queries, dim, dtype=value_RKD.dtype)
    for row in range(num_rows):
        for query in range(num_queries):
            seen = [
                value_RKD[row, key]
                for key in range(num_keys)
                if is_key_RK[row, key] and not (causal and key > query)
            ]
            new[row, query] = sum(seen, torch.zeros(dim)) / len(seen)
    return new


@pytest.mark.once
@pytest.mark.parametrize(("name", "site", "_value"), [*CASES, ("vit", "encoder.self", "no mask")])
def test_mean(name: str, site: str, _value: str) -> None:
    model, anatomy = examined_double(name)
    layer, head, task = first_layer(anatomy, site), 2, TinyTask(model)
    outputs: list[Tensor] = []
    for batch in task.batches():
        kept: list[Tensor] = []
        assert layer.output is not None
        module = model.get_submodule(layer.output)
        handle = module.register_forward_pre_hook(lambda *_, kept=kept: kept.append(_[1][0]))
        with torch.no_grad():
            task.losses(model, batch)
        handle.remove()
        part = kept[0][..., head * layer.head_dim : (head + 1) * layer.head_dim]
        outputs += part[batch.is_query(site, (len(part), part.shape[1]))].unbind(0)
    new = torch.stack(outputs).mean(0)
    gate = torch.ones(layer.num_heads)
    gate[head] = 0
    stand_in = mean(model, task, anatomy)
    for batch in task.batches():
        with torch.no_grad():
            with put_in(model, layer, head, new):
                expected = task.losses(model, batch).loss_E
            with Tap(model, anatomy, gates={LayerId(site, 0): gate}, replacement=stand_in):
                found = task.losses(model, batch).loss_E
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-9)


def test_half_closed() -> None:
    """A gate g mixes g of the head with 1 - g of its replacement."""
    model, anatomy = examined_double("bert")
    layer, task = first_layer(anatomy, "encoder.self"), TinyTask(model)
    batch = next(task.batches())
    nothing = {LayerId("encoder.self", 0): torch.full((layer.num_heads,), 0.25)}
    kept: list[Tensor] = []
    assert layer.output is not None
    with Tap(model, anatomy, gates=nothing, replacement=lambda *_: torch.tensor(3.0)):
        module = model.get_submodule(layer.output)
        handle = module.register_forward_pre_hook(lambda *_: kept.append(_[1][0]))
        task.losses(model, batch)
    task.losses(model, batch)
    handle.remove()
    torch.testing.assert_close(kept[0], 0.25 * kept[1] + 0.75 * 3.0)
