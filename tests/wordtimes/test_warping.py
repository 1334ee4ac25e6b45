"""Paths through maps, against transformers' own functions."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.whisper import generation_whisper

from headcount.wordtimes.warping import standardised, starts

own: Any = generation_whisper


def by_the_book(gain_RF: np.ndarray) -> list[int]:
    """The frame at which each row begins, as transformers finds it."""
    rows, frames = own._dynamic_time_warping(-gain_RF.astype(np.float64))
    is_new = np.pad(np.diff(rows), (1, 0), constant_values=1).astype(bool)
    return frames[is_new].tolist()


@pytest.mark.parametrize("shape", [(3, 5, 43), (2, 11, 7), (2, 1, 5), (1, 7, 2)])
def test_paths_are_those_of_transformers(shape: tuple[int, int, int]) -> None:
    maps = np.random.default_rng(0).dirichlet(np.ones(shape[2]), shape[:2]).astype(np.float32)
    weights = torch.from_numpy(maps)
    gains = standardised(maps)
    if shape[1] > 1:  # of one row, transformers divides zero by zero
        std, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
        expected = own._median_filter((weights - mean) / std, 7)
        np.testing.assert_allclose(gains, expected.numpy(), atol=1e-5)
    assert starts(gains).tolist() == [by_the_book(each) for each in gains]


def test_of_equal_steps_the_same_is_taken() -> None:
    """Sums of small integers are exact, and many paths have the same."""
    gains = np.random.default_rng(1).integers(-1, 2, (7, 6, 11)).astype(np.float32)
    assert starts(gains).tolist() == [by_the_book(each) for each in gains]


def test_a_frame_that_all_rows_weigh_alike_says_nothing() -> None:
    assert not standardised(np.full((1, 3, 9), 0.2, np.float32)).any()


def test_a_diagonal_is_followed() -> None:
    """Seven rows of five frames each, planted among noise."""
    generator = np.random.default_rng(0)
    maps = generator.uniform(0, 0.1, (2, 7, 35)).astype(np.float32)
    for row in range(7):
        maps[1, row, 5 * row : 5 * row + 5] += 1
    assert starts(standardised(maps))[1].tolist() == [0, 5, 10, 15, 20, 25, 30]


def test_memory_is_that_of_a_few_copies_of_the_maps() -> None:
    """A Whisper large has 640 maps, and the windows of a median are seven times as large."""
    maps_HRF = np.random.default_rng(0).random((64, 20, 300), dtype=np.float32)
    tracemalloc.start()
    try:
        starts(standardised(maps_HRF))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * maps_HRF.nbytes
