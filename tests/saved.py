"""Tiny random models saved with a tiny tokenizer, as a user's folder is."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tests import tiny_tokenizers

SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 31,
}


def bert(folder: Path) -> Path:
    """An encoder of 2 layers x 3 heads that takes 64 tokens."""
    tokenizer = tiny_tokenizers.wordpiece()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SIZES)
    return save(folder, BertForMaskedLM, config, tokenizer)


def encoder(folder: Path) -> Path:
    """The same without a head."""
    tokenizer = tiny_tokenizers.wordpiece()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SIZES)
    return save(folder, BertModel, config, tokenizer)


def gpt2(folder: Path) -> Path:
    """A decoder of 2 layers x 3 heads without padding token."""
    tokenizer = tiny_tokenizers.byte_level("gpt2")
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=24,
        n_layer=2,
        n_head=3,
        n_positions=128,
        bos_token_id=number(tokenizer.bos_token_id),
        eos_token_id=number(tokenizer.eos_token_id),
    )
    return save(folder, GPT2LMHeadModel, config, tokenizer)


def llama(folder: Path) -> Path:
    """A decoder of 2 layers x 4 query heads that share 2 key/value heads."""
    tokenizer = tiny_tokenizers.llama()
    sizes: dict[str, Any] = SIZES | {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), **sizes)
    return save(folder, LlamaForCausalLM, config, tokenizer)


def marian(folder: Path, unused_targets: int | None = None) -> Path:
    """An encoder-decoder with a slow tokenizer and 2 layers x 3 heads at each of three sites.

    With a number of unused target pieces, each side has a vocabulary of its own.
    """
    pieces = folder / "pieces"
    pieces.mkdir(parents=True)
    separate = unused_targets is not None
    tokenizer = tiny_tokenizers.marian(pieces, separate, unused_targets or 0)
    config = MarianConfig(
        vocab_size=len(tokenizer),
        decoder_vocab_size=len(tokenizer.target_encoder) if separate else None,
        share_encoder_decoder_embeddings=not separate,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=31,
        decoder_ffn_dim=31,
        max_position_embeddings=64,
        pad_token_id=number(tokenizer.pad_token_id),
        eos_token_id=number(tokenizer.eos_token_id),
        decoder_start_token_id=number(tokenizer.pad_token_id),
        forced_eos_token_id=number(tokenizer.eos_token_id),
        bos_token_id=None,
    )
    save(folder, MarianMTModel, config, tokenizer)
    generation = GenerationConfig.from_pretrained(folder)
    generation.max_length = 16  # a random model ends few translations by itself
    generation.save_pretrained(folder)
    return folder


def number(token_id: object) -> int:
    """The id of a special token, which transformers types as Any."""
    assert isinstance(token_id, int)
    return token_id


def save(
    folder: Path,
    make: type[PreTrainedModel],
    config: PreTrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
) -> Path:
    """Build from the config with seeded weights that make attention uneven, and save both."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = make(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
