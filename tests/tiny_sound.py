"""A tiny Qwen2-Audio with its processor, made here: texts beside sound."""

from pathlib import Path
from typing import Any

import torch
import transformers as hf

from headcount import Loaded
from tests import tiny, tiny_pictures
from tests.speech import HOP, POSITIONS

BINS = 19


def qwen_audio() -> tuple[Any, Any]:
    """Qwen2-Audio that hears one second: frames behind the sound are masked."""
    special = {"audio_token": "<|AUDIO|>"}
    tokenizer = tiny_pictures.tokenizer(**special)
    tokenizer.add_tokens([*special.values(), "<|audio_bos|>", "<|audio_eos|>"], special_tokens=True)
    config = hf.Qwen2AudioConfig(
        text_config=hf.Qwen2Config(
            **{
                key: each
                for key, each in tiny_pictures.SIZES.items()
                if key not in ("head_dim", "vocab_size")
            },
            vocab_size=len(tokenizer) + 5,
        ),
        audio_config=hf.Qwen2AudioEncoderConfig(
            num_mel_bins=BINS,
            encoder_layers=2,
            encoder_attention_heads=2,
            encoder_ffn_dim=20,
            d_model=16,
            max_source_positions=POSITIONS,
        ),
        audio_token_index=tokenizer.convert_tokens_to_ids("<|AUDIO|>"),
    )
    extract: Any = hf.WhisperFeatureExtractor
    processor = hf.Qwen2AudioProcessor(
        feature_extractor=extract(feature_size=BINS, hop_length=HOP, chunk_length=1),
        tokenizer=tokenizer,
        chat_template=tiny_pictures.template("<|audio_bos|> <|AUDIO|> <|audio_eos|>").replace(
            "'image'", "'audio'"
        ),
    )
    return hf.Qwen2AudioForConditionalGeneration(config), processor


def loaded() -> Loaded:
    """The model of random weights with its processor."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, processor = qwen_audio()
    return Loaded(
        tiny.seeded(model).eval(), processor.tokenizer, "tiny qwen2_audio", processor=processor
    )


def chat(path: Path, text: str = "what is it ?", reply: str = "the dog .") -> dict[str, Any]:
    """A row of a chat about a recording."""
    parts = [{"type": "audio", "audio": str(path)}, {"type": "text", "text": text}]
    return {
        "messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": reply}]
    }
