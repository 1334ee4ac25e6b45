"""Word times of a tiny Whisper: transformers' own numbers, and input that can't be used."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import soundfile
import torch
from transformers.utils.generic import ModelOutput

import headcount as hc
from headcount.core import CorpusError, InputError, ModelError
from headcount.corpora import read_recordings
from headcount.models import Loaded
from headcount.wordtimes import TimedWord, WordTimesOptions, word_times
from headcount.wordtimes.comparison import halves
from headcount.wordtimes.document import word_times_document
from headcount.wordtimes.hearing import Forcing
from headcount.wordtimes.lists import Heard, MapsOnDisk
from headcount.wordtimes.warping import standardised, starts
from tests import speech

TWO = WordTimesOptions(heads=2, samples=50)


@pytest.fixture(scope="module")
def loaded(whisper: Path) -> Loaded:
    return hc.load(whisper)


@pytest.mark.slow
def test_times_are_those_of_transformers(loaded: Loaded, sound: Path, tmp_path: Path) -> None:
    """By the function with which `generate` reads times of tokens, from the model's own maps."""
    forcing, attentive = Forcing(loaded), cast("Any", loaded.model)
    recording = read_recordings(sound)[3]
    samples_N, _ = recording.samples(speech.RATE, 1.0)
    forced = forcing.of(samples_N, recording.words)
    gains_HRF = standardised(forced.maps_HRF)
    seconds = forcing.speech.frame_seconds
    chosen = [1, 5, 6]
    with (tmp_path / "maps").open("w+b") as file:
        kept = MapsOnDisk(file, gains_HRF)
        heard = Heard(kept, starts(gains_HRF), forced.first_rows, seconds, 0.8)
        spans_W2 = heard.spans_of(chosen)
    tokenizer: Any = loaded.tokenizer
    ids = tokenizer.convert_tokens_to_ids(["<|startoftranscript|>", "<|notimestamps|>"])
    ids += tokenizer(f" {recording.text}", add_special_tokens=False).input_ids
    features = forcing.speech.features(samples_N)
    attentive.set_attn_implementation("eager")
    with torch.inference_mode():
        sees = {"decoder_input_ids": torch.tensor([ids]), "output_attentions": True}
        own = attentive(features, **sees).cross_attentions
    attentive.set_attn_implementation("sdpa")
    frames = len(samples_N) // speech.HOP // 2
    own_HRF = torch.cat(own, 1)[0, :, 1:, :frames]
    np.testing.assert_allclose(forced.maps_HRF, own_HRF.numpy(), rtol=1e-3, atol=1e-5)
    # The same numbers to the last bit, so that both find the same path on any processor
    given_BHRF = torch.cat(own, 1).clone()
    given_BHRF[0, :, 1:, :frames] = torch.from_numpy(forced.maps_HRF)
    given = ModelOutput(
        cross_attentions=(given_BHRF.split(3, 1),), sequences=torch.tensor([[*ids, 0]])
    )
    pairs = [[head // 3, head % 3] for head in chosen]
    how = {"num_frames": 2 * frames, "num_input_ids": 1}
    times = attentive._extract_token_timestamps(given, pairs, seconds, **how)
    bounds = times[0, 1:-1].numpy()[[*forced.first_rows]]
    np.testing.assert_allclose(spans_W2[:, 0], bounds[:-1], atol=1e-6)
    np.testing.assert_allclose(spans_W2[:, 1], bounds[1:], atol=1e-6)


def test_the_loss_is_the_models_own(loaded: Loaded, sound: Path) -> None:
    forcing = Forcing(loaded)
    recording = read_recordings(sound)[0]
    samples_N, _ = recording.samples(speech.RATE, 1.0)
    tokenizer: Any = loaded.tokenizer
    ids = tokenizer(f" {recording.text}", add_special_tokens=False).input_ids
    start = tokenizer.convert_tokens_to_ids(["<|startoftranscript|>", "<|notimestamps|>"])
    features = forcing.speech.extractor(samples_N, sampling_rate=speech.RATE, return_tensors="pt")
    labels = torch.tensor([[-100, *ids, tokenizer.eos_token_id]])
    with torch.inference_mode():
        expected = loaded(
            features.input_features, decoder_input_ids=torch.tensor([[*start, *ids]]), labels=labels
        ).loss
    assert forcing.of(samples_N, recording.words).loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.slow
def test_a_language_that_is_heard_or_named(tmp_path: Path, sound: Path) -> None:
    loaded = hc.load(speech.whisper(tmp_path, multilingual=True))
    heard = word_times(loaded, sound, options=TWO)
    named = [word_times(loaded, sound, options=WordTimesOptions(2, each)) for each in ("de", "en")]
    assert named[0].words != named[1].words
    assert heard.words in [each.words for each in named]
    german = WordTimesOptions(2, "german")
    assert word_times(loaded, sound, options=german).words == named[0].words
    with pytest.raises(InputError, match=r"knows \(de, en\), got klingon"):
        word_times(loaded, sound, options=WordTimesOptions(language="klingon"))


SAID = " ".join(speech.TEXTS).split()


SOUNDS: dict[str, tuple[Any, int]] = {
    "is silent": (np.zeros(4000), speech.RATE),
    "lasts 0 seconds": (np.zeros(0), speech.RATE),
    "has samples that are no numbers": (np.full(4000, np.nan), speech.RATE),
}
"""Why a recording is left out, with its samples."""


@pytest.mark.once
@pytest.mark.parametrize("why", SOUNDS)
def test_sound_that_cant_be_used_is_left_out_and_counted(
    loaded: Loaded, tmp_path: Path, why: str
) -> None:
    speech.recordings(tmp_path)
    samples, rate = SOUNDS[why]
    soundfile.write(tmp_path / "bad.wav", samples, rate, subtype="FLOAT")
    (tmp_path / "bad.txt").write_text("a dog")
    found = word_times(loaded, tmp_path, options=TWO)
    assert found.record.recordings == 4
    assert f"1 of 5 recordings left out: bad {why}" in found.record.warnings


@pytest.mark.parametrize(
    ("samples", "why"),
    [(np.zeros(40_000), "is silent"), (np.full(40_000, np.nan), "has samples that are no numbers")],
)
def test_long_sound_that_cant_be_used_is_left_out(
    loaded: Loaded, tmp_path: Path, samples: np.ndarray, why: str
) -> None:
    speech.recordings(tmp_path)
    soundfile.write(tmp_path / "bad.wav", samples, speech.RATE, subtype="FLOAT")
    (tmp_path / "bad.txt").write_text("a dog")
    (warning,) = word_times(loaded, tmp_path, options=TWO).record.warnings
    assert warning == f"1 of 5 recordings left out: bad {why}"


def test_a_long_recording_is_read_in_pieces(loaded: Loaded, sound: Path, tmp_path: Path) -> None:
    """Its words come once each, in their order, at times of the whole recording."""
    parts = [each.samples(speech.RATE, 1.0)[0] for each in read_recordings(sound)]
    soundfile.write(tmp_path / "long.wav", np.concatenate(parts), speech.RATE)
    (tmp_path / "long.txt").write_text(" ".join(speech.TEXTS))
    times = [TimedWord(word, 0.1 * n, 0.1 * n) for n, word in enumerate(SAID)]
    found = word_times(loaded, tmp_path, {"long": times}, TWO)
    assert [row.word for row in found.words] == SAID
    assert [row.start for row in found.words] == sorted(row.start for row in found.words)
    assert {row.recording for row in found.words} == {"long"} and found.words[-1].end > 1.5
    assert found.record.recordings == found.record.timed == 1 and not found.lists
    assert found.record.prepared[0].startswith("1 of 1 recording longer than the model reads")


@pytest.mark.parametrize(
    ("text", "sound", "why"),
    [
        ("", b"", "has an empty transcript"),
        ("a dog", b"RIFF", "can't be read as sound"),
        ("a dog barked " * 20, None, "more tokens than the model takes (40)"),
    ],
)
def test_files_that_cant_be_used_are_left_out(
    loaded: Loaded, tmp_path: Path, text: str, sound: bytes | None, why: str
) -> None:
    speech.recordings(tmp_path)
    (tmp_path / "take1.txt").write_text(text)
    if sound:
        (tmp_path / "take1.wav").write_bytes(sound)
    (warning,) = word_times(loaded, tmp_path, options=TWO).record.warnings
    assert warning.startswith("1 of 4 recordings left out: take1") and why in warning


def test_stereo_of_another_rate_is_mixed_and_resampled(loaded: Loaded, tmp_path: Path) -> None:
    speech.recordings(tmp_path, rate=8000, channels=2)
    found = word_times(loaded, tmp_path, options=TWO)
    said = "mixed 2 channels to one and resampled from 8,000 to 16,000 Hz."
    assert found.record.prepared == (f"4 of 4 recordings {said}",)
    assert not found.record.warnings


def test_resampling_keeps_a_tone() -> None:
    from headcount.corpora.recordings import resampled

    tone = np.sin(2 * np.pi * 440 * np.arange(22_050) / 22_050).astype(np.float32)
    found = resampled(tone, 22_050, 16_000)
    expected = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert len(found) == 16_000
    np.testing.assert_allclose(found[400:-400], expected[400:-400], atol=0.01)


def test_the_transcript_of_another_recording_is_left_out(
    loaded: Loaded, sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny model finds all transcripts alike, so the loss of one is raised by hand."""
    from headcount.wordtimes import hearing

    assert hearing.fits([0.3, 0.2, 0.5, 4.1, 0.4]) == [True, True, True, False, True]
    assert all(hearing.fits([0.3, 0.2, 0.5, 2.1, 0.4])) and hearing.fits([]) == []
    monkeypatch.setattr(hearing, "fits", lambda losses: [each != losses[2] for each in losses])
    (warning,) = word_times(loaded, sound, options=TWO).record.warnings
    assert warning.startswith("1 of 4 recordings left out: take2 has a transcript that the model")


TIMES = (TimedWord("A", 0.0, 0.2), TimedWord("dog", 0.2, 0.3), TimedWord("barked.", 0.3, 0.5))


@pytest.mark.parametrize(
    ("timed", "said"),
    [
        (TIMES[:2], "expected the times of 3 words, as in its transcript, got 2"),
        ((*TIMES[:2], TimedWord("ran", 0.3, 0.5)), "word 3 of its transcript, 'barked', got those"),
        ((*TIMES[:2], TimedWord("barked", 0.3, 0.6)), "within its 0.50 s, got 'barked' from 0.3"),
        ((TIMES[0], TimedWord("dog", 0.1, 0.3), TIMES[2]), "before 'A' ends at 0.2 s"),
    ],
)
def test_word_times_that_do_not_fit(
    loaded: Loaded, sound: Path, timed: tuple[TimedWord, ...], said: str
) -> None:
    with pytest.raises(CorpusError, match=said):
        word_times(loaded, sound, {"take0": timed}, TWO)


def test_word_times_of_other_recordings(loaded: Loaded, sound: Path) -> None:
    with pytest.raises(CorpusError, match="got those of other. Name recordings as their files"):
        word_times(loaded, sound, {"other": TIMES}, TWO)
    found = word_times(loaded, sound, {"take0": TIMES}, TWO)
    assert found.record.timed == 1 and not found.lists  # one recording has no halves


def test_the_order_of_heads_is_compared_with_the_models_own_list(
    loaded: Loaded, sound: Path
) -> None:
    """Two heads of nine, ranked first and third: of 14 pairs, 13 are in order.

    Drawn again, the list is twice the third head with probability 1/4, and the second head is twice
    or more among the others with 0.26, three times with 0.07: 5/7 is the quantile of 2.5 %.
    """
    found = word_times(loaded, sound, options=TWO)
    rows = tuple(
        replace(row, is_own=row.rank in (1, 3), disagreement_ms=float(row.rank))
        for row in found.rows
    )
    text = str(word_times_document(replace(found, rows=rows)).blocks[0])
    assert "1 of them are in the model's own list of 2." in text
    assert "AUROC of 0.93 (95 % interval over heads: 0.71 to 1.00)" in text


def test_halves_are_of_other_speakers(sound: Path) -> None:
    """By turns where speakers are not known."""
    takes = read_recordings(sound)
    assert halves(takes, [0, 1, 3]) == ([0, 3], [1])
    said = [replace(each, speaker=name) for each, name in zip(takes, "abba", strict=True)]
    assert halves(said, [0, 1, 2, 3]) == ([0, 3], [1, 2])
    assert halves(said, [0, 3]) == ([0], [3])  # one speaker


def test_another_model_is_refused(sound: Path, marian: Path) -> None:
    with pytest.raises(ModelError, match=r"Expected a Whisper, got .* \(marian\)"):
        word_times(hc.load(marian), sound)
