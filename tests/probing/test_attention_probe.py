"""The attention probe: its formula, what it finds in planted attention, and in noise."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headcount.core import Head
from headcount.probing import ProbeRow
from headcount.probing.arc_probing import (
    ArcTest,
    baseline_rows,
    best_offset,
    best_tree,
    fixed_offset,
    head_weights,
    is_tree,
    next_word,
    probe_arcs,
)
from headcount.probing.attention_probe import (
    ArcProbe,
    ProbeData,
    Training,
    candidate_scores,
    shuffled,
    train_arc_labels,
    train_arc_probe,
)
from headcount.probing.units import NUM_MAPS, REACH, distance_data, distance_map
from headcount.probing.vectors import WordVectors
from headcount.statistics import Bootstrap
from tests.probing import planted
from tests.textbook import probes as textbook

TRAIN, TEST = planted.sentences(150, seed=1), planted.sentences(60, seed=2)
TRAINING = Training(rate=5e-2, epochs=8, batch=16)


def vectors(width: int = 5) -> WordVectors:
    generator = torch.Generator().manual_seed(3)
    rows = {f"w{number}": number for number in range(11)}
    return WordVectors("made up", rows, torch.randn(12, width, generator=generator))


def drawn(probe: ArcProbe) -> ArcProbe:
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in probe.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return probe


def test_scores_are_those_of_the_textbook(tmp_path: Path) -> None:
    given = planted.sentences(7, seed=8)
    maps = planted.maps(tmp_path / "maps", given, heads=3, planted=None)
    words = vectors()
    for own in (None, words):
        probe = drawn(ArcProbe(3, 0 if own is None else 5))
        data = ProbeData.of(given, maps, own)
        for number, scores_WC in enumerate(candidate_scores(probe, data, size=4)):
            A = maps.of(number).astype(np.float64)
            num_words = len(given[number].words)
            v = words.of([given[number]], num_words)[0].double().numpy()
            w, u = (
                each.detach().double().numpy() for each in (probe.from_dependent, probe.from_head)
            )
            a, b, c, d = (each.detach().double().numpy() for each in probe.words)
            for i in range(num_words):
                for j in range(num_words):
                    if i == j:
                        assert scores_WC[i, j] < -1e8
                        continue
                    pair = (w, u)
                    if own is not None:
                        pair = (w + v[i] @ a + v[j] @ b, u + v[i] @ c + v[j] @ d)
                    expected = textbook.head_score(A, i, j, *pair)
                    np.testing.assert_allclose(scores_WC[i, j], expected, rtol=1e-4, atol=1e-4)
                expected = textbook.root_score(
                    A, i, probe.root.detach().numpy(), float(probe.constant)
                )
                np.testing.assert_allclose(scores_WC[i, -1], expected, rtol=1e-4, atol=1e-4)


def test_trees_are_those_of_all_trees_with_the_largest_sum() -> None:
    generator = np.random.default_rng(0)
    cycles = 0
    for _ in range(40):
        num_words = int(generator.integers(2, 6))
        scores = generator.normal(size=(num_words, num_words + 1)).astype(np.float32)
        scores[np.arange(num_words), np.arange(num_words)] = -1e9
        found = best_tree(scores)
        assert found.tolist() == textbook.best_tree(scores)
        assert is_tree(found)
        cycles += not is_tree(scores.argmax(1))
    assert cycles > 20


def test_a_chain_is_a_tree_and_a_cycle_or_two_roots_are_not() -> None:
    assert is_tree(np.array([*range(1, 40)]))
    assert not is_tree(np.array([1, 0, 3]))
    assert not is_tree(np.array([3, 3, 0]))


def probed(tmp_path: Path, planted_head: int | None) -> tuple[list[ProbeRow], ArcProbe, ProbeData]:
    train, test = (
        ProbeData.of(each, planted.maps(tmp_path / name, each, 4, planted_head, seed))
        for name, each, seed in (("train", TRAIN, 5), ("test", TEST, 6))
    )
    measured = ArcTest(TEST, Bootstrap(len(TEST), 200, 0), min_cases=20)
    rows, probe = probe_arcs(train, test, TRAINING, measured, "trained", 0, lambda epoch: None)
    return rows, probe, test


def value(rows: list[ProbeRow], metric: str, relation: str = "all") -> ProbeRow:
    return next(row for row in rows if (row.metric, row.relation) == (metric, relation))


@pytest.mark.slow
def test_planted_attention_is_found_and_its_head_named(tmp_path: Path) -> None:
    rows, probe, test = probed(tmp_path, planted_head=2)
    for metric in ("uas", "uas-tree"):
        found = value(rows, metric)
        assert found.value > 0.9 and found.low <= found.value <= found.high
    assert value(rows, "uas", "macro").value > 0.9
    assert value(rows, "las").value < 0.65  # labels are drawn at random
    weights = head_weights(probe, test, [Head("encoder.self", 0, k) for k in range(4)])
    ranked = sorted(weights, key=lambda each: -each.contribution)
    assert ranked[0].head == "enc.0.2" and ranked[0].contribution > 1
    assert abs(ranked[1].contribution) < 0.1
    assert ranked[0].from_dependent > 1 > 0 > ranked[0].from_head  # a child is no head


@pytest.mark.slow
def test_nothing_is_found_in_noise(tmp_path: Path) -> None:
    rows, _, _ = probed(tmp_path, planted_head=None)
    chance = np.mean([1 / len(each.words) for each in TEST for _ in each.words])
    found = value(rows, "uas")
    assert found.value < chance + 0.1


@pytest.mark.slow
def test_the_root_of_a_model_without_special_tokens_is_a_constant(tmp_path: Path) -> None:
    maps = planted.maps(tmp_path / "maps", TRAIN, 3, planted=0)
    for number, each in enumerate(TRAIN):
        size = len(each.words)
        maps.of(number)[size:] = maps.of(number)[:, size:] = 0  # no special tokens
    data = ProbeData.of(TRAIN, maps)
    probe = train_arc_probe(data, TRAINING, 0, lambda epoch: None)
    assert not probe.root.any() and float(probe.constant.detach()) > 0.1
    found = [scores.argmax(1) for scores in candidate_scores(probe, data)]
    right = [head_W == each.head_W for head_W, each in zip(found, TRAIN, strict=True)]
    roots = [head_W == len(head_W) for head_W in found]
    assert np.concatenate(right).mean() > 0.9
    assert 0.6 * len(TRAIN) < np.concatenate(roots).sum() < 1.4 * len(TRAIN)


def test_labels_are_learned_from_attention(tmp_path: Path) -> None:
    """A head that looks back at its objects alone."""
    maps = planted.maps(tmp_path / "maps", TRAIN, 3, None)
    for number, each in enumerate(TRAIN):
        for word, head in enumerate(each.head_W):
            if head < len(each.words) and each.relations[word] == "obj":
                maps.of(number)[head, word, 1] = 1
    data = ProbeData.of(TRAIN, maps)
    labels = train_arc_labels(data, 0)
    assert "root" not in labels.relations
    hits = cases = 0
    for number, each in enumerate(TRAIN[:50]):
        for word, label in enumerate(labels.predict(data, number, each.head_W)):
            if each.head_W[word] == len(each.words):
                assert label == "root"
            elif "obj" in (label, each.relations[word]):
                hits, cases = hits + (label == each.relations[word]), cases + 1
    assert cases > 50 and hits / cases > 0.8


def test_baselines() -> None:
    assert next_word(TEST[0]).tolist() == [*range(1, len(TEST[0].words) + 1)]
    num_words = len(TEST[0].words)
    assert fixed_offset(-1, TEST[0]).tolist() == [num_words, *range(num_words - 1)]
    chain = planted.sentence(5, np.random.default_rng(0))
    chain.head_W[:] = [5, 0, 1, 2, 3]
    assert best_offset([chain]) == -1
    measured = ArcTest(TEST, Bootstrap(len(TEST), 20, 0), min_cases=1)
    rows = baseline_rows(TRAIN, measured)
    assert {row.variant for row in rows} == {"next-word", "offset"}
    hits = [next_word(each) == each.head_W for each in TEST]
    counted = [each.counts_W for each in TEST]
    expected = np.concatenate(hits)[np.concatenate(counted)].mean()
    assert value(rows, "uas").value == expected
    assert value(rows, "uas").cases == np.concatenate(counted).sum()


def test_distances_are_one_map_for_each_offset() -> None:
    maps = distance_map(3)
    assert maps.shape == (5, 5, NUM_MAPS)
    assert maps[0, 2].argmax() - REACH == 2 and maps[2, 0].argmax() - REACH == -2
    assert maps[1, 3].argmax() - REACH == -2  # the special token before the sentence
    assert maps[1, 4].argmax() - REACH == 2  # the one after it
    assert not maps[np.arange(5), np.arange(5)].any() and maps.sum() == 20
    batch = distance_data(TEST).maps_of([0, 1])
    own = len(TEST[0].words)
    places = [*range(own), batch.shape[1] - 2, batch.shape[1] - 1]
    np.testing.assert_array_equal(batch[0][places][:, places], distance_map(own))


def test_every_sentence_is_in_one_batch() -> None:
    batches = list(shuffled(TRAIN, 16, np.random.default_rng(0)))
    assert sorted(index for batch in batches for index in batch) == [*range(len(TRAIN))]
    other = list(shuffled(TRAIN, 16, np.random.default_rng(1)))
    assert batches != other


def test_padding_is_no_candidate(tmp_path: Path) -> None:
    """The loss of a sentence does not depend on the longer ones in its batch."""
    given = (*sorted(planted.sentences(7, seed=8), key=lambda each: len(each.words)),)
    data = ProbeData.of(given, planted.maps(tmp_path / "maps", given, heads=3, planted=None))
    short, longest = len(given[0].words), len(given[-1].words)
    assert short < longest
    scores_BWC = drawn(ArcProbe(3))(data.batch([0, len(given) - 1]))
    assert (scores_BWC[0, :short, short:-1] < -1e8).all()
    assert (scores_BWC[0, :short, -1] > -1e8).all(), "the root"


def test_a_seed_decides_the_order_of_training(tmp_path: Path) -> None:
    maps = planted.maps(tmp_path / "maps", TRAIN, heads=3, planted=1)
    data, once = ProbeData.of(TRAIN, maps), Training(rate=5e-2, epochs=1)
    first, same, other = (
        train_arc_probe(data, once, seed, lambda _: None).from_dependent for seed in (1, 1, 2)
    )
    assert torch.equal(first, same) and not torch.equal(first, other)
    batches = shuffled(TRAIN, 16, np.random.default_rng(1))
    lengths = [max(len(TRAIN[index].words) for index in batch) for batch in batches]
    assert lengths != sorted(lengths)
