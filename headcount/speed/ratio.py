r"""Ratio: the speedup from times that were measured in turns.

$$r = \exp\Big(\frac{1}{R} \sum_i \log r_i\Big), \quad
  r \cdot \exp\Big(\pm t_{0.975, R - 1} \frac{s}{\sqrt{R}}\Big)$$

r_i is the ratio within round i and s is the standard deviation of the log r_i. A round compares
calls that ran one after the other, so a temporary slowdown of the machine affects both. Swapping
the two models inverts the ratio and its interval and changes nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

CONFIDENCE = 0.95


@final
@dataclass(frozen=True)
class Ratio:
    """A mean ratio with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float] | Float[np.ndarray, " round"]) -> "Ratio":
        """The geometric mean over two or more rounds.

        >>> print(Ratio.of([1.5, 1.5, 1.5]), Ratio.of([1.0, 1.1, 1.2]))
        1.50 (1.50–1.50) 1.10 (0.87–1.38)
        """
        log_R = np.log(np.asarray(ratios, dtype=float))
        assert len(log_R) > 1
        half = student.ppf((1 + CONFIDENCE) / 2, len(log_R) - 1)
        half *= log_R.std(ddof=1) / np.sqrt(len(log_R))
        middle = log_R.mean()
        ends = np.exp([middle, middle - half, middle + half])
        return cls(*(float(each) for each in ends))

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}–{self.high:.2f})"

    @property
    def distance(self) -> float:
        """Largest distance of the interval from 1, as a share: the change that noise can cause."""
        return max(self.high, 1 / self.low) - 1
