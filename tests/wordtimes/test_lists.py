"""Lists of heads on planted maps, whose errors are known."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from headcount.statistics import Bootstrap
from headcount.wordtimes.lists import Errors, Heard, MapsOnDisk, errors_of, greedy, head_errors
from headcount.wordtimes.warping import starts

FRAME = 0.02
SPANS = (np.array([[0.0, 0.2], [0.2, 0.5], [0.5, 0.8]]), np.array([[0.0, 0.3], [0.3, 0.6]]))
"""Seconds at which the words of two recordings begin and end, a row each."""


def heard(spans: np.ndarray, file: IO[bytes]) -> Heard:
    """Heads that are two frames late, right, at noise, and three frames early."""
    generator = np.random.default_rng(len(spans))
    rows, frames = len(spans) + 1, 50
    maps = np.full((4, rows, frames), -1, np.float32)
    maps[2] = generator.normal(size=(rows, frames))
    for head, late in ((0, 2), (1, 0), (3, -3)):
        bounds = [0, *(round(start / FRAME) + late for start in spans[1:, 0]), 40, frames]
        for row, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            maps[head, row, first:last] = 1
    return Heard(MapsOnDisk(file, maps), starts(maps), (*range(rows),), FRAME, frames * FRAME)


@pytest.fixture
def recordings(tmp_path: Path) -> Iterator[list[Heard]]:
    with (tmp_path / "maps").open("w+b") as file:
        yield [heard(spans, file) for spans in SPANS]


def test_maps_are_read_again_from_disk(tmp_path: Path) -> None:
    """Of several recordings in one file, in any order."""
    generator = np.random.default_rng(0)
    given = [generator.normal(size=(5, rows, 11)).astype(np.float16) for rows in (3, 7)]
    with (tmp_path / "maps").open("w+b") as file:
        kept = [MapsOnDisk(file, each) for each in given]
        for maps_HRF, its in (*zip(given, kept, strict=True), (given[0], kept[0])):
            assert its.num_bytes == maps_HRF.nbytes
            expected = maps_HRF[[4, 1]].astype(np.float32).mean(0)
            np.testing.assert_array_equal(its.mean([4, 1]), expected)


def test_a_head_that_is_late_is_off_by_as_much(recordings: list[Heard]) -> None:
    late, right, noise, early = head_errors(recordings, SPANS)
    # The first word of a recording begins with it, whatever the head
    np.testing.assert_allclose([each.mean()[0] for each in (late, right, early)], [24, 0, 36])
    assert noise.mean()[0] > 40
    assert late.within() == {"within_50": 1.0, "within_100": 1.0, "within_200": 1.0}
    assert early.within() == {"within_50": 0.4, "within_100": 1.0, "within_200": 1.0}
    start, end = late.estimates(Bootstrap(2, 50, 0))
    assert start.value == pytest.approx(24)
    assert late.more_than(early, Bootstrap(2, 50, 0)).value == pytest.approx(-12)
    assert end.value == pytest.approx(late.mean()[1])


def test_greedy_lists_begin_with_the_best_and_end_where_nothing_helps(
    recordings: list[Heard],
) -> None:
    assert greedy(recordings, SPANS, [0, 1, 2, 3], 4) == [1]
    without = greedy(recordings, SPANS, [0, 2, 3], 3)
    assert without[0] == 0
    means = [
        errors_of([each.spans_of(without[:n]) for each in recordings], SPANS).mean()[0]
        for n in range(1, len(without) + 1)
    ]
    assert means == sorted(means, reverse=True)


def test_errors_are_means_over_words_not_over_recordings() -> None:
    errors = Errors([np.array([[10.0, 0.0]]), np.array([[40.0, 30.0]] * 3)])
    assert errors.mean().tolist() == [32.5, 22.5]
