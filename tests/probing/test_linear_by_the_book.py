"""Edge probe, probes of layers and their classifier, against the definitions."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from headcount.probing import ProbeRow
from headcount.probing.attention_probe import PENALTY, LinearClassifier, ProbeData, fit_linear
from headcount.probing.edge_probing import (
    edge_pairs,
    frequent_relations,
    probe_edges,
    relation_pairs,
)
from headcount.probing.extraction import WordMaps, WordStates
from headcount.probing.layer_probes import LayerCases, ScalarMix, probe_layer, probe_mix
from headcount.probing.treebank import ProbeSentence
from headcount.statistics import Bootstrap
from tests.probing import planted
from tests.textbook import linear_probes as textbook

TRAIN, TEST = planted.sentences(40, seed=1), planted.sentences(13, seed=2)


def value(rows: list[ProbeRow], metric: str, variant: str = "trained") -> float:
    return next(row.value for row in rows if (row.metric, row.variant) == (metric, variant))


@pytest.mark.slow
def test_the_classifier_finds_the_minimum_of_the_textbook_s_objective() -> None:
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(19, 2)) * (1, 30) + 5).astype(np.float32)
    classes = rng.integers(0, 2, 19) + (features[:, 0] > 5)
    xs = np.array([textbook.standardized(x.tolist(), features) for x in features])

    def objective(flat: np.ndarray) -> float:
        W, b = flat[:6].reshape(2, 3), flat[6:]
        return textbook.objective(xs, classes.tolist(), W, b, PENALTY)

    least = minimize(objective, np.zeros(9), options={"maxiter": 40}).fun
    found = fit_linear(features, classes, 3, seed=0, epochs=600)
    flat = np.concatenate([found.weight_FC.numpy().ravel(), found.bias_C.numpy()])
    assert objective(flat.astype(float)) == pytest.approx(least, rel=0.01)
    assert least < 0.9 * objective(np.zeros(9)), "there was something to learn"
    book = [textbook.scores(list(x), flat[:6].reshape(2, 3), flat[6:]) for x in xs]
    np.testing.assert_allclose(found.scores(features), book, rtol=1e-3, atol=1e-3)


def by_the_book(
    classifier: LinearClassifier, xs: list[list[float]], train: np.ndarray
) -> list[int]:
    """The class with the largest score of every case."""
    W, b = classifier.weight_FC.numpy(), classifier.bias_C.numpy()
    means, deviations = train.mean(0), train.std(0, ddof=1).clip(1e-6)
    return [int(np.argmax(textbook.scores(list((x - means) / deviations), W, b))) for x in xs]


def attention_vectors(pairs: list[tuple[int, int, int]], maps: WordMaps) -> list[list[float]]:
    return [textbook.attention_vector(maps.of(number), i, j) for number, i, j in pairs]


def test_accuracies_of_the_edge_probe_are_those_of_the_textbook(tmp_path: Path) -> None:
    maps = [
        planted.maps(tmp_path / name, given, 3, 1, seed)
        for name, given, seed in (("train", TRAIN, 5), ("test", TEST, 6))
    ]
    train, test = (ProbeData.of(given, its) for given, its in zip((TRAIN, TEST), maps, strict=True))
    rows = probe_edges(
        train, test, Bootstrap(len(TEST), 9, 0), variant="trained", min_cases=10, seed=4
    )
    relations = frequent_relations(TRAIN, 10)
    for metric, own, held_out in (
        ("edge-accuracy", edge_pairs(TRAIN, 4), edge_pairs(TEST, 5)),
        ("relation-accuracy", relation_pairs(TRAIN, relations), relation_pairs(TEST, relations)),
    ):
        triples = [
            list(
                zip(
                    pairs.sentence_P.tolist(),
                    pairs.first_P.tolist(),
                    pairs.second_P.tolist(),
                    strict=True,
                )
            )
            for pairs in (own, held_out)
        ]
        xs = [attention_vectors(*each) for each in zip(triples, maps, strict=True)]
        train_NF = np.array(xs[0], dtype=np.float32)
        classifier = fit_linear(train_NF, own.class_P, 1 + int(own.class_P.max()), 4)
        predicted = by_the_book(classifier, xs[1], train_NF)
        right = [a == b for a, b in zip(predicted, held_out.class_P.tolist(), strict=True)]
        assert value(rows, metric) == pytest.approx(np.mean(right))
        counts = np.bincount(own.class_P)
        most = np.mean(held_out.class_P == counts.argmax())
        assert value(rows, metric, "majority") == pytest.approx(most)


def maps_of_relations(path: Path, given: tuple[ProbeSentence, ...], seed: int) -> WordMaps:
    """Random attention; of three heads, the one of a relation looks from dependents to heads."""
    made = planted.maps(path, given, 4, None, seed)
    for number, each in enumerate(given):
        for word, (head, relation) in enumerate(zip(each.head_W, each.relations, strict=True)):
            if relation != "root":
                made.of(number)[word, head, planted.RELATIONS.index(relation)] += 0.7
    return made


def test_planted_relations_are_found(tmp_path: Path) -> None:
    train, test = (
        ProbeData.of(given, maps_of_relations(tmp_path / name, given, seed))
        for name, given, seed in (("a", planted.sentences(150, 1), 5), ("b", TEST, 6))
    )
    bootstrap = Bootstrap(len(TEST), 9, 0)
    rows = probe_edges(train, test, bootstrap, variant="trained", min_cases=10, seed=0)
    assert value(rows, "relation-accuracy") > 0.9


def states_of(path: Path, given: tuple[ProbeSentence, ...]) -> WordStates:
    """Two random states of width 5; the second shows the tag."""
    rng = np.random.default_rng(len(given))
    made = WordStates(path, [len(each.words) for each in given], 2, 5)
    made.open()
    for number, each in enumerate(given):
        noise = rng.normal(size=(2, len(each.words), 5)) * (1, 2, 3, 4, 50)
        for word, tag in enumerate(each.tags):
            noise[1, word, planted.TAGS.index(tag)] += 4
        made.of(number)[:] = noise
    return made


@pytest.mark.parametrize("asked", ["tag", "relation"])
def test_accuracies_of_layers_are_those_of_the_textbook(asked, tmp_path: Path) -> None:
    train, test = states_of(tmp_path / "a", TRAIN), states_of(tmp_path / "b", TEST)
    own = LayerCases.of(TRAIN, train, asked)
    held_out = LayerCases.of(TEST, test, asked, own.classes)
    cases: list[list[tuple[list[float], str]]] = []
    for given, states in ((TRAIN, train), (TEST, test)):
        cases.append([])
        for number, each in enumerate(given):
            state_WD = states.of(number)[1]
            for word, head in enumerate(each.head_W.tolist()):
                if asked == "tag":
                    cases[-1].append((list(map(float, state_WD[word])), each.tags[word]))
                elif head != len(each.words):
                    both = [*map(float, state_WD[word]), *map(float, state_WD[head])]
                    cases[-1].append((both, each.relations[word]))
    xs = np.array([x for x, _ in cases[0]], dtype=np.float32)
    names = sorted({name for _, name in cases[0]})
    assert list(own.classes) == names
    classes = np.array([names.index(name) for _, name in cases[0]])
    classifier = fit_linear(xs, classes, len(names), 0)
    predicted = by_the_book(classifier, [x for x, _ in cases[1]], xs)
    right = [names[p] == name for p, (_, name) in zip(predicted, cases[1], strict=True)]
    bootstrap = Bootstrap(len(TEST), 9, 0)
    row = probe_layer(own, held_out, bootstrap, state=1, seed=0)
    assert row.value == pytest.approx(np.mean(right))


def test_the_scalar_mix_is_that_of_the_textbook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.probing.layer_probes.MIX_EPOCHS", 3)
    train, test = states_of(tmp_path / "a", TRAIN), states_of(tmp_path / "b", TEST)
    own = LayerCases.of(TRAIN, train, "relation")
    held_out = LayerCases.of(TEST, test, "relation", own.classes)
    mix = ScalarMix(own, seed=0)
    for _ in range(3):
        mix.train_epoch()
    a, gamma = mix.share_L.tolist(), mix.gamma.item()
    assert a[0] != a[1] and gamma != 1, "both were trained"
    W, b = mix.weight_FC.detach().numpy(), mix.bias_C.detach().numpy()
    every = [train.of_all(state).astype(np.float64) for state in range(2)]
    predicted = []
    for number, each in enumerate(TEST):
        for word, head in enumerate(each.head_W.tolist()):
            if head == len(each.words):
                continue
            parts = []
            for place in (word, head):
                states = [
                    (test.of(number)[layer][place] - every[layer].mean(0)) / every[layer].std(0)
                    for layer in range(2)
                ]
                parts += textbook.mixed(states, a, gamma).tolist()
            predicted.append(int(np.argmax(textbook.scores(parts, W, b))))
    assert mix.predict(held_out).tolist() == predicted
    assert mix.shares().tolist() == pytest.approx(textbook.shares(a))
    rows = probe_mix(
        own,
        held_out,
        Bootstrap(len(TEST), 9, 0),
        seed=0,
        after_epoch=lambda epoch: None,
    )
    centre = value(rows, "relation-centre-of-gravity", "scalar-mix")
    assert centre == pytest.approx(textbook.centre_of_gravity(a))
    right = np.array(predicted) == held_out.class_N
    assert value(rows, "relation-accuracy", "scalar-mix") == pytest.approx(right.mean())
