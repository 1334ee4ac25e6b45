"""Mutual information, beside the textbook's loops; planted structure is found, noise is not."""

from math import log

import numpy as np
import pytest

from headcount.core import CorpusError
from headcount.papers.evolution.mutual_information import (
    clusters_of,
    information,
    information_by_position,
    miller_madow,
    plug_in,
)
from tests.textbook import evolution as textbook


def test_estimates_are_those_of_the_textbook() -> None:
    generator = np.random.default_rng(3)
    token_S, cluster_S = generator.integers(0, 7, 211), generator.integers(0, 5, 211)
    cluster_S[:90] = token_S[:90] % 5
    expected = textbook.mutual_information(token_S.tolist(), cluster_S.tolist())
    assert plug_in(token_S, cluster_S) == pytest.approx(expected)
    expected = textbook.miller_madow(token_S.tolist(), cluster_S.tolist())
    assert miller_madow(token_S, cluster_S) == pytest.approx(expected)


def test_planted_tokens_are_found_and_noise_is_not() -> None:
    generator = np.random.default_rng(3)
    token_S = np.repeat(np.arange(8), 250)
    noise_SD = generator.normal(size=(2000, 6)).astype(np.float32)
    planted_SD = noise_SD + 20 * np.eye(8, 6, dtype=np.float32)[token_S]
    planted_SD[:, 0] += 20 * (token_S == 7)
    planted, independent = (
        {row.quantity: row for row in information(token_S, clusters_of(states, 20, 0), "input", 0)}
        for states in (planted_SD, noise_SD)
    )
    assert planted["mi"].value > 0.8 * log(8)
    control = independent["mi-shuffled"]
    assert control.low * 0.7 < independent["mi"].value < control.high * 1.4
    assert abs(independent["mi-miller-madow"].value) < 0.012
    assert control.cases == 2000


def test_the_correction_takes_away_what_chance_gives() -> None:
    generator = np.random.default_rng(11)
    found = [
        miller_madow(generator.integers(0, 9, 1300), generator.integers(0, 13, 1300))
        for _ in range(20)
    ]
    assert abs(np.mean(found)) < 0.005


def test_positions_are_measured_apart() -> None:
    position_S = np.repeat([0, 1, 7], [300, 300, 150])
    token_S = np.random.default_rng(0).integers(0, 3, 750)
    cluster_S = np.where(position_S == 1, token_S, 0)
    found = {
        (row.quantity, row.against): row.value
        for row in information_by_position(token_S, cluster_S, position_S, "input", 0)
    }
    assert found["mi", "input at 1"] == pytest.approx(log(3), abs=0.02)
    assert found["mi", "input at 0"] == pytest.approx(0)
    assert ("mi", "input at 5-8") not in found


def test_fewer_states_than_clusters_are_refused() -> None:
    with pytest.raises(CorpusError, match=r"at least as many states as clusters \(7\), got 5"):
        clusters_of(np.zeros((5, 3), dtype=np.float32), 7, 0)
