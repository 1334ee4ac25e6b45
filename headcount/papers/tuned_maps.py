r"""Tuned maps: how fine-tuning changes attention maps, and which patterns they show.

Every sentence is run through the model before and after fine-tuning. For every map, one per
sentence and head, this gives

$$\cos(A, A') = \frac{\sum_{ij} A_{ij} A'_{ij}}{\sqrt{\sum_{ij} A_{ij}^2 \sum_{ij} A'^2_{ij}}}$$

over all pairs of tokens, its pattern by the rule of `measures/patterns.py` before and after, and
that of the tuned map by a trained classifier.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), sections 4.1 and 4.2, https://arxiv.org/abs/1908.08593
Departure: none in the cosines; for patterns see `pattern_classifier`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount.analysis import forward, sides
from headcount.core import LayerId, ModelError, amount
from headcount.corpora import Batch
from headcount.measures import AttentionReducer, Patterns, Sides, shows_pattern
from headcount.models import Loaded
from headcount.papers.joined import joined
from headcount.papers.pattern_classifier import PatternClassifier
from headcount.tap import AttentionLayer, Block, Statistics, WholeMap


@final
@dataclass(frozen=True, eq=False)
class MapsOfLayer:
    """What was found of every map of one layer, over a corpus."""

    before_SH: Int[np.ndarray, "sentence head"]
    """Number of the pattern before fine-tuning, by the rule."""
    after_SH: Int[np.ndarray, "sentence head"]
    """Number of the pattern after fine-tuning, by the rule."""
    trained_SH: Int[np.ndarray, "sentence head"]
    """Number of the pattern after fine-tuning, by the classifier."""
    cosine_SH: Float[np.ndarray, "sentence head"]
    """Cosine of the maps before and after fine-tuning."""


def compare_maps(
    before: Loaded,
    after: Loaded,
    batches: Iterable[Batch],
    classifier: PatternClassifier,
    done: Callable[[int], None] = lambda number: None,
) -> dict[LayerId, MapsOfLayer]:
    """Compare the maps of a model before and after fine-tuning.

    The maps of one batch of the first model are held while the second one runs.

    Args:
        before: the model before fine-tuning.
        after: the same model after it.
        batches: the corpus, encoded for both.
        classifier: the trained classifier of patterns.
        done: called with the number of sentences so far.

    Raises:
        ModelError: if the models differ in their heads.
    """
    if before.heads != after.heads:
        raise ModelError(
            f"Expected a model and the same model after fine-tuning, got {before.name} with "
            f"{amount(len(before.heads), 'head')} and {after.name} with {len(after.heads)}. Name "
            "the model that was fine-tuned."
        )
    parts: dict[LayerId, list[MapsOfLayer]] = {}
    number = 0
    for batch in batches:
        first, second = (_run(each, batch) for each in (before, after))
        for place, (maps_BHQK, pattern_BH, its) in second.items():
            old_BHQK, old_pattern_BH, _ = first[place]
            part = MapsOfLayer(
                old_pattern_BH.cpu().numpy(),
                pattern_BH.cpu().numpy(),
                _classified(maps_BHQK, its, classifier),
                _cosine(old_BHQK, maps_BHQK).cpu().numpy(),
            )
            parts.setdefault(place, []).append(part)
        number += len(batch.sentences)
        done(number)
    return {place: joined(each) for place, each in parts.items()}


def _cosine(a_BHQK: Tensor, b_BHQK: Tensor) -> Tensor:
    dot, a, b = (
        (x * y).sum((2, 3)) for x, y in ((a_BHQK, b_BHQK), (a_BHQK, a_BHQK), (b_BHQK, b_BHQK))
    )
    return dot / (a * b).sqrt()


def _classified(
    maps_BHQK: Tensor, its: Sides, classifier: PatternClassifier
) -> Int[np.ndarray, "sentence head"]:
    """The classifier's pattern of each map, without padding."""
    rows = []
    for row, maps_HQK in enumerate(maps_BHQK):
        queries, keys = (int(side.is_token_BN[row].sum()) for side in (its.queries, its.keys))
        rows.append(classifier(maps_HQK[:, :queries, :keys].cpu()))
    return torch.stack(rows).numpy()


def _run(loaded: Loaded, batch: Batch) -> dict[LayerId, tuple[Tensor, Tensor, Sides]]:
    """Maps without the rows of padding, their patterns by the rule, and their tokens, by layer."""
    keeper = _Keeper()
    forward(loaded.model, loaded.anatomy, [batch], keeper)
    return keeper.found


@final
class _Keeper:
    """The tap's listener: keeps the maps of one batch, and finds their patterns."""

    def __init__(self) -> None:
        self.found: dict[LayerId, tuple[Tensor, Tensor, Sides]] = {}

    def start(self, batch: Batch) -> None:
        """Announce the batch."""
        self._batch = batch

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Statistics:
        """Make room for a layer's maps; returns the statistics that the rule needs."""
        its = sides(layer, self._batch.to(value_BHKD.device))
        self._reducer = AttentionReducer(layer, its, None, value_BHKD, Patterns.needs)
        self._map = WholeMap(value_BHKD, num_queries)
        return self._reducer.statistics.with_map()

    def block(self, block: Block) -> None:
        """Keep a block's weights."""
        self._map.add(block)

    def end(self, layer: AttentionLayer) -> None:
        """Find the patterns of a layer's maps."""
        its, maps_BHQK = self._reducer.sides, self._map.weights_BHQK
        pattern_BH = shows_pattern(self._reducer.attention()).long().argmax(-1)
        maps_BHQK *= its.queries.is_token_BN[:, None, :, None]
        self.found[layer.layer_id] = maps_BHQK, pattern_BH, its
        del self._reducer, self._map
