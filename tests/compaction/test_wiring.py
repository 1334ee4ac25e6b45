"""Rows are followed to heads, whatever the layout of the map."""

import pytest
import torch

from headcount.compaction.wiring import NOBODY, wire
from tests.examined import examined


def owners(name: str) -> tuple[list[int], list[int]]:
    """Owners of the queries and keys in layer 0's fused map."""
    model, anatomy = examined(name)
    wiring = wire(model, anatomy)[0]
    ((path, queries),) = wiring.queries.items()
    return queries.tolist(), wiring.keys_values[path].tolist()


def each(times: int, count: int = 5) -> list[int]:
    return [head for head in range(count) for _ in range(times)]


@pytest.mark.parametrize(("name", "size"), [("gpt2", 11), ("modernbert", 10)])
def test_fused_one_kind_after_the_other(name: str, size: int) -> None:
    queries, keys_values = owners(name)
    assert queries == each(size) + [NOBODY] * (10 * size)
    assert keys_values == [NOBODY] * (5 * size) + 2 * each(size)


def test_fused_head_by_head() -> None:
    queries, keys_values = owners("gpt_neox")
    expected = [(h, NOBODY) for h in range(5)]
    assert queries == [x for h, no in expected for x in 10 * [h] + 20 * [no]]
    assert keys_values == [x for h, no in expected for x in 10 * [no] + 20 * [h]]


def test_groups() -> None:
    model, anatomy = examined("qwen3")
    wiring = wire(model, anatomy)[1]
    path = "model.layers.1.self_attn"
    assert wiring.queries[f"{path}.q_proj"].tolist() == each(10, 6)
    assert wiring.keys_values[f"{path}.k_proj"].tolist() == each(10, 2)
    assert set(wiring.keys_values) == {f"{path}.k_proj", f"{path}.v_proj"}


def test_leaves_no_trace() -> None:
    model, anatomy = examined("bert")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    wire(model, anatomy)
    assert all(torch.equal(before[name], each) for name, each in model.named_parameters())
    assert all(each.grad is None for each in model.parameters())
    assert not torch.nn.modules.module._global_forward_hooks
