"""Scores of key/value groups: by the book, on planted structure, and on random weights."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import headcount
from headcount.cache.kvpress import kvpress_scores
from headcount.cache.plan import CacheOptions
from headcount.cache.scores import (
    GroupScores,
    StreamingDistance,
    distance_scores,
    mean_ranks,
    retrieval_scores,
)
from headcount.core import InputError, LayerId, ModelError
from headcount.models import Loaded
from headcount.skills import Indirect, Needle, indirect_needles, retrieve
from headcount.tap import Block
from tests import examined, saved, tiny
from tests.textbook import group_scores
from tests.textbook.retrieval import copied_shares

SINK, RECENT, SIZE = 2, 5, 23
TEXTS = [
    f"The {word} garden was full of people and dogs ." for word in "old new red big".split() * 8
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


def ids(seed: int, size: int = SIZE) -> torch.Tensor:
    return torch.randint(5, 300, (size,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 2 * SIZE * SIZE, 10**6])
def test_distances_are_those_of_whole_maps(
    loaded: Loaded, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the mean over all queries of texts of several lengths, whatever the blocks."""
    monkeypatch.setattr("headcount.tap.tap.BLOCK", block)
    texts = [ids(0), ids(1, 17)]
    found = distance_scores(loaded, texts, SINK, RECENT)
    by_text = [
        np.array(group_scores.distances(loaded.model, text.tolist(), SINK, RECENT)).ravel()
        for text in texts
    ]
    expected = np.average(by_text, axis=0, weights=[SIZE, 17])
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert found.min() > 0


def test_nothing_moves_in_a_window_as_long_as_the_text(loaded: Loaded) -> None:
    assert distance_scores(loaded, [ids(0)], SINK, SIZE - SINK).max() < 1e-5
    assert distance_scores(loaded, [ids(0)], SINK, SIZE - SINK - 1).min() > 5e-5


