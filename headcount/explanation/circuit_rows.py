r"""Rows of circuits: how much of a prediction is left with some heads only.

The others write what they write in the second prompt, or their means, zero, or what they write in
other prompts.

$$f(S) = \frac{m(S) - m(\emptyset)}{m(H) - m(\emptyset)}, \qquad
  \mathrm{CPR} = \int_0^1 f(S_k) \, dk, \qquad \mathrm{CMD} = \int_0^1 |1 - f(S'_k)| \, dk$$

m(S) is the mean prediction over prompts with the heads S as they are and all others replaced, H all
heads, f faithfulness, S_k the share k of the heads with the highest scores, and S'_k that with the
largest. CPR is high and CMD low for a good ranking; CMD is 0 only if every size of circuit predicts
what all heads do, and heads that work against the prediction raise CPR above 1, not CMD. Integrals
are by trapezoids between the sizes that were measured (`ours`), or from .1 to 100 % of the heads at
ten sizes that are rounded down (`mib`); beside those over the share stand those over its logarithm,
divided by its range.

Reference: MIB: A Mechanistic Interpretability Benchmark (Mueller et al., 2025), section 3,
    https://arxiv.org/abs/2504.13151
Departure: parts are heads, not edges or nodes of all kinds.


Faithfulness is a ratio of means over prompts, whose interval comes from its linearisation (Cochran,
1977, Sampling Techniques, section 6.3)

$$f + \frac{m_n(S) - m_n(\emptyset) - f \, (m_n(H) - m_n(\emptyset))}{m(H) - m(\emptyset)}$$

by prompt n, whose mean is f; areas are sums of these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, final, get_args

import numpy as np
from jaxtyping import Float, Int

from headcount.explanation.blocks import Blocks

Order = Literal["signed", "size"]
"""Whether the best heads are those with the highest scores, or with the largest."""
ORDERS: tuple[Order, ...] = get_args(Order)
SIGNED: Order = "signed"
Grid = Literal["ours", "mib"]
"""Sizes of circuits over which areas are taken."""
Scale = Literal["linear", "log"]
"""Whether areas are over the share of heads, or over its logarithm."""
ASKED = 0.8
"""Index of agreement of two circuits that is asked for."""
LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Shares of the prediction that the smallest circuits keep."""


@dataclass(frozen=True)
class FaithfulnessRow:
    """How much of the prediction is left with a number of best heads."""

    ranking: str
    """Effect or score by which heads are the best, or `random`."""
    heads: int
    """Number of heads that are as they are."""
    value: float
    """Faithfulness."""
    low: float
    """Lower end of the 95 % interval over prompts (Student, of a ratio by linearisation)."""
    high: float
    """Upper end."""
    shared: float
    """Number of these heads that both halves of the prompts chose; of random ones, a mean.
    NaN for scores of other data, which choose the same heads for both."""
    others: str = field(default="mean", kw_only=True)
    """What the other heads give, by name."""
    order: str = field(default=SIGNED, kw_only=True)
    """Whether the best heads have the highest scores (`signed`) or the largest (`size`)."""


@final
@dataclass(frozen=True)
class CircuitRow(FaithfulnessRow):
    """The smallest set of best heads that keeps a share of the prediction."""

    level: float
    """The share of the prediction."""
    chance: float
    """Number of heads that two random sets of this size share on average."""
    names: str
    """Names of the heads; those that either half of the prompts is measured with, between |."""
    stays: int = field(default=-1, kw_only=True)
    """Number of best heads from which on this share is kept by all larger sets, too; −1 in tables
    of versions without."""


