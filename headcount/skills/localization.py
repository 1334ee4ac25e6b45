r"""Localization: which heads look at one connected part of a picture when a reply begins.

$$S_h(n) = \sum_p A_h(t, p), \qquad H_h(n) = -\sum_i P(C_i) \log P(C_i), \qquad
P(C_i) = |C_i| / \textstyle\sum_j |C_j|$$

t is the token from which the reply to prompt n is predicted, p the tokens of its pictures. $C_i$
are the connected components (8 neighbours) of the tokens with more weight than the mean: H, in
nats, is 0 for a head that looks at one place. A head counts if its mean S over prompts is at least
the threshold at the elbow of all heads' sorted means. The score is the share of prompts in which
its H is among the lowest of the heads that count. Where several share the last of these places,
each gets its part of it. The range is [0, 1].

The null shuffles the places of each picture's tokens, in the same way for all heads: a head that is
chosen there just as often looks at few tokens, but not at neighbours.

Reference: Your Large Vision-Language Model Only Needs A Few Attention Heads For Visual Grounding
    (Kang et al., 2025), section 4, https://arxiv.org/abs/2503.06287; the elbow is the point that is
    furthest below the chord of the sorted means, as in the authors' code, whose entropies differ
    from the paper's (weight above twice the mean instead of the number of tokens above the mean).
Departure: the paper takes the 10 lowest of about 1,000 heads, without the first two layers of 32.
    Here it is a hundredth of the heads, at least three, without the first sixteenth of the layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from headcount.core import Heads, Steps, silent_steps, spread
from headcount.corpora import Box
from headcount.skills.pictured_prompts import PicturedPrompt, PicturedPrompts

SHARE, FEWEST = 0.01, 3
"""Share of the heads that are chosen in a prompt, and the least number of them."""
EARLY = 1 / 16
"""Share of the layers, from the first, whose heads are never chosen."""
ALIKE = 1.9
"""Largest ratio of the sizes of two neighbours: tokens of tiles are not those of the whole."""
ABOVE = 1 + 1e-6
"""Number of means above which a weight is large, which no rounding reaches."""


@final
@dataclass(frozen=True, eq=False)
class Localized:
    """How often each head is among those that look at one place."""

    chosen_NH: Float[np.ndarray, "prompt head"]
    """1 in prompts where a head is chosen."""
    shuffled_NH: Float[np.ndarray, "prompt head"]
    """The same with the tokens of pictures at random places."""
    maps: tuple[Float[np.ndarray, "head patch"], ...]
    """The weights of each prompt's last token on tokens of pictures."""


def localize(
    prompts: PicturedPrompts, heads: Heads, seed: int, steps: Steps = silent_steps
) -> Localized:
    """The prompts in which each head is chosen.

    Args:
        prompts: prompts with pictures.
        heads: the model's heads.
        seed: seed of the places to which tokens are shuffled.
        steps: called with the number of prompts so far, and of all.
    """

    def of(numbered: tuple[int, PicturedPrompt]) -> tuple[np.ndarray, np.ndarray]:
        number, prompt = numbered
        map_HP = prompts.looks(prompt, [prompt.last])
        near_PP = neighbours(prompt.regions, prompt.picture_of)
        order_P = np.random.default_rng((seed, number)).permutation(len(near_PP))
        found = [
            [spatial_entropy(map_P[order], near_PP) for map_P in map_HP]
            for order in (np.arange(len(near_PP)), order_P)
        ]
        return map_HP, np.array(found)

    maps, entropies = list[np.ndarray](), list[np.ndarray]()
    for map_HP, entropy_2H in spread(of, [*enumerate(prompts.all)], "prompts with pictures"):
        maps.append(map_HP)
        entropies.append(entropy_2H)
        steps(len(maps), len(prompts.all))
    total_H = np.mean([map_HP.sum(-1, dtype=float) for map_HP in maps], axis=0)
    counts_H = counting(total_H, heads)
    entropy_2NH = np.stack(entropies, axis=1)
    found = (
        [chosen(entropy_H, counts_H) for entropy_H in entropy_NH] for entropy_NH in entropy_2NH
    )
    plain_NH, shuffled_NH = map(np.array, found)
    return Localized(plain_NH, shuffled_NH, tuple(maps))


