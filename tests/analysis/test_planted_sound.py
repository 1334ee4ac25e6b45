"""A Whisper whose weights are set by hand: each head looks where a program says, and is found."""

from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import transformers as hf

import headcount as hc
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.results import Analysis
from tests import speech

WAVES = 16
"""Number of waves, a cosine and a sine each, that say where a frame is."""
PACE = torch.pi * (torch.arange(1, WAVES + 1) / WAVES) ** 1.5
"""Radians that each wave turns from one frame to the next; all together never come again."""
HALF = 2 * WAVES + 1
"""Numbers that a state holds: waves and loudness. Each is there twice, as x and as -x."""
WIDTH = 2 * HALF
DELAY, MOMENT = -4, 30
"""Frames to the one that a head looks at, and the one that another looks at in every recording."""
LOUD = HALF - 1


def _waves(frames: int) -> torch.Tensor:
    """Cosines and sines of every frame."""
    angle_FW = torch.arange(frames)[:, None] * PACE
    return torch.cat([angle_FW.cos(), angle_FW.sin()], 1)


def _turned(by: int) -> torch.Tensor:
    """What turns the waves of a frame into those of the one so many frames later."""
    turn = torch.zeros(2 * WAVES, 2 * WAVES)
    angle_W, place = by * PACE, torch.arange(WAVES)
    turn[place, place] = turn[place + WAVES, place + WAVES] = angle_W.cos()
    turn[place, place + WAVES], turn[place + WAVES, place] = -angle_W.sin(), angle_W.sin()
    return turn


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The encoder looks back and nearby, cross-attention at a moment and at silence."""
    folder = speech.whisper(tmp_path_factory.mktemp("whisper"))
    config: Any = hf.WhisperConfig.from_pretrained(folder)
    config.d_model, config.encoder_attention_heads, config.decoder_attention_heads = WIDTH, 2, 2
    config.encoder_layers = config.decoder_layers = 1
    model: Any = hf.WhisperForConditionalGeneration(config)
    generation: Any = hf.GenerationConfig.from_pretrained(folder)
    model.generation_config = generation
    waves_FW = _waves(speech.POSITIONS)
    with torch.no_grad():
        for name, each in model.named_parameters():
            is_scale = "norm" in name and name.endswith("weight")
            each.fill_(1.0 if is_scale else 0.0)
            if name.endswith(("v_proj.weight", "out_proj.weight", "embed_tokens.weight")):
                each.normal_(std=0.01, generator=torch.Generator().manual_seed(0))
        encoder, decoder = model.model.encoder, model.model.decoder
        encoder.embed_positions.weight[:, : 2 * WAVES] = waves_FW
        encoder.embed_positions.weight[:, HALF:-1] = -waves_FW
        encoder.conv1.weight[0, :, 1] = 1 / config.num_mel_bins  # mean loudness, of steps of 5 ms
        encoder.conv1.bias[0] = 1.0
        encoder.conv2.weight[LOUD, 0, 1] = 1.0
        # A gelu keeps no negative number, so -x is added where heads read it
        _set(encoder.layers[0].self_attn, 0, _turned(DELAY), sharp=3.0)
        _set(encoder.layers[0].self_attn, 1, torch.eye(2 * WAVES), sharp=6.0, waves=4)
        cross = decoder.layers[0].encoder_attn
        _set(cross, 0, None, sharp=3.0)
        cross.q_proj.bias[: 2 * WAVES] = 3.0 * waves_FW[MOMENT]
        _set(cross, 1, None, sharp=1.0)
        cross.k_proj.weight[HALF:] = 0
        cross.k_proj.weight[HALF, LOUD], cross.q_proj.bias[HALF] = -10.0, 10.0
    return Loaded(model.eval(), hc.load(folder).tokenizer, str(folder))


def _set(attention: Any, head: int, turn: torch.Tensor | None, sharp: float, waves: int = WAVES):
    """Let a head compare waves, turned on the side of the query; only the slowest of them."""
    first = HALF * head
    kept = torch.arange(2 * WAVES) % WAVES < waves
    attention.k_proj.weight[first : first + 2 * WAVES, : 2 * WAVES] = torch.diag(kept.float())
    if turn is not None:
        attention.q_proj.weight[first : first + 2 * WAVES, : 2 * WAVES] = sharp * turn


@pytest.fixture(scope="module")
def found(loaded: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder, generator = tmp_path_factory.mktemp("sound"), np.random.default_rng(0)
    for number in range(44):
        samples = generator.normal(0, 0.1, int(generator.uniform(0.5, 0.9) * speech.RATE))
        soundfile.write(folder / f"{number}.wav", samples, speech.RATE)
        (folder / f"{number}.txt").write_text("a dog barked all night")
    return hc.analyze(loaded, Corpus.of_recordings(folder))


def _roles(found: Analysis, head: str) -> set[tuple[str, str | None]]:
    return {(role.role, role.direction) for role in found.roles[head]}


@pytest.mark.once
def test_each_head_has_the_role_that_was_planted(found: Analysis) -> None:
    assert _roles(found, "enc.0.0") == {("positional", "40 ms earlier"), ("local", "0.1 s")}
    assert ("local", "0.1 s") in _roles(found, "enc.0.1")
    assert _roles(found, "cross.0.0") == {("spot", "0.30 s")}
    assert {role for role, _ in _roles(found, "cross.0.1")} == {"sink"}
    assert found.traits is not None
    shares = {(head, its.trait): its.share for head in found.traits for its in found.traits[head]}
    assert min(shares[each] for each in PLANTED) > 0.9, shares


PLANTED = (
    ("enc.0.0", "delay"),
    ("enc.0.1", "frames_near"),
    ("cross.0.0", "moment"),
    ("cross.0.1", "silence"),
)
"""What each head was made to do nearly always."""
