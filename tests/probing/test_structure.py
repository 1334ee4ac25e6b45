"""The structural probe: its formulas and scores, and what it finds in planted states."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headcount.probing import ProbeRow
from headcount.probing.structural_probe import (
    StructureData,
    mean_over_lengths,
    predicted_tree,
    predicted_trees,
    probe_structure,
    spanning_tree,
    squared_distances,
    squared_norms,
    structure_loss,
    tree_distances,
    tree_hits,
)
from headcount.probing.units import MASSIVE
from headcount.statistics import Bootstrap
from tests.probing import planted
from tests.textbook import probes as textbook

GIVEN = planted.sentences(13, seed=8)
TRAIN, TEST = planted.sentences(150, 1, longest=13), planted.sentences(60, 2, longest=13)


def data(path: Path, given: tuple, is_planted: bool, state: int = 1) -> StructureData:
    return StructureData.of(given, planted.states(path, given, is_planted), state)


def test_distances_and_depths_are_those_of_the_tree(tmp_path: Path) -> None:
    made = data(tmp_path / "states", GIVEN, False)
    for number, each in enumerate(GIVEN):
        heads = each.head_W.tolist()
        np.testing.assert_array_equal(tree_distances(each.head_W), textbook.tree_distances(heads))
        assert made.depths(number).tolist() == textbook.tree_depths(heads)


def test_predictions_and_losses_are_those_of_the_textbook(tmp_path: Path) -> None:
    made = data(tmp_path / "states", GIVEN, False)
    map_DR = torch.randn(24, 5, generator=torch.Generator().manual_seed(0))
    B = map_DR.double().numpy().T
    chosen = [3, 0, 7]
    errors: dict[str, list[float]] = {"distance": [], "depth": []}
    for number in chosen:
        h = made.vectors(number).double().numpy()
        size = len(h)
        distances = np.array(
            [[textbook.squared_distance(B, h[i], h[j]) for j in range(size)] for i in range(size)]
        )
        norms = np.array([textbook.squared_distance(B, h[i], 0 * h[i]) for i in range(size)])
        vectors = made.vectors(number)[None]
        found = squared_distances(map_DR, vectors)[0]
        np.testing.assert_allclose(found, distances, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(squared_norms(map_DR, vectors)[0], norms, rtol=1e-4)
        errors["distance"].append(np.abs(distances - made.distances[number]).sum() / size**2)
        errors["depth"].append(np.abs(norms - made.depths(number)).sum() / size)
    for kind in ("distance", "depth"):
        loss = structure_loss(map_DR, made.batch(chosen, kind), kind)
        assert float(loss) == pytest.approx(np.mean(errors[kind]), rel=1e-4)


def test_trees_are_prims_without_punctuation() -> None:
    generator = np.random.default_rng(0)
    for each in TEST[:20]:
        size = len(each.words)
        distances = generator.random((size, size))
        distances += distances.T
        words = np.flatnonzero(each.counts_W).tolist()
        expected = textbook.spanning_tree(distances, words) if len(words) > 1 else set()
        found = {frozenset(pair) for pair in spanning_tree(distances, each.counts_W)}
        assert found == expected
        gold = {
            frozenset((word, head))
            for word, head in enumerate(each.head_W.tolist())
            if word in words and head in words
        }
        assert {frozenset(pair) for pair in predicted_tree(each, distances, 0).gold} == gold
        assert tree_hits(each, distances) == (len(gold & found), len(gold))
        if each.counts_W.all():
            assert tree_hits(each, tree_distances(each.head_W)) == (size - 1, size - 1)


def test_rank_correlations_are_averaged_by_length() -> None:
    generator = np.random.default_rng(0)
    found = []
    expected: dict[int, list[float]] = {}
    for each in TEST:
        rows = generator.random(len(each.words))
        found.append(rows)
        if len(each.words) >= 5:
            expected.setdefault(len(each.words), []).extend(rows.tolist())
    estimate = mean_over_lengths(TEST, found, Bootstrap(len(TEST), 50, 0))
    assert estimate.value == pytest.approx(
        np.mean([float(np.mean(each)) for each in expected.values()])
    )
    assert estimate.low < estimate.value < estimate.high


def value(rows: list[ProbeRow], metric: str) -> float:
    return next(row.value for row in rows if row.metric == metric)


@pytest.mark.slow
def test_a_planted_tree_is_found_and_none_in_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.probing.structural_probe.RATE", 1e-2)
    monkeypatch.setattr("headcount.probing.structural_probe.EPOCHS", 12)
    train, test = data(tmp_path / "a", TRAIN, True), data(tmp_path / "b", TEST, True)
    found = {}
    for state in (0, 1):
        rows, map_DR = probe_structure(
            train.at(state),
            test.at(state),
            Bootstrap(len(TEST), 50, 0),
            rank=12,
            variant="trained",
            seed=0,
            after_epoch=lambda epoch: None,
        )
        assert all(row.layer == state and row.rank == 12 for row in rows)
        found[state] = rows
        trees = predicted_trees(test.at(state), map_DR)
        assert len(trees) == 4 and all(8 <= len(tree.words) for tree in trees)
        hits = [set(tree.gold) & set(tree.edges) for tree in trees]
        assert state == 0 or sum(map(len, hits)) > 0.8 * sum(len(tree.gold) for tree in trees)
    chance = np.mean([2 / each.counts_W.sum() for each in TEST if each.counts_W.sum() > 1])
    assert value(found[1], "uuas") > 0.9 and value(found[0], "uuas") < chance + 0.15
    assert value(found[1], "spearman-distance") > 0.8 > 0.4 > value(found[0], "spearman-distance")
    assert value(found[1], "root") > value(found[0], "root") + 0.3
    assert value(found[1], "spearman-depth") > 0.7


def test_normalized_states_have_a_root_mean_square_of_1(tmp_path: Path) -> None:
    made = data(tmp_path / "a", GIVEN, True)
    raw, found = made.vectors(3).numpy(), made.normalized().vectors(3).numpy()
    for word, state in enumerate(raw):
        size = np.sqrt(np.mean([each**2 for each in state]))
        np.testing.assert_allclose(found[word], state / size, rtol=1e-5)
    assert not made.normalized().at(0).is_normalized


@pytest.mark.slow
def test_massive_first_words_hide_the_tree_unless_states_are_normalized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.probing.structural_probe.RATE", 1e-2)
    monkeypatch.setattr("headcount.probing.structural_probe.EPOCHS", 8)
    train, test = data(tmp_path / "a", TRAIN, True), data(tmp_path / "b", TEST, True)
    for some in (train, test):
        some.states.of_all(1)[some.states.starts[:-1], -1] = 2000
    norms = sorted(float(np.linalg.norm(word.astype(float))) for word in test.states.of_all(1))
    middle = norms[(len(norms) - 1) // 2]
    assert test.norm_ratio() == pytest.approx(norms[-1] / middle) and norms[-1] / middle > MASSIVE
    bootstrap, found = Bootstrap(len(TEST), 9, 0), []
    for each, held in ((train, test), (train.normalized(), test.normalized())):
        rows, _ = probe_structure(
            each,
            held,
            bootstrap,
            rank=12,
            variant="trained",
            seed=0,
            after_epoch=lambda epoch: None,
        )
        found.append(value(rows, "uuas"))
    assert found[1] > found[0] + 0.15, found
