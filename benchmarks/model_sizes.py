"""Small sizes for every model type of transformers, by the names of configurations' fields."""

from collections.abc import Mapping
from typing import Any

NUM_HEADS, HEAD_DIM, WIDTH, VOCAB = 4, 8, 32, 99
SIZES: Mapping[str, Any] = (
    dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "encoder_dim")
        + ("hidden_dim", "hidden_size_global", "embedding_dim", "text_hidden_size", "emb_dim")
        + ("out_hidden_size", "output_hidden_size", "projection_dim", "decoder_hidden_size")
        + ("encoder_hidden_size", "encoder_hidden_dim", "lru_width", "audio_hidden_size")
        + ("attention_hidden_size", "d_embed", "output_dim", "hidden_size_per_layer_input"),
        WIDTH,
    )
    | dict.fromkeys(
        ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "n_inner")
        + ("moe_intermediate_size", "mlp_dim", "shared_expert_intermediate_size", "d_inner")
        + ("moe_shared_expert_intermediate_size", "shared_intermediate_size", "inner_dim")
        + ("decoder_intermediate_size", "ffn_hidden_size", "d_ffn", "feed_forward_size"),
        48,
    )
    | dict.fromkeys(
        ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
        + ("n_layers", "num_decoder_layers", "depth", "encoder_num_hidden_layers")
        + ("decoder_num_hidden_layers", "num_encoder_layers", "resampler_depth"),
        2,
    )
    | dict.fromkeys(
        ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "n_heads")
        + ("decoder_attention_heads", "attention_heads", "decoder_num_attention_heads")
        + ("encoder_num_attention_heads", "num_encoder_attention_heads", "index_n_heads"),
        NUM_HEADS,
    )
    | dict.fromkeys(("num_key_value_heads", "n_group", "topk_group"), 2)
    | dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "qk_nope_head_dim", "attention_head_dim"), 8)
    | {"qk_rope_head_dim": 4, "qk_head_dim": 12, "q_lora_rank": 16, "kv_lora_rank": 16}
    | {"rotary_dim": 4, "index_head_dim": 8, "index_topk": 6, "global_head_dim": 8}
    | dict.fromkeys(
        ("max_position_embeddings", "n_positions", "max_source_positions", "seq_length")
        + ("max_target_positions", "model_max_length", "max_seq_len"),
        64,
    )
    | dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "text_vocab_size"), VOCAB)
    | dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4)
    | dict.fromkeys(("num_experts_per_tok", "moe_topk", "num_experts_per_token"), 2)
    | {"first_k_dense_replace": 1, "sliding_window": 5, "window_size": 4, "local_window_size": 4}
    | {"image_size": 32, "patch_size": 8, "spatial_merge_size": 2, "num_mel_bins": 16}
    | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 2}
    | {"forced_eos_token_id": None, "forced_bos_token_id": None, "sep_token_id": 3}
    | {"cls_token_id": 4, "mask_token_id": 5, "linear_num_key_heads": 2}
    | {"linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    | {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "hidden_sizes": [16, 32, 32, 32]}
    | {
        "conv_dim": [8, 8],
        "conv_stride": [3, 2],
        "conv_kernel": [4, 3],
        "num_frames": 4,
        "frames_per_clip": 4,
        "crop_size": 32,
    }
    | {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "tdnn_dim": [8, 8]}
    | {
        "num_conv_pos_embedding_groups": 2,
        "num_queries": 5,
    }
    | {"attn_layer_indices": [0], "attn_layer_period": 2, "attn_layer_offset": 0, "moe_k": 2}
    | {"block_types": ["recurrent", "attention"], "hybrid_override_pattern": "*-"}
    | {
        "layer_types": None,
        "mlp_layer_types": None,
        "layers_block_type": None,
        "num_query_tokens": 4,
        "codevector_dim": 16,
    }
)
"""Values of configurations' fields, by name, wherever a field of that name is there."""
DEPTHS: Mapping[str, Any] = {
    name: SIZES[name]
    for name in ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
    + ("n_layers", "num_decoder_layers", "depth", "vocab_size", "bos_token_id", "eos_token_id")
    + ("pad_token_id", "decoder_start_token_id", "layer_types", "mlp_layer_types")
    + ("layers_block_type", "max_position_embeddings", "num_experts", "n_routed_experts")
}
"""The same for models whose widths depend on each other: fewer layers of the usual width."""
SWIN: Mapping[str, Any] = {
    "image_size": 64,
    "patch_size": 2,
    "window_size": 4,
    "depths": [1, 2],
    "num_heads": [2, 4],
    "embed_dim": 16,
}
HYBRID: Mapping[str, Any] = {"layer_types": ["linear_attention", "full_attention"]}
"""One layer of each kind."""
OF_TYPES: Mapping[str, Mapping[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "swin": SWIN,
    "donut-swin": SWIN,
    "maskformer-swin": SWIN,
    "xmod": {"default_language": "en_XX"},
    "bamba": {"attn_layer_indices": [0, 1]},
    "luke": {"entity_vocab_size": 20},
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text"), {"head_dim": 8}),
    "ministral": {"head_dim": 8},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": {
        "intermediate_size": [48, 48],
        "activation_sparsity_pattern": [0.5, 0.0],
        "num_kv_shared_layers": 0,
        "laurel_rank": 8,
    },
    "glm5_next_text": {
        "layer_types": ["linear_attention", "indexed_attention"],
        "index_kpool": 2,
        "qk_rope_head_dim": 0,
        "head_dim": 0,
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "moonshine_streaming": {"num_key_value_heads": NUM_HEADS},
    "moonshine_streaming_encoder": {"sliding_windows": [[4, 2], [4, 0]]},
    "neomme": {"per_layer_config": {}},
    "qwen4_exp_text": {
        "layer_types": ["linear_attention", "indexed_attention"],
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 6,
        "indexer_compress_ratio": 2,
    },
    "dots1": {"n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2},
    "granite_speech5_encoder": {"context_size": 16},
    "granitemoehybrid": HYBRID | {"num_key_value_heads": 2},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "full_attention"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "n_groups": 2,
    },
    "bailing_hybrid": HYBRID | {"head_dim": 4},
    "kimi_linear": HYBRID
    | {"linear_num_heads": 4, "linear_head_dim": 8, "num_expert_group": 1, "topk_group": 1},
    "longcat_flash": {"head_dim": 4, "num_key_value_heads": 4, "zero_expert_num": 2},
    "zamba2": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "n_mamba_heads": 8,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "hybrid_layer_ids": [1, 3],
    },
    "zamba": {
        "num_hidden_layers": 6,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention"] * 2,
        "n_mamba_heads": 2,
        "mamba_dt_rank": 4,
    },
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [2, 1, 1],
            }
        },
    },
    "wav2vec2-bert": {"num_mel_bins": 160},
    **dict.fromkeys(("qwen2_5_vl_vision", "exaone4_5_vision"), {"window_size": 32}),
    "glm4v_moe_text": {
        "head_dim": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        },
    },
    "swin2sr": {"image_size": 16, "patch_size": 1, "window_size": 4, "depths": [2, 2]}
    | {"num_heads": [2, 2], "embed_dim": 16},
    "segformer": {"depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 4, 4]},
    "cvt": {"embed_dim": [16, 32, 32], "num_heads": [1, 2, 4], "depth": [1, 1, 2]},
}
"""Sizes of single types whose fields depend on each other."""
