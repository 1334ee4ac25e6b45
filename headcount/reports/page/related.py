r"""Related heads: those whose profiles point the same way.

$$\cos(h, g) = \frac{s_h \cdot s_g}{\lVert s_h \rVert \, \lVert s_g \rVert} \in [0, 1]$$

where s holds the strengths of a head's traits, each cut to 0 ... 1, and 0 where a trait was not
tested. A head without any strength has no relatives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount import numbers
from headcount.results import Profiles

SHOWN = 4
"""Number of related heads on a card."""

LEAST = 0.5
"""Smallest similarity of a related head."""


@final
@dataclass(frozen=True)
class Relative:
    """A head with a similar profile."""

    head: str
    similarity: str


def related_heads(profiles: Profiles, heads: Sequence[str]) -> dict[str, tuple[Relative, ...]]:
    """The heads with the most similar profiles of every head, the most similar first.

    Args:
        profiles: the traits of each head.
        heads: all heads, in the order in which equally similar ones are named.
    """
    strength_HT = _strengths(profiles, heads)
    norm_H = np.linalg.norm(strength_HT, axis=1)
    unit_HT = strength_HT / np.where(norm_H > 0, norm_H, 1.0)[:, None]
    cosine_HG = unit_HT @ unit_HT.T
    np.fill_diagonal(cosine_HG, 0.0)
    order_HG = np.argsort(-cosine_HG, axis=1, kind="stable")[:, :SHOWN]
    return {
        head: tuple(
            Relative(heads[int(other)], numbers.weight(float(cosine_HG[place, other])))
            for other in order_HG[place]
            if cosine_HG[place, other] >= LEAST
        )
        for place, head in enumerate(heads)
    }


def _strengths(profiles: Profiles, heads: Sequence[str]) -> np.ndarray:
    """Heads x traits; a relation counts by its name, whatever its direction."""
    traits = sorted({trait.trait for each in profiles.values() for trait in each})
    column = {trait: place for place, trait in enumerate(traits)}
    strength_HT = np.zeros((len(heads), len(traits)))
    for row, head in enumerate(heads):
        for trait in profiles.get(head, ()):
            if trait.verdict != "untested" and math.isfinite(trait.strength):
                strength_HT[row, column[trait.trait]] = min(1.0, max(0.0, trait.strength))
    return strength_HT
