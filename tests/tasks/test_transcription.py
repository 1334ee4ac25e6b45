"""Transcription: losses of a Whisper on recordings, and its word error rate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import headcount as hc
from headcount.core import CorpusError, InputError, ModelError
from headcount.corpora import Recording
from headcount.models import Loaded, shared_out
from headcount.tasks import Evaluation, Transcription, build, evaluate, fitting
from headcount.tasks.transcription import word_errors
from tests import speech
from tests.tasks import loaded as small


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


def test_a_long_recording_is_cut_where_it_is_quiet(tmp_path: Path) -> None:
    """The model reads one second: a word every half, quiet between them, and a silent second."""
    rate, spoken = speech.RATE, [(0.0, 0.4), (0.5, 0.85), (1.0, 1.3), (2.6, 3.0)]
    samples = np.zeros((3 * rate, 2))
    for first, last in spoken:
        samples[round(first * rate) : round(last * rate)] = 0.1
    path = tmp_path / "long.flac"
    soundfile.write(path, samples, rate)
    pieces = Recording("long", path, "a b c d").cut(1.0)
    starts = [each.start for each in pieces]
    ends = [each.start + (each.seconds or 0) for each in pieces]
    assert starts[1:] == pytest.approx([0.9, 2.3], abs=0.2)
    assert all(0 < last - first <= 1.0 + 1e-6 for first, last in zip(starts, ends, strict=True))
    for first, last in spoken:  # no word is cut
        assert any(a <= first and last <= b + 1e-6 for a, b in zip(starts, ends, strict=True))
    assert len(pieces[1].samples(rate, 1.0)[0]) == round((pieces[1].seconds or 0) * rate)
    whole = Recording("long", path, "a b c d")
    assert whole.cut(3.0) == [whole]


@pytest.mark.parametrize(
    ("heard", "ends"),
    [
        (["Uh, one", "three four."], [2, 4]),
        (["one two", "", "three four"], [2, 2, 4]),
        (["", ""], [4, 4]),
        (["nothing alike at all", "one two three four"], [0, 4]),
    ],
)
def test_words_are_shared_out_by_what_is_heard(heard: list[str], ends: list[int]) -> None:
    assert shared_out("One two three four".split(), heard) == ends


def test_pieces_of_a_long_recording_are_examples(loaded: Loaded, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    soundfile.write(tmp_path / "long.wav", generator.normal(0, 0.1, 2 * speech.RATE), speech.RATE)
    (tmp_path / "long.txt").write_text("a dog barked all night")
    task = build("transcription", loaded, tmp_path, language="de")
    assert isinstance(task, Transcription)
    said = [word for each in task.recordings for word in each.words]
    assert said == "a dog barked all night".split()
    assert all(each.path.stem == "long" for each in task.recordings)
    found = evaluate(loaded.model, task)
    assert int(found.count_N.sum()) > 5 and np.isfinite(found.loss_N).all()
