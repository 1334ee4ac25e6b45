"""What heads do on recordings: frames of sound, and the tokens of transcripts."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

import headcount as hc
from headcount.analysis import totals
from headcount.analysis.command import length_of
from headcount.analysis.frames import UNPLACED, LookedAt
from headcount.analysis.methods_section import methods_document
from headcount.core import CorpusError, InputError, LayerId
from headcount.corpora import Corpus
from headcount.corpora.halves import is_in_second_half
from headcount.measures import NEAR, FrameMoments, FrameTraits
from headcount.measures.units import Moments
from headcount.models import Loaded, encoder_of
from headcount.pages.card_view import cards
from headcount.pages.html import report_view
from headcount.pages.kinds import leading
from headcount.pages.names import columns_of, heard
from headcount.pages.opening import opening
from headcount.pages.sentences import frame_words, head_line, measured
from headcount.results import Analysis, Untested, read_run
from headcount.vocabulary import FRAME_TRAITS, SOUND
from tests import speech
from tests.results.test_findings import said, shown
from tests.textbook import confidence, entropy, frames, surface


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return hc.load(speech.whisper(tmp_path_factory.mktemp("whisper")))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.recordings(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def run(loaded: Loaded, sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    out = tmp_path_factory.mktemp("run")
    hc.analyze(loaded, Corpus.of_recordings(sound), out=out).write(out)
    return read_run(out)


def _maps(loaded: Loaded, sound: Path) -> list[tuple[Tensor, Tensor, int]]:
    """Maps of the encoder's layer and of the first cross-attention, and the sound's frames."""
    model: Any = hc.load(loaded.name).model
    model.set_attn_implementation("eager")
    encoder, found = Corpus.of_recordings(sound), []
    reads: Any = encoder_of(loaded, encoder)
    for sentence, pair in zip(encoder, reads.encode([*encoder]), strict=True):
        assert pair.target is not None and sentence.sound is not None
        inputs = reads.arguments([sentence], torch.zeros(1), torch.zeros(1))
        ids = torch.tensor([pair.target.ids])
        with torch.inference_mode():
            out = model(**inputs, decoder_input_ids=ids, output_attentions=True)
        seconds = soundfile.info(sentence.sound.path).duration
        size = int(seconds * speech.RATE) // (2 * speech.HOP)
        found.append((out.encoder_attentions[0][0], out.cross_attentions[0][0], size))
    return found


def test_near_frames_and_moments_by_the_book(loaded: Loaded, sound: Path) -> None:
    """Loops over frames, on the model's own maps; frames behind the sound are no queries."""
    near, cases = torch.zeros(2, dtype=torch.float64), 0
    moments, queries = torch.zeros(2, speech.POSITIONS, dtype=torch.float64), 0
    crossed, tokens = torch.zeros(3, speech.POSITIONS, dtype=torch.float64), 0
    for map_HQK, cross_HQK, size in _maps(loaded, sound):
        assert size < speech.POSITIONS == map_HQK.shape[-1]
        for query in range(size):
            first, last = max(0, query - NEAR), min(size, query + NEAR + 1)
            near += map_HQK[:, query, first:last].sum(-1)
            moments += map_HQK[:, query]
            cases, queries = cases + 1, queries + 1
        crossed, tokens = crossed + cross_HQK.sum(1), tokens + cross_HQK.shape[1]
    found = totals(loaded, Corpus.of_recordings(sound), (FrameTraits, FrameMoments)).sums
    by_place = {(kind, *place): its for (kind, place), its in found.items()}
    its: Any = by_place[FrameTraits, "encoder.self", 0]
    assert int(its.cases.sum()) == cases
    np.testing.assert_allclose(its.weight.sum(0)[0], near, rtol=1e-5)
    its = by_place[FrameMoments, "encoder.self", 0]
    assert int(its.tokens.sum()) == queries
    np.testing.assert_allclose(its.weight.sum(0), moments, rtol=1e-4, atol=1e-5)
    its = by_place[FrameMoments, "decoder.cross", 0]
    assert int(its.tokens.sum()) == tokens
    np.testing.assert_allclose(its.weight.sum(0), crossed, rtol=1e-4, atol=1e-5)
    assert {site for kind, site, _ in by_place if kind is FrameTraits} == {"encoder.self"}