def test_a_planted_group_that_looks_far_is_found(loaded: Loaded) -> None:
    """One head of one group looks at the middle of the text, all others at the last tokens."""
    (layer, *_), moved = loaded.anatomy.layers, StreamingDistance(loaded, SINK, RECENT)
    heads, size = layer.num_heads, 3 * SIZE
    weights = torch.zeros(1, heads, size, size)
    for query in range(size):
        weights[:, :, query, max(0, query - 1)] = 1
    far = range(size // 2, size)
    weights[:, heads - 1, far] = 0
    weights[:, heads - 1, far, size // 3] = 1
    value = torch.randn(1, heads, size, layer.head_dim, generator=torch.Generator().manual_seed(1))
    moved.begin(layer, value, size)
    for first in range(0, size, 7):
        part = weights[:, :, first : first + 7]
        places = slice(0, 1), slice(0, heads), slice(first, first + part.shape[2])
        moved.block(Block(layer, *places, part, part[..., :0]))
    moved.end(layer)
    sums_G = moved.sums[LayerId("decoder.self", 0)]
    assert not sums_G[:-1].any() and sums_G[-1] > 0.1


def test_kvpress_is_its_own_function(loaded: Loaded) -> None:
    texts = [ids(0, 41), ids(1, 29)]
    expected = np.mean(
        [group_scores.kvpress(loaded.model, text.tolist(), len(text)) for text in texts], axis=0
    )
    np.testing.assert_allclose(kvpress_scores(loaded, texts), expected.ravel(), atol=1e-5)
    longer = group_scores.kvpress(loaded.model, ids(2, 530).tolist(), 500)
    found = kvpress_scores(loaded, [ids(2, 530)])
    np.testing.assert_allclose(found, np.ravel(longer), atol=1e-5)


def test_kvpress_finds_a_planted_group(loaded: Loaded) -> None:
    """One group whose keys are opposite to its queries, so that near ones weigh least."""
    planted = deepcopy(loaded.model)
    attention: Any = planted.get_submodule(loaded.anatomy.layers[0].module)
    size = loaded.anatomy.layers[0].head_dim
    with torch.no_grad():
        key = attention.k_proj.weight[size:]
        attention.q_proj.weight[2 * size :] = -30 * key.repeat(2, 1)
        key *= 30
    scores = kvpress_scores(replace(loaded, model=planted), [ids(0, 200)])
    plain = kvpress_scores(loaded, [ids(0, 200)])
    assert scores.argmax() == 1 and scores[1] - 0.5 > 5 * abs(plain - 0.5).max()
    assert abs(plain - 0.5).max() < 0.1, "random weights have no such group"


STRETCHED = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
ROTATING: dict[str, dict[str, Any]] = {
    "llama": {"rope_parameters": STRETCHED},
    "qwen3": {},
    "gpt_neox": {},
    "cohere": {},
    "phi3": {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "glm": {"head_dim": 8},
}
"""Models that rotate halves or neighbours, all dimensions or some, and stretch angles."""


@pytest.mark.once
@pytest.mark.parametrize("name", ROTATING)
def test_kvpress_knows_how_models_rotate(name: str) -> None:
    """Rotating back and on again is checked inside, with layouts and parts of all kinds."""
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 24}
    given = sizes | {"vocab_size": 61, "num_hidden_layers": 2, "pad_token_id": 0}
    config = AutoConfig.for_model(name, **given, num_key_value_heads=2, **ROTATING[name])
    other = Loaded(tiny.seeded(AutoModelForCausalLM.from_config(config)), None, name)
    scores = kvpress_scores(other, [ids(0, 60) % tiny.VOCAB])
    assert len(scores) == sum(layer.num_key_value_heads for layer in other.anatomy.layers)
    assert ((scores > 0) & (scores < 1)).all() and len({*scores.tolist()}) > 1


def test_kvpress_needs_rotations() -> None:
    other = Loaded(examined.examined("gpt2")[0], None, "gpt2")
    with pytest.raises(
        ModelError, match="rotates queries and keys .* got gpt2.* Use --score retrieval"
    ):
        kvpress_scores(other, [ids(0) % tiny.VOCAB])


@pytest.mark.slow
def test_retrieval_is_the_largest_of_a_groups_heads(loaded: Loaded) -> None:
    """Over needles that were found, of a model that likes to say the last token again."""
    model: Any = deepcopy(loaded.model)
    embedding = model.get_input_embeddings().weight
    embedding.data *= 3
    model.get_output_embeddings().weight = torch.nn.Parameter(embedding.detach().clone())
    repeating = replace(loaded, model=model)
    asked = [Needle("same", 0.5, (token,) * 24, (token,) * 3, 5) for token in range(200)]
    asked += [Needle("other", 0.5, tuple(ids(9, 24).tolist()), (3, 4, 5), 5)]
    found = retrieve(repeating, asked)
    assert 3 < found.found_N.sum() and not found.found_N[-1]
    model.set_attn_implementation("eager")
    shares = [
        copied_shares(model, [*needle.ids], needle.place, 3)[1]
        for needle, is_found in zip(asked, found.found_N, strict=True)
        if is_found
    ]
    model.set_attn_implementation("sdpa")
    mean_H = np.mean(shares, axis=0)
    expected = [max(mean_H[first : first + 2]) for first in range(0, len(mean_H), 2)]
    np.testing.assert_allclose(retrieval_scores(repeating, found), expected)
    assert 0 < max(expected)


def test_both_is_the_mean_rank() -> None:
    one, other = np.array([3.0, 0.0, 0.0, 9.0]), np.array([1.0, 4.0, 2.0, 3.0])
    assert mean_ranks(one, other).tolist() == [
        (rank + rank_of_other) / 2 / 4
        for rank, rank_of_other in [(3, 1), (1.5, 4), (1.5, 2), (4, 3)]
    ]


def test_windows_are_stretches_of_one_length(loaded: Loaded) -> None:
    scores = GroupScores(loaded, TEXTS * 9, CacheOptions(recent=40))
    assert {len(each) for each in scores.windows} == {1024} and len(scores.windows) > 1
    short = GroupScores(loaded, TEXTS[:4], CacheOptions(recent=10)).windows
    assert len(short) == 1 and 20 < len(short[0]) < 200
    with pytest.raises(InputError, match="Expected more than 4 . 128 tokens .* got .* longer"):
        GroupScores(loaded, TEXTS[:4], CacheOptions()).of("distance")


@pytest.mark.parametrize("number", [4, 5])
def test_a_window_is_longer_than_what_a_group_keeps(loaded: Loaded, number: int) -> None:
    texts, sink = TEXTS[:number], 3
    (window,) = GroupScores(loaded, texts, CacheOptions(recent=10)).windows
    recent = len(window) - sink
    assert GroupScores(loaded, texts, CacheOptions(sink=sink, recent=recent - 1)).windows
    with pytest.raises(InputError, match=f"got {len(window)}"):
        assert GroupScores(loaded, texts, CacheOptions(sink=sink, recent=recent)).windows


def test_random_scores_depend_on_the_seed(loaded: Loaded) -> None:
    one, same, other = (
        GroupScores(loaded, TEXTS, CacheOptions(seed=seed)).of("random") for seed in (1, 1, 2)
    )
    assert one.tolist() == same.tolist() != other.tolist()


@pytest.mark.slow
def test_a_model_that_finds_nothing_has_no_retrieval(loaded: Loaded) -> None:
    options = CacheOptions(scored=(150,), recent=40)
    for name in ("retrieval", "both"):
        with pytest.raises(ModelError, match="of 40 needles .* found none. Use --score kvpress"):
            GroupScores(loaded, TEXTS, options).of(name)


def test_answers_are_the_largest_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a model that fetches what it is asked, and not in one of random weights."""
    from headcount.testing.skill_checks import copier

    model, words = copier(), ("hot", "early")
    names = ("Lisbon", "Oslo", "Quito", "Lima")
    kinds = {
        word: Indirect("?", word, tuple((f"{{}} {word} {each} .", each) for each in names))
        for word in words
    }
    asked = partial(indirect_needles, kinds=kinds)
    options = CacheOptions(scored=(150,), recent=40, score="answers")
    with pytest.raises(ModelError, match="can't be asked for needles in other .* --score kvpress"):
        GroupScores(model, TEXTS, options).of("answers")
    monkeypatch.setattr("headcount.cache.scores.indirect_needles", asked)
    found = GroupScores(model, TEXTS, options).of("answers")
    assert found.round(3).tolist() == [0.0] * 4 + [0.1] * 10 + [0.0] * 2
