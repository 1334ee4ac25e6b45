"""GGUF: an even model in llama.cpp's format, in float32, with configuration and tokenizer.

llama.cpp holds one number of heads for all layers, so that only models whose folder is a stock one
can be written (`plain`). Names of tensors are those that the package gguf maps; Llama's queries and
keys are in the order that llama.cpp rotates, in which neighbours form a pair. The file is proved by
transformers, which reads it back: the outputs must equal those of the model.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from headcount.core import InputError, ModelError
from headcount.models import Loaded

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""llama.cpp's name of the architecture, by `model_type`."""

_WORDS = {"qwen2": "qwen2", "qwen3": "qwen2"}
"""llama.cpp's name for how a tokenizer cuts words, by `model_type`; `default` for others."""


def check_can_be_gguf(loaded: Loaded, is_plain: bool) -> None:
    """Check that a model can be written before anything is.

    Args:
        loaded: The model.
        is_plain: Whether its folder is a stock one.

    Raises:
        InputError: If a package is missing, or the model can't be told in GGUF.
    """
    _package()
    config = loaded.model.config
    if config.model_type not in ARCHITECTURES:
        raise InputError(
            f"Expected a model of a type out of {', '.join(ARCHITECTURES)} to export to GGUF, got "
            f"{config.model_type}. Export it to ONNX."
        )
    if not is_plain:
        raise InputError(
            "Expected a model whose layers all have equally many heads and neurons, since GGUF "
            "holds one number for all, got an uneven one. Prune with --even, or export to ONNX."
        )
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type", "default") != "default":
        raise InputError(
            f"Expected plain rotary positions to export to GGUF, got {rope['rope_type']}. Export "
            "the model to ONNX."
        )
    if loaded.tokenizer is None:
        raise InputError(
            f"Expected a tokenizer, which a GGUF file holds, got {loaded.name} without one."
        )


def write_gguf(loaded: Loaded, path: Path) -> None:
    """Write a model that `check_can_be_gguf` accepts.

    Raises:
        ModelError: If llama.cpp has no name for one of its tensors, or can't hold its tokenizer.
    """
    gguf, config = _package(), loaded.model.config
    kind = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, kind)
    _add_sizes(writer, config)
    writer.add_name(Path(loaded.name).name)
    assert loaded.tokenizer is not None
    _add_tokenizer(writer, loaded.tokenizer, config)
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tied = set(getattr(loaded.model, "all_tied_weights_keys", {}))
    for name, tensor in loaded.model.state_dict().items():
        if name in tied:
            continue
        if (found := names.get_name(name, try_suffixes=(".weight", ".bias"))) is None:
            raise ModelError(
                f"Expected tensors that llama.cpp knows in a {kind}, got {name}. Export the model "
                "to ONNX."
            )
        writer.add_tensor(found, _values(found, tensor, config, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: Any, config: PreTrainedConfig) -> None:
    """Add what a loader must know of the model."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = getattr(config, "rope_parameters", None) or {}
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(float(rope.get("rope_theta", 10_000.0)))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(0)  # all tensors in float32


def _add_tokenizer(
    writer: Any, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
) -> None:
    """Add the vocabulary, its merges, and the special tokens."""
    from gguf import TokenType, vocab

    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        try:
            made = _vocabulary(Path(folder))
            special = vocab.SpecialVocab(folder, load_merges=made.tokenizer_model == "gpt2")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"Expected a tokenizer that GGUF can hold, got a {type(tokenizer).__name__}: "
                f"{error}. Export the model to ONNX."
            ) from error
        tokens, scores, types = map(list, zip(*made.all_tokens(), strict=True))
        for number in range(len(tokens), config.vocab_size):  # rows without a token
            tokens.append(f"[PAD{number}]")
            scores.append(-1000.0)
            types.append(TokenType.UNUSED)
        writer.add_tokenizer_model(made.tokenizer_model)
        writer.add_tokenizer_pre(_WORDS.get(config.model_type, "default"))
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types(types)
        special.add_to_gguf(writer, quiet=True)


def _vocabulary(folder: Path) -> Any:
    """The vocabulary of a tokenizer's folder: byte-level, or with scores."""
    from gguf import vocab

    try:
        return vocab.BpeVocab(folder)
    except FileNotFoundError:  # raised for a tokenizer of another kind
        return vocab.LlamaHfVocab(folder)


def _values(
    name: str, tensor: Tensor, config: PreTrainedConfig, kind: str
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A tensor as llama.cpp holds it."""
    values = tensor.detach().float().cpu().numpy()
    heads = {".attn_q.": config.num_attention_heads, ".attn_k.": config.num_key_value_heads}
    number = next((count for part, count in heads.items() if part in name), None)
    if kind == "llama" and number is not None:
        halves = values.reshape(number, 2, -1, *values.shape[1:])
        values = halves.swapaxes(1, 2).reshape(values.shape)
    return np.ascontiguousarray(values)


def _package() -> Any:
    try:
        import gguf
    except ImportError as error:
        raise InputError(
            f"Export to GGUF needs an extra package: pip install 'headcount[gguf]' ({error})"
        ) from error
    return gguf
