"""Tiny random models of every architecture that the tests need, with inputs and attention.

Stock transformers classes built from a config: no network, no files, a fraction of a second each.
Sizes are unequal wherever the architecture permits (batch 3, queries 7, target queries 13, heads 5,
head size 11 ...), so that swapped axes cannot go unnoticed. Weights are redrawn
with larger queries, so that attention is far from uniform, and no bias is zero.
"""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

VOCAB = 61
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FIRST_ID = 5
"""Ids below this one are reserved for special tokens."""
NUM_POSITIONS = 128
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "max_position_embeddings": NUM_POSITIONS,
    **SPECIAL,
}
ENCODER: dict[str, Any] = COMMON | {
    "hidden_size": 55,
    "num_hidden_layers": 2,
    "num_attention_heads": 5,
    "intermediate_size": 23,
}
"""Two layers with 5 heads of 11."""
GROUPED: dict[str, Any] = COMMON | {
    "hidden_size": 18,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "intermediate_size": 23,
}
"""Two layers with 6 query heads of 10 that share two key/value heads."""
UNEQUAL_SIDES: dict[str, Any] = COMMON | {
    "d_model": 55,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 11,
    "encoder_ffn_dim": 23,
    "decoder_ffn_dim": 29,
    "decoder_start_token_id": SPECIAL["eos_token_id"],
}
"""Encoder of 2 layers with 5 heads of 11, decoder of 3 layers with 11 heads of 5."""
DECODERS = frozenset(
    {
        *("gpt2", "gpt_neox", "llama", "qwen3", "gemma2", "gemma3_text", "diffllama"),
        *("bloom", "falcon", "gptj", "gpt_neo", "xglm"),
    }
)
"""Model types whose only attention is `decoder.self`."""

SHARPNESS = 3.0
SHARPENED = {
    "query": SHARPNESS,
    "q_proj": SHARPNESS,
    "q_lin": SHARPNESS,
    "q": SHARPNESS,
    "q_norm": SHARPNESS,
    "c_attn": SHARPNESS**0.5,
    "Wqkv": SHARPNESS**0.5,
    "query_key_value": SHARPNESS**0.5,
}
"""Factor of a module's weights by its name; its root if the module also holds keys."""


def _with(sizes: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return sizes | changed


def seeded(model: PreTrainedModel, embedding_std: float = 0.7, seed: int = 7) -> PreTrainedModel:
    """Redraw all weights: unit gain, biases that matter, larger queries."""
    generator = torch.Generator().manual_seed(seed)

    def noise(parameter: Tensor) -> Tensor:
        return torch.randn(parameter.shape, generator=generator)

    with torch.no_grad():
        for name, module in model.named_modules():
            factor = SHARPENED.get(name.rpartition(".")[2], 1.0)
            for parameter in module.parameters(recurse=False):
                if not parameter.requires_grad:  # sinusoids
                    continue
                if parameter.dim() == 1:  # biases (0) and norm weights (0 or 1)
                    parameter.add_(0.3 * noise(parameter)).mul_(factor)
                elif isinstance(module, nn.Embedding):
                    parameter.copy_(embedding_std * noise(parameter))
                else:
                    sizes = parameter.shape
                    fan_in = sizes[0] if isinstance(module, Conv1D) else math.prod(sizes[1:])
                    parameter.copy_(factor * noise(parameter) / math.sqrt(fan_in))
    return model.float().eval()


def recomputing(model: PreTrainedModel, options: dict[str, Any] | None = None) -> None:
    """Let layers run again in the backward pass; the method's name is new in transformers 5.23."""
    name = "activation_checkpointing_enable"
    enable = getattr(model, name if hasattr(model, name) else "gradient_checkpointing_enable")
    enable(options)


@contextmanager
def _fixed_seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _bert() -> PreTrainedModel:
    return seeded(hf.BertForMaskedLM(hf.BertConfig(**ENCODER)))


def _roberta() -> PreTrainedModel:
    return seeded(hf.RobertaForMaskedLM(hf.RobertaConfig(**ENCODER)))


def _distilbert() -> PreTrainedModel:
    config = hf.DistilBertConfig(
        vocab_size=VOCAB,
        dim=55,
        n_layers=2,
        n_heads=5,
        hidden_dim=23,
        max_position_embeddings=NUM_POSITIONS,
        **SPECIAL,
    )
    return seeded(hf.DistilBertForMaskedLM(config))


def _electra() -> PreTrainedModel:
    return seeded(hf.ElectraForMaskedLM(hf.ElectraConfig(**ENCODER, embedding_size=13)))


def _albert() -> PreTrainedModel:
    """Three layers that are one module called three times."""
    sizes = _with(ENCODER, num_hidden_layers=3)
    config = hf.AlbertConfig(**sizes, embedding_size=13, num_hidden_groups=1, inner_group_num=1)
    return seeded(hf.AlbertForMaskedLM(config))


def _modernbert() -> PreTrainedModel:
    """Layers global, local, local; local attention sees two tokens on either side."""
    config = hf.ModernBertConfig(
        **_with(ENCODER, hidden_size=50, num_hidden_layers=3),
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        local_attention=4,
        cls_token_id=SPECIAL["bos_token_id"],
        sep_token_id=SPECIAL["eos_token_id"],
    )
    return seeded(hf.ModernBertForMaskedLM(config))


def _gpt2() -> PreTrainedModel:
    config = hf.GPT2Config(
        vocab_size=VOCAB,
        n_embd=55,
        n_layer=2,
        n_head=5,
        n_inner=23,
        n_positions=NUM_POSITIONS,
        **SPECIAL,
    )
    return seeded(hf.GPT2LMHeadModel(config))


def _gpt_neox() -> PreTrainedModel:
    """Four of a head's ten dimensions are rotated."""
    config = hf.GPTNeoXConfig(
        **_with(ENCODER, hidden_size=50), rope_parameters={"partial_rotary_factor": 0.4}
    )
    return seeded(hf.GPTNeoXForCausalLM(config))


def _llama() -> PreTrainedModel:
    """Grouped queries: six query heads share two key/value heads."""
    return seeded(hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)))


