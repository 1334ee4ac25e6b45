r"""Circuits: how much of a prediction is left with some heads only, the others giving their means.

$$f(S) = \frac{m(S) - m(\emptyset)}{m(H) - m(\emptyset)}, \qquad
  \mathrm{CPR} = \int_0^1 f(S_k) \, dk, \qquad \mathrm{CMD} = \int_0^1 |1 - f(S_k)| \, dk$$

m(S) is the mean prediction over prompts with the heads S as they are and all others replaced by
their mean outputs, H all heads, f faithfulness, and S_k the best share k of the heads by a ranking.
CPR is high and CMD low for a good ranking; CMD is 0 only if every size of circuit predicts what all
heads do, and heads that work against the prediction raise CPR, not CMD. Integrals are by trapezoids
between the sizes that were measured.

Reference: MIB: A Mechanistic Interpretability Benchmark (Mueller et al., 2025), section 3,
    https://arxiv.org/abs/2504.13151
Departure: parts are heads, not edges or nodes of all kinds; the others give means, not what they
    give in a second prompt; sizes go from none to all.
"""

from dataclasses import dataclass
from typing import final

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
