"""A small classifier of attention maps, trained on maps that are generated from known patterns.

A map of n queries and m keys is averaged down (or repeated up) to 16 x 16 cells, times m, so that
uniform attention is 1 everywhere. Three convolutions and a linear map give one of five patterns.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), section 4.1, https://arxiv.org/abs/1908.08593
Departure: the paper trained a convolutional network on 400 maps labelled by hand, which were not
released; generated maps have a label by construction.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, cross_entropy

PATTERNS = ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")
"""Names of the patterns, in the order of the rule's columns."""

SIZE = 16
"""Number of rows and columns that a map is averaged to."""

_LARGEST = 8.0
"""Largest number in a cell, so that long and short maps are alike."""


@final
@dataclass(frozen=True, eq=False)
class PatternClassifier:
    """A trained classifier."""

    network: nn.Module
    accuracy: float
    """Share of other generated maps whose pattern is found."""

    def __call__(self, maps_NQK: Float[Tensor, "map query key"]) -> Int64[Tensor, " map"]:
        """The number of each map's pattern in `PATTERNS`; maps have no padding."""
        with torch.inference_mode():
            return self.network(cells(maps_NQK)).argmax(-1)


def cells(maps_NQK: Float[Tensor, "map query key"]) -> Float[Tensor, "map one row column"]:
    """The input of the network."""
    pooled = adaptive_avg_pool2d(maps_NQK[:, None].float(), (SIZE, SIZE))
    return (pooled * maps_NQK.shape[-1]).clamp(max=_LARGEST)


def train_pattern_classifier(
    num_maps: int = 3000, epochs: int = 8, seed: int = 0
) -> PatternClassifier:
    """Train a classifier on generated maps, and measure it on a tenth of them that it never saw.

    Args:
        num_maps: number of generated maps.
        epochs: number of passes over them.
        seed: seed of the maps and of the network.
    """
    rng = np.random.default_rng(seed)
    label_N = torch.from_numpy(rng.integers(len(PATTERNS), size=num_maps))
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        input_N = torch.cat(
            [cells(torch.from_numpy(generated_map(rng, int(label)))[None]) for label in label_N]
        )
        held = max(1, num_maps // 10)
        network = _network()
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
        for _ in range(epochs):
            for rows in torch.randperm(num_maps - held).split(64):
                loss = cross_entropy(network(input_N[held:][rows]), label_N[held:][rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    network.eval().requires_grad_(False)
    right = network(input_N[:held]).argmax(-1) == label_N[:held]
    return PatternClassifier(network, float(right.double().mean()))


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (SIZE // 4) ** 2, len(PATTERNS)),
    )


def generated_map(
    rng: np.random.Generator, pattern: int, num_tokens: int | None = None
) -> Float[np.ndarray, "query key"]:
    """A map that shows a pattern, given by its number, mixed with noise.

    Half of a row or more is the pattern's, and up to a sixth another one's; in a heterogeneous map
    at most a fifth is any pattern's.
    """
    n = num_tokens or int(rng.integers(6, 48))
    noise_QK = _softmax(rng.uniform(0, 2.5) * rng.normal(size=(n, n)))
    name = PATTERNS[pattern]
    other = _shape(rng, PATTERNS[int(rng.integers(len(PATTERNS) - 1))], n)
    if name == "heterogeneous":
        share = rng.uniform(0, 0.2)
        return (1 - share) * noise_QK + share * other
    part, share = rng.uniform(0, 1 / 3), rng.uniform(0.5, 1)
    rest_QK = (1 - part) * noise_QK + part * other
    return (1 - share) * rest_QK + share * _shape(rng, name, n)


def _shape(rng: np.random.Generator, name: str, n: int) -> Float[np.ndarray, "query key"]:
    """A pure pattern over n tokens."""
    query, key = np.indices((n, n))
    match name:
        case "vertical":
            return sum(_columns(rng, key), start=np.zeros((n, n)))
        case "diagonal":
            offset = int(rng.integers(-2, 3))
            return (key == np.clip(query + offset, 0, n - 1)).astype(float)
        case "vertical_diagonal":
            part = rng.uniform(0.35, 0.65)
            return part * _shape(rng, "vertical", n) + (1 - part) * _shape(rng, "diagonal", n)
        case "block":
            cut = int(rng.integers(n // 4 + 1, n - n // 4))
            same = ((query < cut) == (key < cut)).astype(float)
            inside = same * _softmax(rng.uniform(0, 1) * rng.normal(size=(n, n)))
            return inside / inside.sum(1, keepdims=True)
        case _:
            raise ValueError(f"expected a pattern out of {', '.join(PATTERNS[:-1])}, got {name!r}")


def _columns(rng: np.random.Generator, key: np.ndarray) -> Iterator[np.ndarray]:
    """One or two columns whose weights add up to 1 in every row."""
    n = len(key)
    part = rng.uniform(0.3, 1) if rng.random() < 0.5 else 1.0
    yield part * (key == rng.integers(n))
    yield (1 - part) * (key == rng.integers(n))


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
