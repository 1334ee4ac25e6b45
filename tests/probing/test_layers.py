"""Probes of every hidden state: tags and relations where they are planted."""

from pathlib import Path

import numpy as np
import pytest

from headcount.probing import ProbeRow
from headcount.probing.extraction import WordStates
from headcount.probing.layer_probes import Asked, LayerCases, probe_layer, probe_mix
from headcount.probing.treebank import ProbeSentence
from headcount.statistics import Bootstrap
from tests.probing import planted

TRAIN, TEST = planted.sentences(150, seed=1), planted.sentences(60, seed=2)


def states(path: Path, given: tuple[ProbeSentence, ...]) -> WordStates:
    """Three states: noise, noise with the tags, noise with the relations."""
    generator = np.random.default_rng(len(given))
    made = WordStates(path, [len(each.words) for each in given], 3, 8)
    made.open()
    for number, each in enumerate(given):
        noise = generator.normal(size=(3, len(each.words), 8))
        for word, (tag, relation) in enumerate(zip(each.tags, each.relations, strict=True)):
            noise[1, word, planted.TAGS.index(tag)] += 6
            if relation != "root":
                noise[2, word, planted.RELATIONS.index(relation)] += 6
        made.of(number)[:] = noise
    return made


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[LayerCases, LayerCases]]:
    folder = tmp_path_factory.mktemp("states")
    train, test = states(folder / "train", TRAIN), states(folder / "test", TEST)
    found = {}
    every: tuple[Asked, ...] = ("tag", "relation")
    for asked in every:
        own = LayerCases.of(TRAIN, train, asked)
        found[asked] = (own, LayerCases.of(TEST, test, asked, own.classes))
    return found


def test_cases_are_words_and_arcs(cases: dict[str, tuple[LayerCases, LayerCases]]) -> None:
    tags, relations = cases["tag"][0], cases["relation"][0]
    assert tags.word_NP.shape == (sum(len(each.words) for each in TRAIN), 1)
    assert relations.word_NP.shape == (sum(len(each.words) - 1 for each in TRAIN), 2)
    start = int(relations.states.starts[3])
    rows = np.flatnonzero(relations.sentence_N == 3)
    for row in rows:
        dependent, head = relations.word_NP[row] - start
        assert TRAIN[3].head_W[dependent] == head
        assert relations.classes[relations.class_N[row]] == TRAIN[3].relations[dependent]
    states = relations.features(2)[rows[0]]
    expected = [relations.states.of_all(2)[word] for word in relations.word_NP[rows[0]]]
    np.testing.assert_array_equal(states, np.concatenate(expected).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "planted_in"), [("tag", 1), ("relation", 2)])
def test_the_layer_that_knows_is_found(
    cases: dict[str, tuple[LayerCases, LayerCases]],
    asked: Asked,
    planted_in: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headcount.probing.layer_probes.MIX_EPOCHS", 60)
    monkeypatch.setattr("headcount.probing.layer_probes.MIX_BATCH", 64)
    train, test = cases[asked]
    bootstrap = Bootstrap(len(TEST), 50, 0)
    accuracy = []
    for state in range(3):
        row = probe_layer(train, test, bootstrap, state, seed=0)
        assert row.layer == state and row.low <= row.value <= row.high
        accuracy.append(row.value)
    assert accuracy[planted_in] > 0.9
    assert max(value for state, value in enumerate(accuracy) if state != planted_in) < 0.5
    rows = probe_mix(train, test, bootstrap, seed=0, after_epoch=lambda epoch: None)
    assert value(rows, f"{asked}-accuracy") > 0.85
    weights = [row.value for row in rows if row.metric == f"{asked}-weight"]
    assert sum(weights) == pytest.approx(1) and np.argmax(weights) == planted_in
    expected = sum(state * weight for state, weight in enumerate(weights))
    assert value(rows, f"{asked}-centre-of-gravity") == pytest.approx(expected)


def value(rows: list[ProbeRow], metric: str) -> float:
    return next(row.value for row in rows if row.metric == metric)