@lru_cache(maxsize=32)
def neighbours(
    regions: Sequence[Box | None], picture_of: Sequence[int]
) -> Bool[np.ndarray, "patch patch"]:
    """Which tokens of pictures touch each other: 8 of a token inside a picture that is one grid.

    Args:
        regions: where each token lies in its picture; None for padding, which touches nothing.
        picture_of: the number of each token's picture.
    """
    box_P4 = np.array([each or [np.nan] * 4 for each in regions], dtype=float)
    is_near_PP = np.equal.outer(picture_of, picture_of)
    for low, high in ((0, 2), (1, 3)):
        size_P = box_P4[:, high] - box_P4[:, low]
        smaller_PP = np.minimum.outer(size_P, size_P)
        gap_PP = np.maximum.outer(box_P4[:, low], box_P4[:, low])
        gap_PP = gap_PP - np.minimum.outer(box_P4[:, high], box_P4[:, high])
        is_near_PP &= gap_PP < smaller_PP / 2
        is_near_PP &= np.maximum.outer(size_P, size_P) < ALIKE * smaller_PP
    np.fill_diagonal(is_near_PP, False)
    return is_near_PP


def spatial_entropy(
    map_P: Float[np.ndarray, " patch"], near_PP: Bool[np.ndarray, "patch patch"]
) -> float:
    """Entropy of the sizes of connected parts with more weight than the mean, in nats.

    A map without a largest weight has none, and is infinitely far from looking at one place.
    """
    large_L = np.flatnonzero(map_P > map_P.mean() * ABOVE)
    if not len(large_L):
        return np.inf
    part_L = connected_components(csr_matrix(near_PP[np.ix_(large_L, large_L)]), False)[1]
    share_C = np.sort(np.bincount(part_L)) / len(large_L)
    return float(-(share_C * np.log(share_C)).sum())


def elbow(values: Float[np.ndarray, " head"]) -> float:
    """The value at which sorted values lie furthest below the line from the least to the largest.

    >>> elbow(np.array([0.9, 0.1, 0.1, 0.2, 0.15]))
    0.2
    """
    sorted_H = np.sort(values)
    line_H = np.linspace(sorted_H[0], sorted_H[-1], len(sorted_H))
    return float(sorted_H[np.argmax(line_H - sorted_H)])


def counting(total_H: Float[np.ndarray, " head"], heads: Heads) -> Bool[np.ndarray, " head"]:
    """Which heads count: those of later layers that look at pictures enough.

    Args:
        total_H: mean weight of the last token on pictures.
        heads: the model's heads.
    """
    first = round(EARLY * len(heads.counts["decoder.self"]))
    is_late_H = np.array([head.layer >= first for head in heads])
    return is_late_H & (total_H >= elbow(total_H[is_late_H]))


def chosen(
    entropy_H: Float[np.ndarray, " head"], counts_H: Bool[np.ndarray, " head"]
) -> Float[np.ndarray, " head"]:
    """1 for the heads with the lowest entropies; equal ones share the places that are left.

    >>> chosen(np.array([0.0, 0.5, 0.5, 0.1, 0.9]), np.array([True, True, True, True, False]))
    array([1. , 0.5, 0.5, 1. , 0. ])
    """
    finite_H = np.where(counts_H, entropy_H, np.inf)
    number = min(max(FEWEST, round(SHARE * len(entropy_H))), int(np.isfinite(finite_H).sum()))
    if not number:
        return np.zeros(len(entropy_H))
    last = np.sort(finite_H)[number - 1]
    below_H, same_H = finite_H < last, finite_H == last
    return below_H + same_H * (number - below_H.sum()) / same_H.sum()
