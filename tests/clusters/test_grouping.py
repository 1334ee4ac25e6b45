"""Distances between heads, groups, and the test of the layers."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from headcount.clusters import ClusterOptions, Clusters, cluster
from headcount.clusters.grouping import Divergence, arrange, layer_test, scaled
from headcount.core import InputError, ModelError
from headcount.corpora import Corpus, Sentence
from headcount.models import Loaded
from headcount.tap import FunctionListener, Tap
from tests.tasks.loaded import loaded
from tests.textbook import divergence as textbook

PAIRS = Corpus.from_sentences(
    [
        Sentence("The old dog barked at the moon", target="Der alte Hund bellte den Mond an"),
        Sentence("Did you hear the rain", target="Hast du gestern den Regen gehört"),
        Sentence("A painter", target="Ein Maler aus Bremen"),
    ]
)
QUICK = ClusterOptions(permutations=20)


def by_the_book(
    model: Loaded, corpus: Corpus = PAIRS, windows: bool = False
) -> dict[frozenset[str], float]:
    """Mean distance of every two heads of a site, text by text, without padding.

    Of sites with many heads, some pairs.
    """
    measured: list[bool] = []
    maps: dict[str, dict[str, list[np.ndarray]]] = {}

    def keep(block) -> None:
        layer = block.layer
        short = {"encoder.self": "enc", "decoder.self": "dec", "decoder.cross": "cross"}[layer.site]
        for head, each in enumerate(block.weights_BHQK[0].numpy()):
            name = f"{short}.{layer.layer}.{head}"
            maps.setdefault(short, {}).setdefault(name, []).append(
                each[measured] if measured else each.copy()
            )

    for pair in model.encoder(windows=windows).encode([*corpus]):
        measured = pair.source.is_measured or []
        inputs = {"input_ids": torch.tensor([pair.source.ids])}
        if pair.target is not None:
            inputs["decoder_input_ids"] = torch.tensor([pair.target.ids])
        listener = FunctionListener(keep)
        with torch.inference_mode(), Tap(model.model, model.anatomy, listener, block=2**62):
            model.model.base_model(**inputs)
    found = {}
    for heads in maps.values():
        for first, a in enumerate(heads):
            for second, b in enumerate(heads):
                if first < second and (len(heads) < 11 or (7 * first + second) % 31 == 0):
                    pairs = list(zip(heads[a], heads[b], strict=True))
                    total = sum(textbook.divergence(*pair) * len(pair[0]) for pair in pairs)
                    found[frozenset((a, b))] = total / sum(len(first) for first, _ in pairs)
    return found


@pytest.mark.once
@pytest.mark.parametrize("name", ["BertModel", "MarianMTModel", "LlamaForCausalLM"])
@pytest.mark.parametrize("max_weights", [32_000_000, 700, 1])
def test_distances_by_the_book(name: str, max_weights: int) -> None:
    """However few weights are held at once: in whole batches, text by text, query by query."""
    model = loaded(name)
    options = ClusterOptions(permutations=9, max_weights=max_weights, pool=2)
    if max_weights == 1 and name != "BertModel":
        return  # every query of every text is a forward pass of its own
    found = cluster(model, PAIRS, options)
    expected = by_the_book(model)
    distances = {
        frozenset((row["head_a"], row["head_b"])): row["distance"]
        for row in found.distances.to_dict("records")
    }
    assert expected and expected.keys() <= distances.keys()
    for pair, distance in expected.items():
        assert distances[pair] == pytest.approx(distance, abs=2e-6)


@pytest.mark.once
@pytest.mark.parametrize("max_weights", [32_000_000, 700])
def test_distances_of_windows_by_the_book(
    max_weights: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Context is seen, and no query."""
    model = loaded("BertModel")
    monkeypatch.setattr(model.tokenizer, "model_max_length", 12)
    texts = [pair.text for pair in PAIRS]
    corpus = Corpus.from_sentences([" ".join(texts * 3), *texts])
    options = ClusterOptions(permutations=9, max_weights=max_weights, windows=True)
    found = cluster(model, corpus, options)
    expected = by_the_book(model, corpus, windows=True)
    for row in found.distances.to_dict("records"):
        pair = frozenset((row["head_a"], row["head_b"]))
        assert row["distance"] == pytest.approx(expected[pair], abs=2e-6)
    tokens = [pair.source for pair in model.encoder(windows=True).encode([*corpus])]
    queries = sum(len(each.measured(each.ids)) for each in tokens)
    assert found.record.queries == {"encoder.self": queries}
    assert found.record.sentences == 4 and found.record.truncated == 0
    windows, rough = found.record.warnings
    assert "read in windows: 1 of 4" in windows
    assert rough.startswith("distances are means over 4 sentences: below 30, other text ")
    often = Corpus.from_sentences(texts * 10)
    assert cluster(model, often, ClusterOptions(permutations=9)).record.warnings == ()
    assert "|windows:True|" in found.record.signature


