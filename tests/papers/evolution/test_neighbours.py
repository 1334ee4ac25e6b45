"""Nearest states, beside the textbook's; what is planted is found, noise gives chance."""

from pathlib import Path

import numpy as np
import pytest

from headcount.core import CorpusError
from headcount.papers.evolution.pictures import nearest, neighbour_rows
from headcount.papers.evolution.record import EvolutionOptions
from headcount.papers.evolution.subjects import Occurrences, StateStore
from tests.textbook import evolution as textbook

OPTIONS = EvolutionOptions(nearest=5, queries=100, pool=1000)


def planted(path: Path, count: int = 400, width: int = 23) -> StateStore:
    """Three layers: noise, the token, the right neighbour; the position rotates a fixed pair."""
    generator = np.random.default_rng(2)
    token_S, left_S, right_S = (generator.integers(0, 11, count) for _ in range(3))
    position_S = generator.integers(0, 13, count)
    left_S[position_S == 0] = -1
    unknown_S = np.full(count, -1)
    chosen = Occurrences(np.arange(count), position_S, token_S, left_S, right_S, unknown_S)
    store = StateStore(path / "s.f16", 4, chosen, width)
    store.open()
    noise = generator.normal(size=(4, count, width))
    noise[1] += 9 * np.eye(width)[token_S]
    noise[2] += 9 * np.eye(width)[right_S]
    noise[3, :, :2] += 40 * np.stack([np.cos(position_S / 5), np.sin(position_S / 5)], axis=1)
    for layer in range(4):
        store.numbers[layer] = noise[layer]
    return store


def test_the_nearest_are_those_of_the_textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.papers.evolution.pictures.BLOCK", 4)
    states_SD = np.random.default_rng(0).normal(size=(53, 5)).astype(np.float32)
    queries_Q = np.array([3, 7, 11, 19, 23, 52])
    found_QK = nearest(states_SD, queries_Q, 6)
    for query, found in zip(queries_Q, found_QK, strict=True):
        assert set(found.tolist()) == textbook.nearest(states_SD, int(query), 6)


def test_planted_tokens_are_shared_and_noise_is_chance(tmp_path: Path) -> None:
    store = planted(tmp_path)
    noise, token, right, position = (
        {(row.quantity, row.against): row for row in neighbour_rows(store, OPTIONS, layer)}
        for layer in range(4)
    )
    chance = noise["neighbours-chance", "token"].value
    assert chance == pytest.approx(1 / 11, abs=0.02)
    for name in ("token", "left", "right"):
        assert abs(noise["neighbours", name].value - chance) < 0.06
    assert token["neighbours", "token"].value > 0.9
    assert token["neighbours", "right"].value < 0.2
    assert right["neighbours", "right"].value > 0.9
    away, control = (position[name, "position"] for name in ("neighbours", "neighbours-chance"))
    assert away.value < 1 and control.value == pytest.approx(4.3, abs=0.4)
    assert away.low < away.value < away.high and away.cases == 100
    assert ("neighbours", "tag") not in noise
    first = store.occurrences.left_S == -1
    assert noise["neighbours", "left"].cases < 100 and first.any()


def test_chance_is_the_share_of_all_others(tmp_path: Path) -> None:
    store = planted(tmp_path, count=60)
    options = EvolutionOptions(nearest=59, queries=60, pool=60)
    with pytest.raises(CorpusError, match="more than 60 states"):
        list(neighbour_rows(store, EvolutionOptions(nearest=60), 0))
    rows = {(row.quantity, row.against): row.value for row in neighbour_rows(store, options, 0)}
    for name in ("token", "right", "position"):
        assert rows["neighbours", name] == pytest.approx(rows["neighbours-chance", name])
