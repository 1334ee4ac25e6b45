"""The tower of a model of texts and sound is analysed as a model of recordings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from headcount import Corpus, Options, analyze, load
from headcount.commands import main
from headcount.core import ModelError
from headcount.results import read_run
from tests import speech, tiny_sound
from tests.analysis.test_towers import Maps, recording


def test_weights_are_those_inside_the_whole_model(tmp_path: Path) -> None:
    """Of an eager stock model that hears each recording beside a text."""
    sound, loaded = speech.recordings(tmp_path / "sound"), tiny_sound.loaded()
    corpus = Corpus.of_recordings(sound)
    found = analyze(loaded, corpus, Options(null=False))
    entropies, model = list[np.ndarray](), loaded.model
    for sentence in corpus:
        assert sentence.sound is not None
        samples, _ = soundfile.read(sentence.sound.path, dtype="float32")
        inputs = loaded.processor(
            text="<|AUDIO|> what",
            audio=[samples],
            sampling_rate=speech.RATE,
            return_tensors="pt",
        )
        maps: Maps = {}
        with torch.no_grad(), recording(model.config.audio_config, maps):
            model(**inputs)
        number = (int(inputs["feature_attention_mask"].sum()) - 1) // 2 + 1
        A_LHQK = np.stack([each[0] for [each] in maps.values()])
        assert not A_LHQK[..., number:].any() and number < speech.POSITIONS
        A_LHQK = A_LHQK[:, :, :number, :number]
        entropies.append(-(A_LHQK * np.log(A_LHQK)).sum(-1))
    expected = np.concatenate(entropies, axis=-1).mean(-1)
    frame = found.heads.frame
    assert frame["head"].tolist() == ["enc.0.0", "enc.0.1", "enc.1.0", "enc.1.1"]
    np.testing.assert_allclose(frame["entropy"], expected.flatten(), atol=2e-5)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of recordings is read as sound, and the same model reads texts."""
    model, processor = tiny_sound.qwen_audio()
    model.save_pretrained(tmp_path / "model")
    processor.save_pretrained(tmp_path / "model")
    sound = speech.recordings(tmp_path / "sound")
    main(["analyze", str(tmp_path / "model"), str(sound), "--out", str(tmp_path / "run")])
    assert "enc" in capsys.readouterr().out
    assert len(read_run(tmp_path / "run").heads.frame) == 4
    assert load(tmp_path / "model").processor is not None


def test_a_model_without_a_processor_is_refused(tmp_path: Path) -> None:
    loaded: Any = tiny_sound.loaded()
    corpus = Corpus.of_recordings(speech.recordings(tmp_path))
    with pytest.raises(ModelError, match="Expected a processor beside the weights of tiny"):
        analyze(type(loaded)(loaded.model, loaded.tokenizer, "tiny"), corpus)