def _qwen3() -> PreTrainedModel:
    """Grouped queries, queries and keys normalised."""
    return seeded(hf.Qwen3ForCausalLM(hf.Qwen3Config(**GROUPED)))


def _gemma2() -> PreTrainedModel:
    """Scores capped at +-1.5; layers sliding (three tokens back, itself included) and full."""
    config = hf.Gemma2Config(
        **GROUPED,
        query_pre_attn_scalar=10,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
        attn_logit_softcapping=1.5,
        final_logit_softcapping=3.0,
    )
    return seeded(hf.Gemma2ForCausalLM(config))


def _gemma3() -> PreTrainedModel:
    """Layers sliding, full, sliding; the window is three tokens."""
    config = hf.Gemma3TextConfig(
        **_with(GROUPED, num_hidden_layers=3),
        query_pre_attn_scalar=10,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )
    return seeded(hf.Gemma3ForCausalLM(config))


def _marian() -> PreTrainedModel:
    """Embeddings are scaled by the root of the width, as in every opus-mt model."""
    config = hf.MarianConfig(
        **UNEQUAL_SIDES, scale_embedding=True, forced_eos_token_id=SPECIAL["eos_token_id"]
    )
    return seeded(hf.MarianMTModel(config), embedding_std=0.2)


def _bart() -> PreTrainedModel:
    return seeded(hf.BartForConditionalGeneration(hf.BartConfig(**UNEQUAL_SIDES)))


