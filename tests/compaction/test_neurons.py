"""A compact model with fewer neurons computes what the one computes in which they write nothing."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

import headcount
from headcount.compaction import (
    FeedForward,
    compact,
    feed_forwards,
    kept_neurons,
    neurons_gated,
    plan_gated,
)
from headcount.core import InputError, LayerId, ModelError, Plan
from headcount.results import Certificate
from headcount.tap import difference, examine, outputs
from tests import saved, tiny
from tests.compaction.plans import some_heads
from tests.examined import examined
from tests.textbook.neurons import rows_that_matter, silence
from tests.turns import slow

FAMILIES = sorted(set(tiny.MODELS) - {"albert"})
GATED = ("llama", "qwen3", "gemma2", "gemma3_text", "modernbert")
"""Families whose neurons have a row of a gate, too."""


@cache
def networks(name: str) -> list[FeedForward]:
    return feed_forwards(*examined(name))


@cache
def planned(name: str) -> Plan:
    """Keep some heads, and a different number of neurons in each layer."""
    draw, kept = Random(1), dict[str, dict[int, tuple[int, ...]]]()
    for each in networks(name):
        site, layer = each.layer_id
        number = draw.randint(1, each.num_neurons - 1)
        kept.setdefault(site, {})[layer] = tuple(draw.sample(range(each.num_neurons), number))
    return replace(some_heads(examined(name)[1], None), neurons=kept)


def run(model: PreTrainedModel, batch: dict[str, Tensor]) -> list[Tensor]:
    with torch.inference_mode():
        return outputs(model(**batch))


@pytest.mark.once
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_the_gated_model_and_one_whose_neurons_write_nothing(name: str) -> None:
    (model, anatomy), plan = examined(name), planned(name)
    before = run(model, batch := tiny.inputs(model))
    with plan_gated(model, anatomy, plan):
        gated = run(model, batch)
    assert difference(run(compact(model, plan), batch), gated) < 1e-5
    assert difference(before, gated) > 1e-3, "the neurons that went did something"
    assert difference(run(model, batch), before) == 0, "nothing is left behind"
    silent = copy.deepcopy(model)
    for each in networks(name):
        down = silent.get_submodule(each.output)
        pruned = {*range(each.num_neurons)} - {*kept_neurons(plan, each)}
        silence(down, pruned, isinstance(down, Conv1D))
    with plan_gated(silent, anatomy, replace(plan, neurons={})):
        assert difference(run(silent, batch), gated) < 1e-5


@pytest.mark.parametrize("name", ["bert", *GATED])
def test_the_rows_of_each_neuron(name: str) -> None:
    """Against changing one row at a time: 23 neurons, of one row each or of two."""
    model, each = examined(name)[0], networks(name)[0]
    block: Any = model.get_submodule(each.output.rpartition(".")[0])
    maps = [torch.randn(len(rows)) for rows in each.rows.values()]

    def network(given: Sequence[Tensor]) -> Tensor:
        if name == "bert":
            layer: Any = model.get_submodule(each.output.removesuffix(".output.dense"))
            return layer.intermediate.intermediate_act_fn(given[0])
        parts = given[0].chunk(2) if len(given) == 1 else given
        activation = block.act if name == "modernbert" else block.act_fn
        return activation(parts[0]) * parts[1]

    found = rows_that_matter(network, maps)
    owned = [
        (number, row, [int(owner)])
        for number, rows in enumerate(each.rows.values())
        for row, owner in enumerate(rows)
    ]
    assert {(number, row): owner for number, row, owner in owned} == found


def test_a_gate_for_each_row_of_the_batch() -> None:
    """OPT and the like run all tokens of a batch as one row."""
    down = nn.Linear(3, 2)
    model: Any = nn.ModuleDict({"down": down})
    layer = FeedForward(LayerId("encoder.mlp", 0), {}, "down", 3)
    gate_RN, given = torch.randn(5, 3), torch.randn(5, 7, 3)
    expected = torch.stack([down(given[row] * gate_RN[row]) for row in range(5)])
    with neurons_gated(model, [layer], {layer.layer_id: gate_RN}):
        assert torch.allclose(down(given), expected, atol=1e-6)
        assert torch.allclose(down(given.flatten(0, 1)), expected.flatten(0, 1), atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_compaction_of_compaction(name: str) -> None:
    """Neurons of a compact model are named by the numbers of the first one."""
    model, _ = examined(name)
    site = networks(name)[0].layer_id.site
    once = compact(model, Plan({}, neurons={site: {0: (2, 3, 5, 7, 11)}}))
    twice = compact(once, Plan({}, neurons={site: {0: (1, 4), 1: (0,)}}))
    direct = compact(model, Plan({}, neurons={site: {0: (3, 11), 1: (0,)}}))
    assert twice.config.head_plan["neurons"] == direct.config.head_plan["neurons"]
    assert difference(run(twice, batch := tiny.inputs(model)), run(direct, batch)) < 1e-6


@pytest.mark.parametrize("name", ["bert", "llama", *slow("gpt2", "modernbert", "bart", "vit")])
def test_a_folder_that_loads_without_us(name: str, tmp_path: Path) -> None:
    from headcount.artifact import save

    model = examined(name)[0]
    smaller = compact(model, planned(name))
    save(smaller, tmp_path / "small")
    loaded = headcount.load(tmp_path / "small").model
    assert difference(run(loaded, batch := tiny.inputs(model)), run(smaller, batch)) == 0
    assert loaded.config.head_plan["sha256"] == planned_sha256(name)
    shapes = {
        tuple(each.shape) for each in load_file(tmp_path / "small/model.safetensors").values()
    }
    assert not any(23 in shape for shape in shapes), "no map has all neurons"


def planned_sha256(name: str) -> str:
    plan, heads = planned(name), examined(name)[1].heads
    return replace(Plan.keeping(heads, plan.kept_heads(heads)), neurons=plan.neurons).sha256


def test_a_certificate_and_plain_transformers(tmp_path: Path) -> None:
    from headcount.artifact import save_compact

    loaded = headcount.load(saved.bert(tmp_path / "bert"))
    plan = Plan({"encoder.self": {0: (1,)}}, neurons={"encoder.mlp": {0: (1, 2), 1: (0,)}})
    certificate = save_compact(loaded, plan, tmp_path / "small")
    assert Certificate.read(tmp_path / "small").holds_for(tmp_path / "small")
    for each in certificate.comparisons:
        each.check_equal()
    assert Plan.read(tmp_path / "small/plan.json").neurons == plan.neurons
    stock = AutoModelForMaskedLM.from_pretrained(tmp_path / "small", trust_remote_code=True)
    with plan_gated(loaded.model, loaded.anatomy, plan):
        expected = run(loaded.model, batch := tiny.inputs(loaded.model))
    assert difference(run(stock.eval(), batch), expected) < 1e-5


def test_a_layer_may_lose_all_neurons() -> None:
    """It writes its bias."""
    model, anatomy = examined("bert")
    plan = Plan({}, neurons={"encoder.mlp": {0: ()}})
    smaller = compact(model, plan)
    with plan_gated(model, anatomy, plan):
        expected = run(model, batch := tiny.inputs(model))
    assert difference(run(smaller, batch), expected) < 1e-6


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("albert", "layers share the feed-forward network in albert.encoder"),
        ("gpt_oss", "got several experts in model.layers.0.mlp.experts"),
    ],
)
def test_what_can_t_be_pruned(name: str, reason: str) -> None:
    model = tiny.gpt_oss() if name == "gpt_oss" else examined(name)[0]
    with pytest.raises(ModelError, match=reason):
        feed_forwards(model, examine(model))


def test_a_norm_over_neurons_is_refused() -> None:
    model = copy.deepcopy(examined("bert")[0])
    output: Any = model.get_submodule("bert.encoder.layer.1.output")
    output.dense = nn.Sequential(nn.LayerNorm(23), output.dense)
    with pytest.raises(ModelError, match="found none for layer 1 of encoder.mlp"):
        feed_forwards(model, examine(model))


@pytest.mark.parametrize(
    ("neurons", "said"),
    [
        ({"encoder.mlp": {0: (23,)}}, "has 23 neurons, got one that names neuron 23"),
        ({"encoder.mlp": {2: (0,)}}, "names layer 2 of encoder.mlp, which it lacks"),
        ({"decoder.mlp": {0: (0,)}}, "names layer 0 of decoder.mlp, which it lacks"),
    ],
)
def test_a_plan_for_another_model(neurons: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        compact(examined("bert")[0], Plan({}, neurons=neurons))
