"""Tiny models that read an earlier layer's keys, or keys that are made of latents."""

from collections.abc import Callable
from functools import cache
from typing import Any

import transformers as hf
from transformers import PreTrainedModel

from headcount.tap import Anatomy, examine
from tests import tiny

_SHARING: dict[str, Any] = tiny.GROUPED | {
    "num_hidden_layers": 5,
    "num_kv_shared_layers": 2,
    "layer_types": ["full_attention", "sliding_attention"] * 2 + ["full_attention"],
    "sliding_window": 5,
    "vocab_size_per_layer_input": tiny.VOCAB,
    "hidden_size_per_layer_input": 6,
}
"""Layer 3 reads the keys of layer 1, which slides, and layer 4 those of layer 2."""
_LATENT: dict[str, Any] = tiny.COMMON | {
    "hidden_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 5,
    "num_key_value_heads": 5,
    "intermediate_size": 23,
    "q_lora_rank": 7,
    "kv_lora_rank": 10,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 6,
    "v_head_dim": 8,
}
"""Latents of 10 and rotated keys of 4, of which 5 heads have keys of 10 and values of 8."""
_EXPERTS: dict[str, Any] = {
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}


def _gemma3n() -> PreTrainedModel:
    each = {"intermediate_size": [23] * 5, "activation_sparsity_pattern": [0.0] * 5}
    config = hf.Gemma3nTextConfig(**_SHARING | each, laurel_rank=4)
    return hf.Gemma3nForCausalLM(config)


def _gemma4() -> PreTrainedModel:
    sizes: dict[str, Any] = _SHARING | {"global_head_dim": 12}
    return hf.Gemma4ForCausalLM(hf.Gemma4TextConfig(**sizes))


def _deepseek_v2() -> PreTrainedModel:
    return hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(**_LATENT | _EXPERTS))


def _deepseek_v3() -> PreTrainedModel:
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**_LATENT | _EXPERTS))


def _minicpm3() -> PreTrainedModel:
    return hf.MiniCPM3ForCausalLM(hf.MiniCPM3Config(**_LATENT))


def _glm4_moe_lite() -> PreTrainedModel:
    return hf.Glm4MoeLiteForCausalLM(hf.Glm4MoeLiteConfig(**_LATENT | _EXPERTS))


SHARING: dict[str, Callable[[], PreTrainedModel]] = {"gemma3n": _gemma3n, "gemma4": _gemma4}
LATENT: dict[str, Callable[[], PreTrainedModel]] = {
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "minicpm3": _minicpm3,
    "glm4_moe_lite": _glm4_moe_lite,
}


@cache
def family(name: str) -> tuple[Any, Anatomy]:
    """A model with random weights, made once: do not change it.

    Those that amplify rounding are in float64; experts of the others run in float32 alone.
    """
    model = tiny.seeded((SHARING | LATENT)[name]())
    if name in SHARING:
        model.double()
    return model, examine(model)
