"""Heads that follow the sound, planted among others, are found; no others."""

import statistics

import numpy as np
import pytest

from headcount.wordtimes.head_scores import agreeing, map_scores, median_of_others, ranked
from headcount.wordtimes.warping import standardised, starts

ROWS, FRAMES = 11, 97


def maps(planted: dict[int, float], heads: int, seed: int, first: int = 0) -> np.ndarray:
    """Maps of noise and of sinks, some of which follow words of uneven lengths; the last is sure.

    Args:
        planted: how far a head is off, in frames, by its number.
        heads: number of heads.
        seed: seed of the words and the noise.
        first: the frame before which nobody speaks.
    """
    generator = np.random.default_rng(seed)
    found = generator.dirichlet(np.ones(FRAMES), (heads, ROWS))
    found[::3, :, 0] += 1  # every third head looks at the first frame, too
    middles = np.sort(generator.choice(np.arange(first, FRAMES), ROWS, replace=False))
    for head, off in planted.items():
        seen = middles + generator.normal(0, off, ROWS)
        far = (np.arange(FRAMES) - seen[:, None]) / 2
        found[head] = found[head] / 5 + np.exp(-(far**2))
    return (found / found.sum(-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("heads", "first"), [(9, 30), (83, 0)])
def test_planted_heads_are_found_and_no_others(heads: int, first: int) -> None:
    """Also where nearly all are noise, as long as words are spread over the recording."""
    planted = {heads - 4: 2.0, heads - 3: 1.0, heads - 1: 0.5}
    paths = [starts(standardised(maps(planted, heads, seed, first))) for seed in range(7)]
    off_SH = agreeing(paths, wanted=3)
    assert sorted(ranked(off_SH)[:3].tolist()) == [*planted]
    assert off_SH.shape == (7, heads)


def test_the_median_leaves_the_head_itself_out() -> None:
    starts_HR = np.random.default_rng(0).integers(0, 7, (5, 13))
    for among in ([0, 1, 2, 3, 4], [1, 3], [0, 2, 4], [3]):
        is_among_H1 = np.isin(np.arange(5), among)[:, None]
        found_HR = median_of_others(starts_HR, is_among_H1)
        for head in range(5):
            others = [each for each in among if each != head]
            if others:  # a head without others agrees with itself
                expected = [statistics.median(column) for column in starts_HR[others].T.tolist()]
                assert found_HR[head].tolist() == expected


def test_scores_of_one_map() -> None:
    """A diagonal moves on with every row and reaches all frames; a sink does neither."""
    diagonal, sink = np.eye(5, dtype=np.float32), np.zeros((5, 5), np.float32)
    sink[:, 2] = 1
    both = np.stack([diagonal, sink])
    paths_HR = np.array([[0, 1, 2, 3, 4], [0, 0, 0, 2, 2]])
    gain_H, monotone_H, coverage_H, norm_H = map_scores(both, both, paths_HR)
    assert gain_H.tolist() == pytest.approx([1, 0.2])
    assert monotone_H.tolist() == [1, 0] and coverage_H.tolist() == [0.8, 0]
    assert norm_H == pytest.approx([5 + 5, 5 + 5**0.5])
