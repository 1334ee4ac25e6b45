"""Trained weights of a compact model go back to their places in the dense one, in every family."""

import copy

import pytest
import torch

from headcount.compaction import compact, restorable, restored
from headcount.models import Loaded
from headcount.tap import Tap, difference
from tests import tiny
from tests.compaction.plans import some_heads
from tests.compaction.test_compact import FAMILIES, run
from tests.examined import examined
from tests.turns import slow

SHARED_TABLES = ("t5",)


def loaded_of(name: str) -> Loaded:
    model, anatomy = examined(name)
    loaded = Loaded(model, None, name)
    vars(loaded)["anatomy"] = anatomy
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize("dead", [1, *slow(None)])
@pytest.mark.parametrize("name", sorted(set(FAMILIES) - set(SHARED_TABLES)))
def test_the_gated_model_is_the_compact_one_that_learned(name: str, dead: int | None) -> None:
    loaded = loaded_of(name)
    plan, before = some_heads(loaded.anatomy, dead), copy.deepcopy(loaded.model.state_dict())
    smaller = restorable(loaded, plan)
    assert smaller is not None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in smaller.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    whole = restored(loaded, plan, smaller)
    batch = tiny.inputs(loaded.model)
    with Tap(whole.model, loaded.anatomy, gates=plan.gates(loaded.heads)):
        found = run(whole.model, batch)
    assert difference(found, run(smaller.model, batch)) < 1e-5
    assert difference(found, run(loaded.model, batch)) > 1e-3, "it learned"
    again = compact(whole.model, plan).state_dict()
    for key, tensor in smaller.model.state_dict().items():
        assert torch.equal(tensor, again[key]), key
    for key, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, before[key]), f"{key} of the model given"


@pytest.mark.slow
def test_heads_that_went_have_their_old_weights() -> None:
    loaded = loaded_of("bert")
    plan = some_heads(loaded.anatomy, None)
    smaller = restorable(loaded, plan)
    assert smaller is not None
    with torch.no_grad():
        for parameter in smaller.model.parameters():
            parameter.add_(1)
    whole = restored(loaded, plan, smaller)
    for layer in loaded.anatomy.layers:
        kept = plan.of_layer(loaded.heads, layer.site, layer.layer)
        name = f"{layer.module}.query.weight"
        moved = whole.model.get_parameter(name) - loaded.model.get_parameter(name)
        for head, part in enumerate(moved.detach().split(layer.head_dim)):
            assert torch.allclose(part, torch.tensor(float(head in kept)), atol=1e-5)


@pytest.mark.parametrize("name", [*SHARED_TABLES, "albert"])
def test_what_layers_share_can_not_be_given_back(name: str) -> None:
    loaded = loaded_of(name)
    assert restorable(loaded, some_heads(loaded.anatomy, None)) is None