def test_columns_of_cross_attention_by_the_book(loaded: Loaded, sound: Path) -> None:
    """From tokens to frames: silence is special and separates; a place has no meaning."""
    found = hc.analyze(loaded, Corpus.of_recordings(sound))
    maps = [(cross_HQK.numpy(), size) for _, cross_HQK, size in _maps(loaded, sound)]
    silent = [[key >= size for key in range(A.shape[2])] for A, size in maps]
    is_prompt = [[query < 2 for query in range(A.shape[1])] for A, _ in maps]
    sharp = [
        {"A": A, "query_is_special": asks, "key_is_special": its}
        for (A, _), asks, its in zip(maps, is_prompt, silent, strict=True)
    ]
    seen = [
        {"A": A, "key_is_sep": its, "key_is_punct": [False] * len(its)}
        for (A, _), its in zip(maps, silent, strict=True)
    ]
    book = surface.over_corpus(seen)
    expected = {
        "confidence": confidence.over_corpus(sharp),
        "entropy": entropy.over_corpus({"A": A} for A, _ in maps),
        **{f"attn_{name}": book[name] for name in ("first", "sep", "punct")},
    }
    rows = [row.values for row in found.rows if row.head.startswith("cross.0")]
    for name, numbers in expected.items():
        np.testing.assert_allclose([row[name] for row in rows], numbers, rtol=1e-4, atol=1e-6)
    assert all(np.isnan(row[name]) for row in rows for name in UNPLACED)
    assert found.offset_shares and not any(each[:5] == "cross" for each in found.offset_shares)


@pytest.mark.once
def test_traits_of_cross_attention_by_the_book(loaded: Loaded, tmp_path: Path) -> None:
    """Shares, chance and cases of the second half; the moment is chosen on the first."""
    generator = np.random.default_rng(1)
    for number in range(30):
        samples = generator.normal(0, 0.1, int(generator.uniform(0.4, 0.9) * speech.RATE))
        soundfile.write(tmp_path / f"{number:02}.wav", samples, speech.RATE)
        (tmp_path / f"{number:02}.txt").write_text(speech.TEXTS[number % 4])
    corpus = Corpus.of_recordings(tmp_path)
    found = hc.analyze(loaded, corpus).traits
    maps = [(cross_HQK.numpy(), size) for _, cross_HQK, size in _maps(loaded, tmp_path)]
    is_second = [is_in_second_half(each) for each in corpus]
    first, second = (
        [each for each, its in zip(maps, is_second, strict=True) if its is which]
        for which in (False, True)
    )
    assert found is not None and min(len(first), len(second)) >= 10
    for head in range(3):
        mean_K = sum(A[head].sum(0) for A, _ in first)
        rows = {its.trait: its for its in found[f"cross.0.{head}"]}
        moment = int(np.argmax(mean_K))
        assert rows["moment"].direction == f"{moment * speech.HOP * 2 / speech.RATE:.2f} s"
        for name, its in rows.items():
            given = [frames.of_sentence(A, size, name, moment) for A, size in second]
            weights = [weight for each in given for weight in each[head]]
            sizes = [speech.POSITIONS - size if name == "silence" else 1 for _, size in second]
            chances = [
                size / speech.POSITIONS
                for size, (A, _) in zip(sizes, second, strict=True)
                for _ in range(A.shape[1])
            ]
            assert (its.cases, its.units) == (len(weights), len(second))
            assert its.share == pytest.approx(np.mean(weights), rel=1e-4)
            assert its.chance == pytest.approx(np.mean(chances), rel=1e-6)


def test_the_first_half_chooses_the_moment() -> None:
    """Of seven frames: one gets most in the first half of the recordings, another in the second."""
    weight = torch.zeros(2, 1, 7, dtype=torch.float64)
    weight[0, 0, 2], weight[1, 0, 5] = 30.0, 30.0
    each = torch.rand(11, 7, 1, dtype=torch.float64)
    moments = Moments.of_closed(each, torch.full((11, 7), 3))
    sums = FrameMoments(weight, moments, torch.tensor([33, 33]))
    (row,) = LookedAt.by("decoder.cross", 20.0).moments(LayerId("decoder.cross", 0), sums)
    assert row.direction == "0.04 s" and row.cell.share == 0 and row.cell.first_gain > 0.7


def test_each_site_has_its_traits(loaded: Loaded, sound: Path, tmp_path: Path) -> None:
    soundfile.write(sound / "bad.wav", np.zeros(4000), speech.RATE)
    (sound / "bad.txt").write_text("a dog")
    found = hc.analyze(loaded, Corpus.of_recordings(sound))
    (sound / "bad.wav").unlink()
    assert found.record.inputs is SOUND and found.record.counts.sentences == 4
    assert re.fullmatch(r"3 s of sound \([\d,.]+ s of it in a second\)", length_of(found.record))
    assert "1 of 5 recordings left out: bad is silent" in found.record.warnings
    assert not any("window" in each for each in found.record.warnings)
    assert found.traits is not None
    traits = {
        site: {
            row.trait
            for head, rows in found.traits.items()
            for row in rows
            if head.startswith(site)
        }
        for site in ("enc", "dec", "cross")
    }
    assert traits["enc"] == {each.key for each in FRAME_TRAITS}
    assert {"previous", "self", "offset"} <= traits["dec"]
    assert traits["dec"] <= {"next", *(each.key for each in SOUND.traits)} - traits["enc"]
    assert traits["cross"] == {"start", "silence", "moment"}
    delay = next(row for row in found.traits["enc.0.0"] if row.trait == "delay")
    assert delay.direction and delay.direction.endswith((" ms earlier", " ms later"))
    example = found.examples["enc.0.0"][0]
    assert example.queries[0] == "0.0 s" and example.queries[-1] == "silence"
    assert found.examples["cross.0.0"][0].keys[-1] == "silence"