def _m2m100() -> PreTrainedModel:
    config = hf.M2M100Config(**UNEQUAL_SIDES, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    return seeded(hf.M2M100ForConditionalGeneration(config))


def _t5() -> PreTrainedModel:
    config = hf.T5Config(
        vocab_size=VOCAB,
        d_model=17,
        d_kv=11,
        num_heads=5,
        num_layers=2,
        num_decoder_layers=3,
        d_ff=23,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=19,
        **_with(SPECIAL, decoder_start_token_id=SPECIAL["pad_token_id"]),
    )
    return seeded(hf.T5ForConditionalGeneration(config))


def even_t5() -> PreTrainedModel:
    """The stock T5 gives its decoder's cache the encoder's length, and fails if they differ."""
    model = _t5()
    config: Any = copy.deepcopy(model.config)
    config.num_decoder_layers = config.num_layers
    even = hf.T5ForConditionalGeneration(config).eval()
    even.load_state_dict(model.state_dict(), strict=False)
    return even


def _whisper() -> PreTrainedModel:
    """Seventeen encoder positions for any sound; sinusoids need an even width."""
    config = hf.WhisperConfig(
        **_with(UNEQUAL_SIDES, d_model=30, decoder_attention_heads=3),
        num_mel_bins=19,
        max_source_positions=17,
        max_target_positions=NUM_POSITIONS,
    )
    return seeded(hf.WhisperForConditionalGeneration(config))


def _vit() -> PreTrainedModel:
    """Sixteen patches and a class token."""
    config = hf.ViTConfig(
        image_size=12,
        patch_size=3,
        num_channels=2,
        hidden_size=55,
        num_hidden_layers=2,
        num_attention_heads=5,
        intermediate_size=23,
    )
    return seeded(hf.ViTForImageClassification(config))


def _deberta_v2() -> PreTrainedModel:
    config = hf.DebertaV2Config(**ENCODER, relative_attention=True, pos_att_type=["p2c", "c2p"])
    return seeded(hf.DebertaV2ForMaskedLM(config))


def _mpnet() -> PreTrainedModel:
    config = hf.MPNetConfig(**ENCODER)
    return seeded(hf.MPNetForMaskedLM(config))


def _bloom() -> PreTrainedModel:
    config = hf.BloomConfig(vocab_size=VOCAB, hidden_size=55, n_layer=2, n_head=5, **SPECIAL)
    return seeded(hf.BloomForCausalLM(config))


def _falcon() -> PreTrainedModel:
    """All query heads share one key/value head; torch's fused function is called directly."""
    config = hf.FalconConfig(
        vocab_size=VOCAB,
        hidden_size=50,
        num_hidden_layers=2,
        num_attention_heads=5,
        **SPECIAL,
    )
    return seeded(hf.FalconForCausalLM(config))


def _gptj() -> PreTrainedModel:
    config = hf.GPTJConfig(
        vocab_size=VOCAB,
        n_embd=50,
        n_layer=2,
        n_head=5,
        n_inner=23,
        rotary_dim=4,
        n_positions=NUM_POSITIONS,
        **SPECIAL,
    )
    return seeded(hf.GPTJForCausalLM(config))


def _gpt_neo() -> PreTrainedModel:
    """A global layer, and one that sees three tokens, itself included."""
    config = hf.GPTNeoConfig(
        vocab_size=VOCAB,
        hidden_size=55,
        num_layers=2,
        num_heads=5,
        intermediate_size=23,
        attention_types=[[["global", "local"], 1]],
        window_size=3,
        max_position_embeddings=NUM_POSITIONS,
        **SPECIAL,
    )
    return seeded(hf.GPTNeoForCausalLM(config))


def _xglm() -> PreTrainedModel:
    config = hf.XGLMConfig(
        vocab_size=VOCAB,
        d_model=50,
        num_layers=2,
        attention_heads=5,
        ffn_dim=23,
        max_position_embeddings=NUM_POSITIONS,
        **_with(SPECIAL, decoder_start_token_id=SPECIAL["eos_token_id"]),
    )
    return seeded(hf.XGLMForCausalLM(config))


def _diffllama() -> PreTrainedModel:
    """Every layer calls attention twice and subtracts."""
    config = hf.DiffLlamaConfig(**_with(GROUPED, hidden_size=24, head_dim=4))
    with _fixed_seed():  # not all of its parameters are redrawn
        return seeded(hf.DiffLlamaForCausalLM(config))


def _longt5() -> PreTrainedModel:
    """The encoder attends to blocks, by itself; the decoder dispatches."""
    config = hf.LongT5Config(
        vocab_size=VOCAB,
        d_model=17,
        d_kv=11,
        num_heads=5,
        num_layers=2,
        d_ff=23,
        local_radius=3,
        **_with(SPECIAL, decoder_start_token_id=SPECIAL["pad_token_id"]),
    )
    return seeded(hf.LongT5ForConditionalGeneration(config))


def _wavlm() -> PreTrainedModel:
    """Torch's own multi-head attention, in one call."""
    config = hf.WavLMConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=23,
        conv_dim=(8, 8),
        conv_stride=(3, 2),
        conv_kernel=(4, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        num_buckets=8,
        max_bucket_distance=20,
    )
    with _fixed_seed():
        return seeded(hf.WavLMModel(config))


def sparse(attention: str = "sdpa") -> PreTrainedModel:
    """Every query sees the five best keys only, under the names "sdpa" and "eager"."""
    config = hf.DeepseekV32Config(
        **_with(ENCODER, hidden_size=24, num_attention_heads=4),
        num_key_value_heads=4,
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=6,
        v_head_dim=8,
        index_topk=5,
        index_n_heads=2,
        index_head_dim=8,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        moe_intermediate_size=8,
        first_k_dense_replace=1,
    )
    model = seeded(hf.DeepseekV32ForCausalLM(config))
    model.set_attn_implementation(attention)
    return model


def gpt_oss(**changed: Any) -> PreTrainedModel:
    """Every head has a learned sink; layers sliding (three tokens back, itself included), full."""
    sizes: dict[str, Any] = GROUPED | {
        "hidden_size": 32,  # experts take widths that are multiples of 16 bytes
        "intermediate_size": 16,
        "head_dim": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 3,
        "num_local_experts": 2,
        "num_experts_per_tok": 2,  # all: rounding never changes which
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }
    return seeded(hf.GptOssForCausalLM(hf.GptOssConfig(**sizes | changed)))


def _xlnet() -> PreTrainedModel:
    config = hf.XLNetConfig(
        vocab_size=VOCAB, d_model=50, n_layer=2, n_head=5, d_inner=23, attn_type="bi", **SPECIAL
    )
    return seeded(hf.XLNetLMHeadModel(config))


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": _bert,
    "roberta": _roberta,
    "distilbert": _distilbert,
    "electra": _electra,
    "albert": _albert,
    "modernbert": _modernbert,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "llama": _llama,
    "qwen3": _qwen3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "marian": _marian,
    "bart": _bart,
    "m2m_100": _m2m100,
    "t5": _t5,
    "whisper": _whisper,
    "vit": _vit,
}


