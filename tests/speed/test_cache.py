"""Bytes of a key/value cache against the formula, in dense and compact models."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import headcount
from headcount.compaction import compact
from headcount.core import Head, Plan
from headcount.models import Loaded
from headcount.results import CachePart, CacheRecord, PruneRecord
from headcount.speed import Size, cache_parts, cache_record, size_rows
from tests import saved, tiny
from tests.examined import examined
from tests.textbook.cache import bytes_per_token

PLAIN = ("gpt2", "gpt_neox", "llama", "qwen3")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PLAIN)
def test_a_decoder_has_one_part(name: str, dtype: torch.dtype) -> None:
    _, anatomy = examined(name)
    model: Any = tiny.MODELS[name]()
    loaded = Loaded(model.to(dtype), None, name)
    groups = [layer.num_key_value_heads for layer in anatomy.layers]
    number = bytes_per_token(groups, anatomy.layers[0].head_dim, dtype.itemsize)
    assert cache_parts(loaded) == (CachePart("decoder.self", None, number),)


@pytest.mark.slow
def test_groups_that_are_pruned_are_saved() -> None:
    """A group stays as long as one of its heads does; a layer without heads keeps one, of zeros."""
    model, anatomy = examined("llama")  # two layers of 6 heads that share 2 keys and values
    dense = Loaded(model, None, "llama")
    for kept, groups in (((0, 1), [1, 1]), ((0, 3), [2, 1]), ((0, 1, 2, 3, 4, 5), [2, 1])):
        plan = Plan.keeping(anatomy.heads, [Head("decoder.self", 0, index) for index in kept])
        smaller = Loaded(compact(model, plan), None, "smaller")
        found = cache_record(dense, smaller)
        assert found is not None
        assert found.dense[0].bytes_per_token == bytes_per_token([2, 2], 10, 4)
        assert found.pruned[0].bytes_per_token == bytes_per_token(groups, 10, 4)


def test_windows_are_parts_of_their_own() -> None:
    """A layer with a window keeps no more than its last tokens."""
    config = hf.Gemma2Config(
        **tiny.GROUPED,
        sliding_window=9,
        layer_types=["sliding_attention", "full_attention"],
    )
    loaded = Loaded(hf.Gemma2ForCausalLM(config).eval(), None, "gemma2")
    found = cache_parts(loaded)
    assert [(each.site, each.window) for each in found] == [
        ("decoder.self", 9),
        ("decoder.self", None),
    ]
    assert {each.bytes_per_token for each in found} == {bytes_per_token([2], 10, 4)}
    sentence = CacheRecord("float32", found, ()).sentence
    assert sentence == (
        "Key/value cache in float32, bytes a token, for the last 9 tokens: 160 before, 0 after; "
        "bytes a token: 160 before, 0 after."
    )


def test_both_caches_of_an_encoder_decoder() -> None:
    loaded = Loaded(tiny.MODELS["marian"](), None, "marian")
    number = bytes_per_token([11, 11, 11], 5, 4)
    assert cache_parts(loaded) == (
        CachePart("decoder.self", None, number),
        CachePart("decoder.cross", None, number),
    )
    rows = size_rows(Size.of(loaded), Size.of(loaded))
    assert rows[-2:] == [
        ["key/value cache, bytes a token", "1,320", "1,320"],
        ["key/value cache, bytes a source token", "1,320", "1,320"],
    ]


def test_encoders_have_none(tmp_path: Path) -> None:
    loaded = Loaded(tiny.MODELS["bert"](), None, "bert")
    assert cache_parts(loaded) == () and cache_record(loaded, loaded) is None


def test_a_model_that_fails_with_a_cache_has_none() -> None:
    """Switch's encoder refuses `use_cache`, and RecurrentGemma returns none."""
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}
    switch = hf.SwitchTransformersConfig(**sizes, num_decoder_layers=2, num_experts=2)
    model = hf.SwitchTransformersForConditionalGeneration(switch)
    assert model.can_generate()
    assert cache_parts(Loaded(model.eval(), None, "switch")) == ()


@pytest.mark.slow
def test_a_model_of_inputs_that_nobody_can_make_up_has_none(tmp_path: Path) -> None:
    """It was refused when its compact model was saved."""
    from headcount.artifact import save_compact

    sizes: dict[str, Any] = {"d_model": 16, "ffn_dim": 20, "num_attention_heads": 4}
    config = hf.PatchTSTConfig(**sizes, num_hidden_layers=2, context_length=16, patch_length=4)
    inputs = {"past_values": torch.randn(2, 16, 1, generator=torch.Generator().manual_seed(0))}
    loaded = Loaded(hf.PatchTSTModel(config).eval(), None, "patchtst", inputs)
    assert cache_parts(loaded) == ()
    save_compact(loaded, Plan.keeping(loaded.heads, list(loaded.heads)[1:]), tmp_path / "out")
    assert PruneRecord.read(tmp_path / "out").cache is None


@pytest.mark.slow
def test_the_card_of_a_model_made_from_a_plan(tmp_path: Path) -> None:
    from headcount.artifact import save_compact

    loaded = headcount.load(saved.gpt2(tmp_path / "gpt2"))
    plan = Plan.keeping(loaded.heads, list(loaded.heads)[1:])
    save_compact(loaded, plan, tmp_path / "out")
    found = PruneRecord.read(tmp_path / "out").cache
    assert found == cache_record(loaded, headcount.load(tmp_path / "out"))
    assert found is not None and found.pruned[0].bytes_per_token < found.dense[0].bytes_per_token
    assert found.sentence in (tmp_path / "out" / "README.md").read_text()
