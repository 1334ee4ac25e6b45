"""Draws: the random numbers that tests of significance share, made by a seed in parts."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

CHUNK = 2**21
"""Number of draws in memory at a time."""


def resamples(
    num_examples: int, num_samples: int, seed: int = 0
) -> Iterator[Int[np.ndarray, "sample example"]]:
    """Numbers of examples drawn with replacement by a seed, some samples at a time."""
    random = np.random.default_rng(seed)
    for size in _sizes(num_examples, num_samples):
        yield random.integers(num_examples, size=(size, num_examples))


def swaps(
    num_examples: int, num_samples: int, seed: int = 0
) -> Iterator[Float[np.ndarray, "sample example"]]:
    """Fair coins, 1 or 0, for every example of every sample, some samples at a time."""
    random = np.random.default_rng(seed)
    for size in _sizes(num_examples, num_samples):
        yield random.integers(2, size=(size, num_examples), dtype=np.int8).astype(float)


def in_parts(drawn_SN: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Some rows at a time, so that an array with `width` numbers for each of them fits."""
    at_once = max(1, 2 * CHUNK // width)
    for done in range(0, len(drawn_SN), at_once):
        yield drawn_SN[done : done + at_once]


def times(index_SN: Int[np.ndarray, "sample example"]) -> Float[np.ndarray, "sample example"]:
    """Number of times each example was drawn."""
    samples, examples = index_SN.shape
    flat = index_SN + examples * np.arange(samples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=samples * examples)
    return counts.reshape(samples, examples).astype(float)


def _sizes(num_examples: int, num_samples: int) -> Iterator[int]:
    """Numbers of samples that are in memory together."""
    at_once = max(1, CHUNK // num_examples)
    for done in range(0, num_samples, at_once):
        yield min(at_once, num_samples - done)
