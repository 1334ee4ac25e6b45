"""Transcription: losses of a Whisper on recordings, and its word error rate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import headcount as hc
from headcount.core import CorpusError, InputError, ModelError
from headcount.models import Loaded
from headcount.tasks import Evaluation, Transcription, build, evaluate, fitting
from headcount.tasks.transcription import word_errors
from tests.tasks import loaded as small
from tests.wordtimes import speech


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return hc.load(speech.whisper(tmp_path_factory.mktemp("whisper"), multilingual=True))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.recordings(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def task(loaded: Loaded, sound: Path) -> Transcription:
    made = build("transcription", loaded, sound, language="german")
    assert isinstance(made, Transcription)
    return made


def test_losses_are_those_of_transformers(loaded: Loaded, task: Transcription) -> None:
    """Recording by recording, by the model's own mean over labels."""
    found, tokenizer = evaluate(loaded.model, task), loaded.tokenizer
    assert tokenizer is not None
    extract = task.speech.extractor
    forced: Any = tokenizer.convert_tokens_to_ids(
        ["<|startoftranscript|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>"]
    )
    for number, recording in enumerate(task.recordings):
        samples, rate = soundfile.read(recording.path, dtype="float32")
        features = extract(samples, sampling_rate=rate, return_tensors="pt").input_features
        said: Any = tokenizer(f" {recording.text}", add_special_tokens=False)["input_ids"]
        labels = torch.tensor([[-100] * 3 + said + [tokenizer.eos_token_id]])
        with torch.inference_mode():
            loss = loaded(features, decoder_input_ids=torch.tensor([forced + said]), labels=labels)
        assert found.count_N[number] == len(said) + 1
        assert found.loss_N[number] / found.count_N[number] == pytest.approx(
            float(loss.loss), rel=1e-5
        )


@pytest.mark.slow
def test_recordings_do_not_depend_on_their_batch(loaded: Loaded, task: Transcription) -> None:
    together, alone = evaluate(loaded.model, task, 10**6), evaluate(loaded.model, task, 1)
    np.testing.assert_allclose(together.loss_N, alone.loss_N, rtol=1e-5)
    assert task.transcribe(loaded.model, 10**6) == task.transcribe(loaded.model, 1)


def test_word_error_rates(task: Transcription) -> None:
    texts = ["A dog barked!", "he sleeps", "the old cat", "did you did you hear the rain"]
    outcome_N = np.array(texts, dtype=object)
    found = Evaluation(np.ones(4), np.ones(4, int), outcome_N)
    assert [word_errors(*pair)[0] for pair in zip(speech.TEXTS, texts, strict=True)] == [0, 2, 1, 2]
    assert task.score(found) == pytest.approx(5 / 15)
    assert task.score(found, np.array([2, 2])) == pytest.approx(1 / 3)
    assert not task.higher_is_better and word_errors("...", "a b") == (2, 0)
    with pytest.raises(InputError, match="Expected transcripts to compute wer"):
        task.score(Evaluation(np.ones(4), np.ones(4, int), np.full(4, np.nan)))


def test_some_of_the_recordings(task: Transcription) -> None:
    part = task.some(np.array([3, 1]))
    assert [each.text for each in part.recordings] == [speech.TEXTS[3], speech.TEXTS[1]]
    batch = part.batch(np.array([0, 1]))
    assert batch.inputs["input_features"].shape == (2, 19, 2 * speech.POSITIONS)
    assert part.sha256 != task.sha256


def test_what_cant_be_transcribed_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    speech.recordings(tmp_path)
    soundfile.write(tmp_path / "take1.wav", np.zeros(4000), speech.RATE)
    with pytest.raises(CorpusError, match=r"take1.wav is silent. Remove it\."):
        build("transcription", loaded, tmp_path, language="de")
    with pytest.raises(ModelError, match="Expected a Whisper .* for transcription"):
        build("transcription", small.loaded("BertForMaskedLM"), tmp_path)
    assert fitting(loaded.model) == ["transcription"]