def test_distances_are_bounded_and_symmetric() -> None:
    """The same head is at distance 0; heads that never meet are almost ln 2 apart."""
    length = 31
    weights = torch.zeros(3, 1, length, length)
    weights[0, 0, :, 3] = 1
    weights[1] = weights[0]
    weights[2, 0, :, 5] = 1
    sums, ones = Divergence(3), torch.ones(1, length, dtype=torch.bool)
    sums.add(weights, ones, ones)
    distance = sums.mean()
    assert torch.equal(distance, distance.T)
    assert float(distance[0, 1]) == pytest.approx(0, abs=1e-7)
    expected = textbook.divergence(weights[0, 0].numpy(), weights[2, 0].numpy())
    assert float(distance[0, 2]) == pytest.approx(expected, abs=1e-6)
    assert 0.98 * math.log(2) < expected < math.log(2)


def planted(seed: int, num_layers: int, size: int, is_near: bool) -> np.ndarray:
    """Distances of random points; heads of one layer are around one point, or anywhere."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(num_layers, 3)) * (3 if is_near else 0)
    points = np.repeat(centres, size, 0) + rng.normal(size=(num_layers * size, 3))
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_near_layers_are_found_and_noise_is_not() -> None:
    layers = [layer for layer in range(5) for _ in range(7)]
    near = layer_test("encoder.self", layers, planted(0, 5, 7, True), 99, 0)
    assert near.p == 0.01 and near.same_layer < near.other_layers
    drawn = [layer_test("s", layers, planted(s, 5, 7, False), 99, s).p for s in range(1, 30)]
    assert np.mean(np.array(drawn) <= 0.05) < 0.2 and 0.3 < np.mean(drawn) < 0.7


def test_permutations_by_the_book() -> None:
    layers, distance = [0, 0, 1, 1, 1, 2, 2], planted(3, 7, 1, False)
    found = layer_test("encoder.self", layers, distance, 13, 5)
    rng = np.random.default_rng(5)
    orders = [rng.permutation(np.arange(7)).tolist() for _ in range(13)]
    assert found.p == pytest.approx(textbook.permutation_p(layers, distance, orders))
    one_layer = layer_test("encoder.self", [0] * 7, distance, 13, 5)
    assert math.isnan(one_layer.p) and math.isnan(one_layer.other_layers)


def test_planted_groups_are_found_and_mapped() -> None:
    """Three groups far apart; complete linkage keeps every two heads within the distance."""
    of = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0, 2])
    points = np.stack([of * 10.0, np.linspace(0, 0.5, 10)], 1)
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    names = [f"enc.0.{index}" for index in range(10)]
    places = arrange(names, distance, 1.0, 0, first_group=4)
    groups = [place.group for place in places]
    assert {group for group in groups} == {4, 5, 6}
    assert all((groups[a] == groups[b]) == (of[a] == of[b]) for a in range(10) for b in range(10))
    assert sorted(place.order for place in places) == list(range(10))
    by_order = [place.group for place in sorted(places, key=lambda place: place.order)]
    assert by_order == sorted(by_order)
    xy = scaled(distance, 0)
    again = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    np.testing.assert_allclose(again, distance, atol=0.05)


def test_records_are_read_back(tmp_path: Path) -> None:
    found = cluster(loaded("BertModel"), PAIRS, QUICK)
    found.write(tmp_path)
    again = Clusters.read(tmp_path)
    assert again.places == found.places and again.record == found.record
    assert again.distances.equals(found.distances)
    assert sorted(head for group in again.groups for head in group) == sorted(
        place.head for place in found.places
    )
    (tmp_path / "groups.parquet").unlink()
    with pytest.raises(InputError, match="describes groups.parquet, which is missing"):
        Clusters.read(tmp_path)


def test_sites_are_compared_apart() -> None:
    found = cluster(loaded("MarianMTModel"), PAIRS, QUICK)
    for row in found.distances.to_dict("records"):
        assert row["head_a"].partition(".")[0] == row["head_b"].partition(".")[0]
    by_group: dict[int, set[str]] = {}
    for place in found.places:
        by_group.setdefault(place.group, set()).add(place.head.partition(".")[0])
    assert all(len(sites) == 1 for sites in by_group.values())
    assert [test.site for test in found.record.tests] == list(found.record.queries)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": 0.7}, "Expected a largest distance within groups from 0 to 0.69 nats, got 0.7"),
        ({"within": math.nan}, "Expected a largest distance within groups"),
    ],
)
def test_options_are_checked(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClusterOptions(**options)  # pyright: ignore[reportArgumentType]


def test_sizes_are_checked() -> None:
    with pytest.raises(InputError, match="Expected max_weights of at least 1, got 0"):
        ClusterOptions(max_weights=0)


def test_a_single_head_has_nothing_to_be_compared_with() -> None:
    model = loaded("BertModel", num_attention_heads=1, num_hidden_layers=1)
    with pytest.raises(ModelError, match="Expected a site with at least two heads"):
        cluster(model, PAIRS, QUICK)
