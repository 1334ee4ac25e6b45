r"""Curves: faithfulness by the number of units that are kept, and its areas.

Faithfulness is a ratio of means over prompts, whose interval comes from its linearisation (Cochran,
1977, Sampling Techniques, section 6.3)

$$f + \frac{m_n(S) - m_n(\emptyset) - f \, (m_n(H) - m_n(\emptyset))}{m(H) - m(\emptyset)}$$

by prompt n, whose mean is f; areas are sums of these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.explanation.blocks import Blocks
from headcount.explanation.circuit_rows import (
    LEVELS,
    AreaRow,
    CircuitRow,
    FaithfulnessRow,
    Grid,
    Order,
    Scale,
)

MIB_SHARES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Shares of the units that MIB keeps, in thousandths; sizes are rounded down."""


def sizes_of(num: int) -> Int[np.ndarray, " size"]:
    """Numbers of units that are kept: all to 10, then each a fifth larger; and those of MIB."""
    found, size = {0, num}, 1
    while size < num:
        found.add(size)
        size = max(size + 1, size * 6 // 5)
    return np.array(sorted(found | {*mib_sizes(num)}))


def mib_sizes(num: int) -> list[int]:
    """Numbers of units that MIB keeps."""
    return [num * share // 1000 for share in MIB_SHARES]


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """Faithfulness by the number of best units that are kept."""

    others: str
    """What the other units output."""
    ranking: str
    order: Order
    """Whether the best are those with the highest score, or with the largest."""
    sizes: Int[np.ndarray, " size"]
    gained_NK: Float[np.ndarray, "prompt size"]
    """What each prompt's best units add to what is predicted without any; the last are all."""
    shared: Sequence[float]
    """Number of units in both halves' sets."""
    names: Sequence[Sequence[str]]
    """Names of all units, the best first, for either half of the prompts; none if random."""
    blocks: Blocks
    """Which prompts share names."""

    @property
    def faithfulness_NK(self) -> Float[np.ndarray, "prompt size"]:
        """Faithfulness, linearised by prompt."""
        return faithfulness(self.gained_NK, self.gained_NK[:, -1:])

    def rows(self) -> Iterator[FaithfulnessRow]:
        """A row for each size."""
        ends = self.blocks.interval(self.faithfulness_NK).T.tolist()
        for size, each, shared in zip(self.sizes.tolist(), ends, self.shared, strict=True):
            value, low, high = each
            known = {"others": self.others, "order": self.order}
            yield FaithfulnessRow(self.ranking, size, value, low, high, shared, **known)

    def circuits(self) -> Iterator[CircuitRow]:
        """A row for each share of the prediction that the smallest circuit keeps."""
        rows = [*self.rows()]
        for level in LEVELS:
            row = next(each for each in rows if each.value >= level)
            best = dict.fromkeys(" ".join(each[: row.heads]) for each in self.names)
            chance = row.heads**2 / rows[-1].heads
            below = [number for number, each in enumerate(rows) if each.value < level]
            yield CircuitRow(
                **vars(row),
                level=level,
                chance=chance,
                names=" | ".join(best),
                stays=rows[below[-1] + 1].heads,
            )


def faithfulness(
    gained_NK: Float[np.ndarray, "prompt size"], whole_N1: Float[np.ndarray, "prompt 1"]
) -> Float[np.ndarray, "prompt size"]:
    """The share of what all heads add that some add, linearised by prompt."""
    value_K = gained_NK.mean(0) / whole_N1.mean()
    return value_K + (gained_NK - value_K * whole_N1) / whole_N1.mean()


def areas(signed: Curve, size: Curve) -> Iterator[AreaRow]:
    """CPR of the circuits with the highest scores, CMD of those with the largest."""
    num = int(signed.sizes[-1])
    mib = np.searchsorted(signed.sizes, mib_sizes(num))
    ours = np.arange(len(signed.sizes))
    share = np.array(MIB_SHARES) / MIB_SHARES[-1]
    grids: list[tuple[Grid, Scale, np.ndarray, np.ndarray]] = [
        ("ours", "linear", ours, signed.sizes / num),
        ("ours", "log", ours[1:], np.log(signed.sizes[1:]) / np.log(num)),
        ("mib", "linear", mib, share),
        ("mib", "log", mib, np.log(share) / -np.log(share[0])),
    ]
    for grid, scale, which, at in grids:
        weight_K = _trapezoids(at)
        value_NK = signed.faithfulness_NK[:, which]
        other_NK = size.faithfulness_NK[:, which]
        other_K = other_NK.mean(0)
        distance_NK = abs(1 - other_K) + np.sign(other_K - 1) * (other_NK - other_K)
        cpr, cmd = (signed.blocks.within(each_NK @ weight_K) for each_NK in (value_NK, distance_NK))
        yield AreaRow(signed.ranking, *cpr, *cmd, others=signed.others, sizes=grid, scale=scale)


def _trapezoids(at: Float[np.ndarray, " place"]) -> Float[np.ndarray, " place"]:
    """Weights by which values at some places add up to their integral."""
    width = np.diff(at)
    return (np.append(width, 0) + np.append(0, width)) / 2
