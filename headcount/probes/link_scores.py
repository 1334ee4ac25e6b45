r"""Scores of links against gold links: error rate, precision, recall, with intervals over pairs.

$$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}, \qquad
\mathrm{precision} = \frac{|A \cap P|}{|A|}, \qquad \mathrm{recall} = \frac{|A \cap S|}{|S|}$$

S are the sure gold links and P the possible ones, S among them.

Reference: A Systematic Comparison of Various Statistical Alignment Models (Och & Ney, 2003),
section 4, https://aclanthology.org/J03-1002
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from headcount.corpora import Links
from headcount.results import AlignmentRow
from headcount.statistics import Bootstrap


class Place(NamedTuple):
    """What a row of the table is about."""

    name: str
    """Name of the head, layer or aligner."""
    level: str
    quantity: str
    direction: str


@final
@dataclass(frozen=True, eq=False)
class GoldCounts:
    """Numbers of links of every pair that no aligner changes."""

    sure_P: Int[np.ndarray, " pair"]
    """Number of sure links."""
    cases_P: Int[np.ndarray, " pair"]
    """Number of target words with gold links."""

    @classmethod
    def of(cls, gold: Sequence[Links], takes_part: Sequence[Sequence[bool]]) -> "GoldCounts":
        """The counts of some pairs.

        Args:
            gold: the links of every pair.
            takes_part: for every target word of each pair, whether it takes part.
        """
        linked = [
            sum(takes[target] for target in {target for _, target in links.possible})
            for links, takes in zip(gold, takes_part, strict=True)
        ]
        return cls(np.array([len(links.sure) for links in gold]), np.array(linked))


@final
@dataclass(frozen=True, eq=False)
class Found:
    """Links that one aligner draws in every pair."""

    links_P: Int[np.ndarray, " pair"]
    sure_P: Int[np.ndarray, " pair"]
    """Number of them that are sure."""
    possible_P: Int[np.ndarray, " pair"]
    """Number of them that are possible."""


def gold_grid(
    gold: Sequence[Links], takes_part: Sequence[Sequence[bool]], num_source: int
) -> Bool[np.ndarray, "kind pair target source"]:
    """The sure links and the possible ones of some pairs, without words that take no part."""
    num_targets = max(1, *map(len, takes_part))
    grid_2PWV = np.zeros((2, len(gold), num_targets, num_source), bool)
    for pair, (links, takes) in enumerate(zip(gold, takes_part, strict=True)):
        for kind, some in enumerate((links.sure, links.possible)):
            for source, target in some:
                grid_2PWV[kind, pair, target, source] = takes[target]
    return grid_2PWV


def share_pieces(
    gold_2WV: Bool[np.ndarray, "kind target source"], merged: Sequence[int] | None
) -> None:
    """Make a link to one of some merged source words a link to all of them, in place.

    Args:
        gold_2WV: the links of one pair.
        merged: number of the merged word that each source word is part of; None if none is.
    """
    if merged is not None:
        place_V = np.array(merged)
        its_2WV = gold_2WV[..., : len(place_V)]
        by_place_VV = place_V[:, None] == place_V
        its_2WV[:] = its_2WV.astype(int) @ by_place_VV.astype(int) > 0


def score(
    found: Mapping[Place, Found], gold: GoldCounts, samples: int, seed: int
) -> list[AlignmentRow]:
    """The rows of the table, in order.

    Args:
        found: links of every head, layer or other aligner.
        gold: numbers of gold links.
        samples: number of bootstrap samples of pairs.
        seed: seed of the samples.
    """
    drawn = Bootstrap(len(gold.sure_P), samples, seed)
    rows = []
    for place, links in found.items():
        shared_P, all_P = links.sure_P + links.possible_P, links.links_P + gold.sure_P
        aer = drawn.interval(
            float(error_rate(shared_P.sum(keepdims=True), all_P.sum(keepdims=True))[0]),
            error_rate(drawn.drawn_sums(shared_P), drawn.drawn_sums(all_P)),
            int(all_P.sum()),
        ).within(0.0, 1.0)
        rows.append(
            AlignmentRow(
                head=place.name,
                level=place.level,
                quantity=place.quantity,
                direction=place.direction,
                aer=aer.value,
                aer_low=aer.low,
                aer_high=aer.high,
                precision=_ratio(links.possible_P, links.links_P),
                recall=_ratio(links.sure_P, gold.sure_P),
                accuracy=_ratio(links.possible_P, gold.cases_P),
            )
        )
    return rows


def error_rate(
    shared: Shaped[np.ndarray, " any"], total: Shaped[np.ndarray, " any"]
) -> Float[np.ndarray, " any"]:
    """1 - shared / total; 1 where there is no link at all."""
    return 1 - shared / np.maximum(total, 1)


def _ratio(part_P: Int[np.ndarray, " pair"], whole_P: Int[np.ndarray, " pair"]) -> float:
    return float(part_P.sum() / max(1, whole_P.sum()))
