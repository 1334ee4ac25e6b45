"""What vLLM's loader asks of a folder: read in the source of vLLM 0.20.2, since it needs a GPU.

Its models llama and qwen3 (attention, MLP, `load_weights`), its registry, and its convertor of
configurations (`get_head_size`, `get_total_num_kv_heads`).
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from headcount.artifact import is_plain, save
from headcount.compaction import compact
from headcount.core import Plan
from tests.artifact.test_plain import even_plan
from tests.examined import examined

REGISTRY = {"LlamaForCausalLM", "Qwen3ForCausalLM"}
"""Classes of ours in vLLM's registry whose attention reads `head_dim`; Qwen2's does not."""


def asked(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors that vLLM loads, with the shapes of its parameters on one GPU."""
    heads, width = config["num_attention_heads"], config["hidden_size"]
    groups = config.get("num_key_value_heads") or heads
    size = config.get("head_dim") or width // heads
    inner, vocabulary = config["intermediate_size"], config["vocab_size"]
    assert heads % groups == 0, "each group of query heads reads one key"
    layer = {
        "self_attn.q_proj.weight": (heads * size, width),
        "self_attn.k_proj.weight": (groups * size, width),
        "self_attn.v_proj.weight": (groups * size, width),
        "self_attn.o_proj.weight": (width, heads * size),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
    }
    if config["architectures"] == ["Qwen3ForCausalLM"]:
        layer |= {f"self_attn.{which}_norm.weight": (size,) for which in "qk"}
    found = {
        f"model.layers.{number}.{name}": shape
        for number in range(config["num_hidden_layers"])
        for name, shape in layer.items()
    }
    found |= {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
    return found | (
        {} if config["tie_word_embeddings"] else {"lm_head.weight": (vocabulary, width)}
    )


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("qwen3", "heads"),
        ("qwen3", "neurons"),
        pytest.param("llama", "neurons", marks=pytest.mark.slow),
    ],
)
def test_a_plain_folder_has_what_vllm_loads(name: str, what: str, tmp_path: Path) -> None:
    """Every tensor, with the shape that the configuration promises, under a class that it knows."""
    model, _ = examined(name)
    save(compact(model, even_plan(name, what)), tmp_path)
    assert is_plain(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert "auto_map" not in config and {*config["architectures"]} <= REGISTRY
    assert shapes(tmp_path) == asked(config)


def test_an_uneven_folder_has_not(tmp_path: Path) -> None:
    """The check sees the difference."""
    model, _ = examined("qwen3")
    plan = replace(even_plan("qwen3", "neurons"), neurons={})
    neurons = {"decoder.mlp": {0: (0, 1)}}
    save(compact(model, Plan(plan.kept, neurons=neurons)), tmp_path)
    assert not is_plain(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert shapes(tmp_path) != asked(config)