def test_a_long_recording_is_read_in_pieces(loaded: Loaded, tmp_path: Path) -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 2 * speech.RATE)
    soundfile.write(tmp_path / "long.wav", samples, speech.RATE)
    (tmp_path / "long.txt").write_text("a dog barked all night")
    found = hc.analyze(loaded, Corpus.of_recordings(tmp_path))
    assert found.record.counts.sentences > 1
    assert any("longer than the model reads at once" in each for each in found.record.warnings)
    assert found.record.counts.tokens == pytest.approx(2 * speech.POSITIONS, abs=4)


def test_what_fits_no_recording_is_refused(loaded: Loaded, sound: Path) -> None:
    corpus = Corpus.of_recordings(sound)
    with pytest.raises(InputError, match="--windows only affects texts, but the corpus is recor"):
        hc.analyze(loaded, corpus, hc.Options(windows=True))
    with pytest.raises(InputError, match="--language only affects recordings, but the corpus is"):
        hc.analyze(loaded, Corpus(["a dog"]), hc.Options(language="de"))
    with pytest.raises(CorpusError, match="Expected the sound of row1 at x.wav, got no such file"):
        Corpus.of_recordings({"audio": ["x.wav"], "text": ["a dog"]})


SAID = {
    "frame_before": "looks at the frame before in 62 % of cases; the offsets beside it get 5.0 %",
    "frame_after": "looks at the frame after in 62 % of cases; the offsets beside it get 5.0 %",
    "frame_itself": "looks at the frame itself in 62 % of cases; the offsets beside it get 5.0 %",
    "delay": "looks at the sound 60 ms earlier in 62 % of cases; the offsets beside it get 5.0 %",
    "frames_near": "gives 62 % of its attention to sound less than 0.1 s away; position alone "
    "explains 5.0 %",
    "start": "gives 62 % of its attention to the first frame; position alone explains 5.0 %",
    "silence": "gives 62 % of its attention to the silence behind the sound; position alone "
    "explains 5.0 %",
    "moment": "gives 62 % of its attention to the frame at 1.20 s of every recording; the frames "
    "beside it get 5.0 %",
}
"""What heads with each trait of frames do."""
DIRECTION = {"delay": "60 ms earlier", "frames_near": "0.1 s", "moment": "1.20 s"}


@pytest.mark.parametrize("key", [each.key for each in FRAME_TRAITS])
def test_every_trait_of_frames_is_said_in_a_sentence(key: str) -> None:
    assert said(shown(key, DIRECTION.get(key))) == SAID[key]


@pytest.mark.parametrize(("site", "own"), [("enc", "delay"), ("cross", "delay"), ("dec", "rare")])
def test_a_card_names_what_was_not_tested_of_its_site(run: Analysis, site: str, own: str) -> None:
    """The decoder's own attention reads text, and all other heads frames."""
    few = {trait: Untested("", "few", f"too few of {trait}") for trait in ("rare", "delay")}
    view = report_view(replace(run, record=replace(run.record, untested=few)))
    notes = [card.profile.note for card in view.cards if card.profile and site in card.head]
    for text in (*notes, view.nothing_more[site]):
        assert [trait for trait in few if f"too few of {trait}" in text] in ([own], [])
    assert own in view.nothing_more[site]


def test_the_page_speaks_of_frames_and_milliseconds(run: Analysis) -> None:
    """Of tokens, only where the decoder reads some."""
    text = measured(run.record)
    assert text.startswith("4 recordings, 3 s of sound") and "tokens of transcripts" in text
    steps = " ".join(opening(run, leading(run)).steps)
    assert "--task transcription" in steps and "headcount align" in steps
    offset = run.rows[0].values["positional_offset"]
    said = head_line(run.rows[0].values, frame_ms=10.0)
    assert "first frame" in said and frame_words(offset, 10.0) in said and "token" not in said
    columns = {each.key: each for each in columns_of(run)}
    assert columns["attn_first"].label == "weight on the first frame or token"
    assert (
        columns["attn_sep"].label == "weight on silence" and columns["attn_sep"].rests == "silence"
    )
    assert columns["positional_offset"].about == "key minus query, in frames of 10 ms or tokens"
    assert [heard(each, run) for each in ("Separators", "First token", "Entropy (nats)")] == [
        "Silence",
        "First frame or token",
        "Entropy (nats)",
    ]
    titles = {card.head[:3]: card.offsets_title for card in cards(run)}
    assert titles["enc"] == "Offset of the largest weight, in frames of 10 ms"
    assert titles["dec"] == "Offset of the largest weight, special tokens aside"
    assert not next(card for card in cards(run) if card.head == "cross.0.0").offsets
    cross = next(row.values for row in run.rows if row.site == "decoder.cross")
    assert " ms " not in head_line(cross, frame_ms=10.0)
    methods = str(methods_document(run).blocks)
    assert "at most 0.2 s away" in methods and "clustered by recording" in methods
