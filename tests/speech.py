"""A tiny Whisper with a tokenizer, and a folder of recordings of noise, as a user's are."""

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import transformers as hf

from tests import tiny, tiny_tokenizers

RATE, HOP = 16_000, 80
"""Samples in a second, and in one of the extractor's steps: a frame is 10 ms."""
POSITIONS = 100
TEXTS = ("a dog barked", "he sleeps at night", "the old dog", "did you hear the rain")
LANGUAGES = {"<|en|>": "en", "<|de|>": "de"}


def whisper(folder: Path, multilingual: bool = False) -> Path:
    """A Whisper of 3 x 3 cross-attention heads that hears one second."""
    tokenizer: Any = tiny_tokenizers.byte_level("gpt2")
    special = ["<|startoftranscript|>", *LANGUAGES, "<|transcribe|>", "<|notimestamps|>"]
    tokenizer.add_tokens(special, special_tokens=True)
    number = tokenizer.convert_tokens_to_ids
    config = hf.WhisperConfig(
        vocab_size=len(tokenizer),
        d_model=30,
        encoder_layers=1,
        decoder_layers=3,
        encoder_attention_heads=2,
        decoder_attention_heads=3,
        encoder_ffn_dim=17,
        decoder_ffn_dim=17,
        num_mel_bins=19,
        max_source_positions=POSITIONS,
        max_target_positions=40,
        pad_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=number(special[0]),
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model: Any = tiny.seeded(hf.WhisperForConditionalGeneration(config))
    generation = model.generation_config
    generation.is_multilingual, generation._from_model_config = multilingual, False
    generation.lang_to_id = {name: number(name) for name in LANGUAGES}
    generation.no_timestamps_token_id = number("<|notimestamps|>")
    model.save_pretrained(folder)
    extract: Any = hf.WhisperFeatureExtractor
    extract(feature_size=19, hop_length=HOP, chunk_length=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def recordings(folder: Path, rate: int = RATE, channels: int = 1) -> Path:
    """Noise of some tenths of a second beside transcripts."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for place, text in enumerate(TEXTS):
        seconds = 0.5 + 0.1 * place
        samples = generator.normal(0, 0.1, (int(seconds * rate), channels))
        soundfile.write(folder / f"take{place}.wav", samples, rate)
        (folder / f"take{place}.txt").write_text(text)
    return folder


def words_ctm(path: Path) -> Path:
    """Word times: every word of a recording lasts as long as the others."""
    lines = [";; comment"]
    for place, text in enumerate(TEXTS):
        words = text.split()
        each = (0.5 + 0.1 * place) / len(words)
        lines += [f"take{place} 1 {n * each:.4f} {each:.4f} {w}" for n, w in enumerate(words)]
    path.write_text("\n".join(lines) + "\n")
    return path