SHALLOW: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "marian": {"encoder_layers": 1, "decoder_layers": 2},
    "modernbert": {
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", "sliding_attention"],
    },
    "t5": {"num_layers": 1, "num_decoder_layers": 2},
}


def shallow(name: str) -> PreTrainedModel:
    """A tiny model with as few layers as show what differs between layers: exports take long."""
    model = MODELS[name]()
    config: Any = copy.deepcopy(model.config)
    config.update(SHALLOW.get(name, {}))
    make: Any = type(model)
    return seeded(make(config))


"""Builders by transformers' `model_type`: the models that the tap must read."""

OWN_SOFTMAX: dict[str, Callable[[], PreTrainedModel]] = {
    "deberta-v2": _deberta_v2,
    "mpnet": _mpnet,
    "bloom": _bloom,
    "falcon": _falcon,
    "gptj": _gptj,
    "gpt_neo": _gpt_neo,
    "xglm": _xglm,
}
"""Models that the tap must read although they never call transformers' attention function."""

TAPPED = MODELS | OWN_SOFTMAX

REFUSED: dict[str, Callable[[], PreTrainedModel]] = {
    "xlnet": _xlnet,
    "diffllama": _diffllama,
    "longt5": _longt5,
    "wavlm": _wavlm,
}
"""Models with attention that can't be attributed to sites, layers and heads."""


def _padded(
    lengths: tuple[int, ...], side: str, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Random ids and their mask (1 = token), padded to the longest on the given side."""
    ids_BN = torch.full((len(lengths), max(lengths)), SPECIAL["pad_token_id"])
    mask_BN = torch.zeros_like(ids_BN)
    for row, length in enumerate(lengths):
        columns = slice(0, length) if side == "right" else slice(max(lengths) - length, None)
        ids_BN[row, columns] = torch.randint(FIRST_ID, VOCAB, (length,), generator=generator)
        mask_BN[row, columns] = 1
    return ids_BN, mask_BN


def target_lengths(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths on the decoder side: they differ, and the longest source has a short target."""
    return tuple(2 * length - 1 for length in reversed(lengths))


def inputs(
    model: PreTrainedModel,
    lengths: tuple[int, ...] = (7, 4, 2),
    side: str = "right",
    seed: int = 3,
) -> dict[str, Tensor]:
    """Build a padded batch for the model's forward, the same in every call.

    Whisper and ViT take sound and images of one size: `lengths` then says how many, and for
    Whisper how long the decoder's sentences are.
    """
    generator = torch.Generator().manual_seed(seed)
    config, batch = model.config, {}
    if model.main_input_name == "pixel_values":
        shape = (len(lengths), config.num_channels, config.image_size, config.image_size)
        return {"pixel_values": torch.randn(shape, generator=generator)}
    if model.main_input_name == "input_features":
        shape = (len(lengths), config.num_mel_bins, 2 * config.max_source_positions)
        batch["input_features"] = torch.randn(shape, generator=generator)
    else:
        batch["input_ids"], batch["attention_mask"] = _padded(lengths, side, generator)
    if config.is_encoder_decoder:
        batch["decoder_input_ids"], batch["decoder_attention_mask"] = _padded(
            target_lengths(lengths), side, generator
        )
    return batch


def attention_maps(model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, list[Tensor]]:
    """Run the stock model under eager attention and return its maps, [B, H, Q, K] per layer.

    Keys are sites: `encoder.self`, `decoder.self`, `decoder.cross`. The model is not changed.
    """
    stock = copy.deepcopy(model)
    stock.set_attn_implementation("eager")
    stock.config._attn_implementation = "eager"  # Falcon refuses the line above
    with torch.no_grad():
        return maps_by_site(model, stock(**batch, output_attentions=True))


def maps_by_site(model: PreTrainedModel, output: Any) -> dict[str, list[Tensor]]:
    """The attention maps in a stock model's output, by site."""
    if model.config.is_encoder_decoder:
        return {
            "encoder.self": list(output.encoder_attentions),
            "decoder.self": list(output.decoder_attentions),
            "decoder.cross": list(output.cross_attentions),
        }
    site = "decoder.self" if model.config.model_type in DECODERS else "encoder.self"
    return {site: list(output.attentions)}