@final
@dataclass(frozen=True)
class AreaRow:
    """How good a ranking is over all sizes of circuits."""

    ranking: str
    """Effect or score by which heads are the best, or `random`."""
    cpr: float
    """Area under faithfulness (CPR)."""
    cpr_low: float
    """Lower end of its 95 % interval over prompts."""
    cpr_high: float
    """Upper end."""
    cmd: float
    """Area between faithfulness and 1 (CMD)."""
    cmd_low: float
    """Lower end of its 95 % interval over prompts."""
    cmd_high: float
    """Upper end."""
    others: str = field(default="mean", kw_only=True)
    """What the other heads give, by name."""
    sizes: str = field(default="ours", kw_only=True)
    """Sizes of circuits over which the areas are taken: `ours`, or `mib`."""
    scale: str = field(default="linear", kw_only=True)
    """Whether they are over the share of heads (`linear`) or its logarithm (`log`)."""


@final
@dataclass(frozen=True)
class ComplementRow:
    """What is predicted if all heads give something else, as those outside a circuit do."""

    others: str
    """Its name."""
    about: str
    """What they give, as the end of a sentence."""
    nothing: float
    """What is predicted, in nats; the mean over prompts."""
    gain: float
    """By how much the heads as they are raise that, m(H) - m(∅)."""
    low: float
    """Lower end of its 95 % interval over prompts; NaN below 8 blocks."""
    high: float
    """Upper end."""


@final
@dataclass(frozen=True)
class StabilityRow:
    """How far the circuits of other prompts like these agree, by Jaccard's index."""

    ranking: str
    """Effect by which heads are the best."""
    heads: int
    """Number of heads of a circuit."""
    value: float
    """Index of two circuits, each of prompts drawn again by blocks; the mean over pairs."""
    low: float
    """2.5 % of the pairs of circuits agree less."""
    high: float
    """2.5 % of them agree more."""
    halves: float
    """Index of the circuits of both halves of the prompts, which share no prompt."""
    chance: float
    """Index that two random sets of this size have on average."""
    enough: int = 0
    """Number of prompts like these, a multiple of theirs, with which two circuits would agree by
    0.8 (resamples of more blocks); below 0 if 32 times as many are not enough, and 0 in tables of
    versions without."""


@final
@dataclass(frozen=True)
class StableRow:
    """How certain it is that a head belongs to the circuit."""

    head: str
    """Name of the head."""
    share: float
    """Share of the circuits of prompts drawn again that it is in."""
    verdict: str
    """`in`, `undecided` or `out`."""
    lost: float
    """By how much the faithfulness of all that are in or undecided drops without it; NaN if out."""
    p: float
    """P-value that nothing is lost on average, corrected for these heads (Holm)."""


@final
@dataclass(frozen=True)
class KeptRow:
    """How much of the prediction the heads of a stable circuit keep."""

    prompts: str
    """The prompts: `these`, which chose the heads, or the name of others."""
    kept: str
    """The heads that are kept: `in`, `in and undecided`, or the `rest`."""
    heads: int
    """Number of them."""
    value: float
    """Faithfulness."""
    low: float
    """Lower end of the 95 % interval over prompts."""
    high: float
    """Upper end."""

    @property
    def is_equivalent(self) -> bool:
        """Whether these heads do what the model does, within a fifth (two one-sided tests)."""
        return self.low >= 0.8 and self.high <= 1.2

    @property
    def is_independent(self) -> bool:
        """Whether nothing says that these heads know the answer."""
        return self.low <= 0 <= self.high


_MIB_SHARES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Shares of the units that MIB keeps, in thousandths; sizes are rounded down."""


def sizes_of(num: int, few: bool = False) -> Int[np.ndarray, " size"]:
    """Numbers of units that are kept: all to 10, then each a fifth larger; and those of MIB.

    Args:
        num: number of all units.
        few: whether only those of MIB are.
    """
    found, size = {0, num}, 1
    while size < num and not few:
        found.add(size)
        size = max(size + 1, size * 6 // 5)
    return np.array(sorted(found | {*_mib_sizes(num)}))


def _mib_sizes(num: int) -> list[int]:
    """Numbers of units that MIB keeps."""
    return [num * share // 1000 for share in _MIB_SHARES]


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
    mib = np.searchsorted(signed.sizes, _mib_sizes(num))
    ours = np.arange(len(signed.sizes))
    share = np.array(_MIB_SHARES) / _MIB_SHARES[-1]
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
