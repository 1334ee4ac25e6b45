"""Models with layers on two devices, which are pretended: nothing may mix them."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headcount.models import Loaded
from headcount.tap import input_device
from tests.pretended import CPU, ONE, OTHER, label, labelled, spread
from tests.tasks.loaded import loaded

PLACES: Mapping[str, torch.device] = {
    "model.embed_tokens": ONE,
    "model.rotary_emb": ONE,
    "model.layers.0": ONE,
    "model.layers.1": OTHER,
    "model.norm": OTHER,
    "lm_head": OTHER,
}


def copied() -> Loaded:
    from tests.test_any_model import LLAMA

    held = loaded(LLAMA)
    return replace(held, model=copy.deepcopy(held.model))


SAME = (
    *("measure", "align", "cluster", "compact", "streaming_cache", "select_antecedents"),
    *("importance.ablation", "importance.gradient", "importance.norm", "importance.sink"),
    *("importance.relevance", "gates.gating"),
)


@pytest.mark.slow
def test_a_model_on_two_devices(tmp_path: Path) -> None:
    from tests.test_any_model import CASES, LLAMA, assert_same

    there, found = copied(), {}
    with spread(there.model, PLACES):
        assert input_device(there.model) == ONE
        for name in SAME:
            found[name] = CASES[name](there, {}, tmp_path / name)
    for name in SAME:
        assert_same(found[name], CASES[name](loaded(LLAMA), {}, tmp_path / f"{name}-here"))


def test_what_mixes_devices_is_refused() -> None:
    with spread(copied().model, PLACES):
        one, other, here = (
            labelled(torch.ones(2), ONE),
            labelled(torch.ones(2), OTHER),
            torch.ones(2),
        )
        assert [each.device for each in (one, other, here)] == [ONE, OTHER, CPU]
        assert label(one.to(OTHER) + other) == OTHER and label(torch.zeros_like(one)) == ONE
        assert label(one[torch.tensor([1])]) == label(one * torch.tensor(2.0)) == ONE
        with pytest.raises(RuntimeError, match="same device: add of .2,. on cpu:1, .2,. on cpu:2"):
            _ = one + other
        with pytest.raises(RuntimeError, match="same device: cat of .2,. on cpu, .2,. on cpu:2"):
            torch.cat([here, other])
        with pytest.raises(TypeError, match="can't convert a tensor of cpu:1 to numpy"):
            one.numpy()
        assert one.cpu().numpy().tolist() == [1, 1]
