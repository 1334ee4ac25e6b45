"""Word-level features, beside the textbook's loops over pieces."""

from pathlib import Path

import numpy as np
import pytest
import torch

import headcount
from headcount.core import InputError
from headcount.corpora import Encoder
from headcount.measures.word_maps import probe_heads, probe_layers
from headcount.models import Loaded
from headcount.probing import ProbeOptions
from headcount.probing.extraction import Features, extract, features_of, places, probe_states
from headcount.probing.treebank import Treebank, read_treebank
from headcount.testing import leaving_no_trace
from tests import saved, tiny
from tests.textbook import probes as textbook

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
MODELS = {"bert": saved.bert, "gpt2": saved.gpt2, "llama": saved.llama, "marian": saved.marian}


@pytest.fixture(scope="module", params=MODELS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(MODELS[request.param](tmp_path_factory.mktemp(request.param)))


def treebank_of(loaded: Loaded, limit: int = 5, max_words: int = 15) -> Treebank:
    options = ProbeOptions(max_words=max_words)
    return read_treebank([SAMPLE], loaded.source_encoder(), options, limit)


def extracted(loaded: Loaded, treebank: Treebank, folder: Path, max_tokens: int = 60) -> Features:
    features = features_of(loaded, treebank, folder, maps=True, states=True)
    extract(loaded, features, "key", max_tokens)
    return features


@pytest.mark.once
def test_features_are_those_of_the_textbook(loaded: Loaded, tmp_path: Path) -> None:
    treebank = treebank_of(loaded)
    with leaving_no_trace(loaded.model, tiny.inputs(loaded.model)):
        features = extracted(loaded, treebank, tmp_path)
    assert features.maps is not None and features.states is not None
    for number, sentence in enumerate(treebank.sentences):
        batch = {"input_ids": torch.tensor([sentence.encoded.ids])}
        if loaded.model.config.is_encoder_decoder:
            batch["decoder_input_ids"] = torch.tensor([[1]])
        site = probe_layers(loaded)[0].site
        maps = torch.cat(tiny.attention_maps(loaded.model, batch)[site], 1)[0].numpy()
        word_of = sentence.encoded.word_of
        np.testing.assert_allclose(
            features.maps.of(number), textbook.word_map(maps, word_of), atol=1e-3
        )
        with torch.no_grad():
            output = loaded.model(**batch, output_hidden_states=True)
        hidden = output[
            "encoder_hidden_states" if "decoder_input_ids" in batch else "hidden_states"
        ]
        last = features.states.of(number)[1]
        expected = textbook.word_states(hidden[1][0].numpy(), word_of)
        np.testing.assert_allclose(last, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.once
def test_heads_and_states_are_those_of_the_side_that_reads_the_treebank(loaded: Loaded) -> None:
    assert {head.site for head in probe_heads(loaded)} <= {"encoder.self", "decoder.self"}
    assert len({head.site for head in probe_heads(loaded)}) == 1
    assert [state.depth for state in probe_states(loaded)] == [0, 1, 2]


def test_batches_are_padded_with_zeros_and_special_tokens_come_last(
    loaded: Loaded, tmp_path: Path
) -> None:
    features = extracted(loaded, treebank_of(loaded), tmp_path)
    assert features.maps is not None
    lengths = features.maps.lengths
    longest = int(lengths.argmax())
    short = int(lengths.argmin())
    batch = features.maps.batch([short, longest])
    own, size = int(lengths[short]), int(lengths[longest])
    places = [*range(own), size, size + 1]
    inside = batch[0][places][:, places]
    np.testing.assert_array_equal(inside, features.maps.of(short).astype(np.float32))
    assert not batch[0, own:size].any() and not batch[0, :, own:size].any()
    np.testing.assert_array_equal(batch[1], features.maps.of(longest).astype(np.float32))


@pytest.mark.once
def test_an_interrupted_pass_resumes_after_the_last_batch_on_disk(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.core.units.SAVE_EVERY", 1)
    treebank = treebank_of(loaded)
    expected = extracted(loaded, treebank, tmp_path / "whole", max_tokens=20)
    features = features_of(loaded, treebank, tmp_path / "cut", maps=True, states=True)
    told = []

    def stop(done: int, total: int) -> None:
        told.append(done)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(loaded, features, "key", 20, stop)
    assert expected.maps is not None and features.maps is not None
    told.clear()
    again = features_of(loaded, treebank, tmp_path / "cut", maps=True, states=True)
    extract(loaded, again, "key", 20, lambda done, total: told.append(done))
    assert told[0] > 1 and told[-1] == len(treebank.sentences)
    assert again.maps is not None
    for number in range(len(treebank.sentences)):
        np.testing.assert_array_equal(again.maps.of(number), expected.maps.of(number))
    with pytest.raises(InputError, match="needs the same model"):
        extract(loaded, again, "another", 20)


def test_places_of_special_tokens() -> None:
    assert places([-1, -1, 0, -1, 1, -1], 7) == [7, 7, 0, 8, 1, 8]


def test_an_encoder_decoder_reads_sources_only(loaded: Loaded) -> None:
    assert isinstance(loaded.source_encoder(), Encoder)
    assert loaded.source_encoder().start_id is None
