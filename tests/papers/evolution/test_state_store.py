"""States of chosen tokens: those of transformers, in every view; a killed run resumes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount.core import CorpusError, InputError
from headcount.corpora import Corpus, Sentence, Tree
from headcount.papers.evolution.record import EvolutionOptions
from headcount.papers.evolution.stores import Stores, rows_of, write_states
from headcount.papers.evolution.subjects import (
    Occurrences,
    StateStore,
    Subject,
    Tokens,
    balanced,
    of_sentences,
    subjects_of,
)
from headcount.testing import leaving_no_trace
from tests import saved, tiny

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
MODELS = {"bert": saved.bert, "gpt2": saved.gpt2, "marian": saved.marian}


@pytest.fixture(scope="module", params=MODELS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = MODELS[request.param](tmp_path_factory.mktemp(request.param))
    return subjects_of([headcount.load(folder)])[0]


@pytest.fixture(scope="module")
def tokens(subject: Subject) -> Tokens:
    return Tokens.of(Corpus(SAMPLE, limit=12), subject.encoder)


def test_a_piece_of_words_with_several_tags_has_none(subject: Subject) -> None:
    spans = ((0, 3), (4, 7), (4, 7), (8, 12))
    tree = Tree((1, -1, 1, 1), ("det", "root", "case", "obj"), ("X", "ADP", "DET", "DET"))
    merged = Sentence("the old dogs", ("the", "zu", "dem", "dogs"), tree, spans=spans)
    same = replace(merged, tree=replace(tree, tags=("X", "ADP", "ADP", "DET")))
    for sentence, expected in ((merged, ["X", None, "DET"]), (same, ["X", "ADP", "DET"])):
        found = Tokens.of(Corpus.from_sentences([sentence]), subject.encoder)
        tags = [found.tags[tag] if tag >= 0 else None for tag in found.tag_T[found.is_content_T]]
        assert [*dict.fromkeys(tags)] == expected


def filled(
    subject: Subject, tokens: Tokens, chosen: Occurrences, view: str, folder: Path, **more: Any
) -> StateStore:
    store = StateStore(folder / "s.f16", len(subject.states), chosen, subject.width)
    rows = list(rows_of(subject, tokens, chosen, view, more.pop("seed", 0)))
    given: dict = {"max_tokens": 90, "steps": lambda *_: None} | more
    write_states(subject, store, rows, key="key", **given)
    return store


def hidden(subject: Subject, ids: np.ndarray) -> list[torch.Tensor]:
    """The hidden states of one text, without padding."""
    model = subject.loaded.model
    batch = {"input_ids": torch.tensor([ids.tolist()])}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.tensor([[1]])
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    name = "encoder_hidden_states" if model.config.is_encoder_decoder else "hidden_states"
    return [each[0] for each in output[name]]


@pytest.mark.once
def test_states_are_those_of_the_model(subject: Subject, tokens: Tokens, tmp_path: Path) -> None:
    chosen = balanced(tokens, 3, 11, 0)
    with leaving_no_trace(subject.loaded.model, tiny.inputs(subject.loaded.model)):
        store = filled(subject, tokens, chosen, "text", tmp_path)
    assert store.num_bytes == 3 * len(chosen) * subject.width * 2
    for number in range(len(chosen)):
        states = hidden(subject, tokens.sentence(int(chosen.sentence_S[number])))
        for layer in (0, 1):  # the last may be normalised in transformers' list
            expected = states[layer][chosen.position_S[number]].numpy()
            found = store.layer(layer)[number]
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_states_that_predict(subject: Subject, tokens: Tokens, tmp_path: Path) -> None:
    """A causal model's state before the token; a masked one's, while the token is masked."""
    if subject.objective == "translation":
        pytest.skip("no state of a translation encoder predicts a token")
    causal = subject.objective == "causal-lm"
    chosen = balanced(tokens, 2, 5, 0, first=int(causal))
    store = filled(subject, tokens, chosen, "output", tmp_path)
    rows = list(rows_of(subject, tokens, chosen, "output"))
    assert sorted(number for row in rows for number in row.numbers) == list(range(len(chosen)))
    for row in rows:
        plain = tokens.sentence(int(chosen.sentence_S[row.numbers[0]]))
        masked = np.flatnonzero(row.ids != plain)
        if causal:
            assert len(masked) == 0
        else:
            assert set(row.positions) == set(masked)
            assert set(row.ids[masked]) == {subject.mask_id}
            assert len(masked) <= max(1, 0.15 * len(plain))
        states = hidden(subject, row.ids)
        for number, position in zip(row.numbers, row.positions, strict=True):
            place = chosen.position_S[number]
            assert position == (place - 1 if causal else place)
            np.testing.assert_allclose(
                store.layer(1)[number], states[1][position].numpy(), rtol=2e-3, atol=2e-3
            )


@pytest.mark.once
def test_an_interrupted_pass_resumes_to_the_same_numbers(
    subject: Subject, tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.core.units.SAVE_EVERY", 1)
    chosen, seen = of_sentences(tokens, 9, 0), list[int]()
    expected = filled(subject, tokens, chosen, "sentences", tmp_path / "once", max_tokens=40)

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    folder = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        filled(subject, tokens, chosen, "sentences", folder, max_tokens=40, steps=stop)
    left = list[int]()
    store = filled(
        subject,
        tokens,
        chosen,
        "sentences",
        folder,
        max_tokens=40,
        steps=lambda done, total: left.append(done),
    )
    assert left[0] == seen[2] and left[-1] == 9
    for layer in range(3):
        np.testing.assert_array_equal(store.layer(layer), expected.layer(layer))
    with pytest.raises(InputError, match="needs the same model"):
        write_states(subject, store, [], "other", 9, lambda *_: None)


def test_occurrences_are_balanced_and_know_their_neighbours(tokens: Tokens) -> None:
    chosen = balanced(tokens, 4, 3, 0, first=1)
    assert np.unique(chosen.token_S, return_counts=True)[1].tolist() == [4, 4, 4]
    assert chosen.position_S.min() >= 1
    for number in range(len(chosen)):
        ids = tokens.sentence(int(chosen.sentence_S[number])).tolist()
        place = int(chosen.position_S[number])
        assert chosen.token_S[number] == ids[place] and chosen.left_S[number] == ids[place - 1]
        assert chosen.right_S[number] == [*ids, -1][place + 1]
    assert len(np.unique(chosen.sentence_S * 1000 + chosen.position_S)) == 12
    everything = of_sentences(tokens, 99, 0)
    assert len(everything) == tokens.is_content_T.sum()
    assert (everything.left_S[everything.position_S == 0] == -1).all()
    assert {tokens.tags[tag] for tag in everything.tag_S} >= {"NOUN", "VERB", "DET"}


def test_too_few_occurrences_are_refused(tokens: Tokens) -> None:
    with pytest.raises(CorpusError, match=r"2 tokens with 900 occurrences, got 0: the second most"):
        balanced(tokens, 900, 10, 0)


def test_what_does_not_fit_is_refused_before_the_model_runs(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EvolutionOptions(occurrences=3, types=5)
    said = list[str]()
    stores = Stores(
        [subject], Corpus(SAMPLE, limit=12), options, tmp_path, lambda name, *_: said.append(name)
    )
    stores.check()
    assert said == [f"states take {3 * 15 * subject.width * 2 / 1e6:,.1f} MB on disk"]
    monkeypatch.setattr("headcount.core.memory.disk_usage", lambda _: type("", (), {"free": 5}))
    with pytest.raises(InputError, match="free disk for hidden states .* lower --occurrences"):
        stores.check()
    with pytest.raises(CorpusError, match=r"states as clusters \(70\), got 15"):
        options = EvolutionOptions(occurrences=3, types=5, clusters=70)
        Stores([subject], Corpus(SAMPLE, limit=12), options, tmp_path, lambda *_: None)


def test_replaced_tokens_are_read_in_place_of_the_chosen(
    subject: Subject, tokens: Tokens, tmp_path: Path
) -> None:
    if subject.objective != "masked-lm":
        pytest.skip("only masked models learned from replaced tokens")
    chosen = balanced(tokens, 2, 5, 0)
    others = chosen.replacements(3)
    assert sorted(others) == sorted(chosen.token_S) and (others != chosen.token_S).any()
    rows = list(rows_of(subject, tokens, chosen, "replaced", 3))
    assert sorted(number for row in rows for number in row.numbers) == list(range(len(chosen)))
    store = filled(subject, tokens, chosen, "replaced", tmp_path, seed=3)
    for row in rows:
        plain = tokens.sentence(int(chosen.sentence_S[row.numbers[0]]))
        for number, position in zip(row.numbers, row.positions, strict=True):
            assert plain[position] == chosen.token_S[number]
            assert row.ids[position] == others[number]
            found = hidden(subject, row.ids)[1][position].numpy()
            np.testing.assert_allclose(store.layer(1)[number], found, rtol=2e-3, atol=2e-3)
        changed = np.flatnonzero(row.ids != plain)
        assert set(changed) <= set(row.positions)
        assert len(row.positions) <= max(1, int(0.15 * len(plain)))
