"""Limits of pruning against weights counted by their names, and against the ceiling of no heads."""

import math
from dataclasses import replace

import pytest

from headcount.core import Plan
from headcount.models import Loaded
from headcount.speed import ceiling, limits
from headcount.speed.flop_ceiling import LENGTH
from tests import pictures
from tests.examined import examined

PARTS = ("attention", "attn", "self_attn", "SelfAttention", "EncDecAttention")


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "t5", "albert"])
def test_shares_of_weights_and_flops(name: str) -> None:
    model, anatomy = examined(name)
    loaded = Loaded(model, None, "")
    found = limits(loaded)
    named = {
        each: weight.numel()
        for each, weight in model.named_parameters()
        if {*each.split(".")} & {*PARTS} and ("LayerNorm" not in each or name == "albert")
    }
    assert found.weights_of_heads == sum(named.values()) > 0
    assert found.weights == sum(each.numel() for each in model.parameters())
    none = Plan.keeping(anatomy.heads, [])
    length = min(LENGTH, loaded.max_length or LENGTH)
    assert found.speedup() == pytest.approx(ceiling(model, none, length, anatomy))
    assert 1 < found.speedup(0.5) < found.speedup()


def test_what_is_said_of_all_heads_and_of_a_budget() -> None:
    model, _ = examined("bert")
    found = replace(limits(Loaded(model, None, "")), weights_of_heads=10**6, weights=4 * 10**6)
    total, half = len(found.heads), len(found.heads) // 2
    said = replace(found, flops=0.5).sentence(half)
    assert said.startswith(
        "heads are 25\u202f% of the model's file (1.0 of 4.0 M weights) and 50\u202f% of the FLOPs "
        f"of 128 tokens, so without all {total} heads it is 25\u202f% smaller and at most 2.00 "
        f"times as fast; without {half}, about 12\u202f% smaller and at most 1.33 times as fast"
    )
    assert "; without" not in found.sentence() + found.sentence(0) + found.sentence(total)


def test_images_have_no_flops(tmp_path) -> None:
    found = limits(Loaded(pictures.random(), None, ""))
    assert math.isnan(found.flops) and "FLOPs" not in found.sentence()
