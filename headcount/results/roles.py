"""Roles of heads as they are stored: the role with its evidence, and the thresholds."""

import math
from dataclasses import dataclass
from typing import final

from headcount.core import InputError
from headcount.results.json_file import omitted


@final
@dataclass(frozen=True)
class Role:
    """One role of one head."""

    role: str
    """Name of the role, e.g. `positional`."""
    evidence: str = ""
    """The measurement, in a sentence."""
    score: float = 0.0
    """The number that was compared with the threshold."""
    offset: int | None = omitted(None)
    """Offset of a positional head."""
    relation: str | None = omitted(None)
    """Best relation of a syntactic head."""
    direction: str | None = omitted(None)
    """Direction of that relation, e.g. `head->dependent`."""


Roles = dict[str, list[Role]]
"""Roles of each head, by head name."""


@final
@dataclass(frozen=True)
class Thresholds:
    """Thresholds for assigning roles."""

    positional_share: float = 0.9
    """Voita: the largest weight is at one offset in at least 90 % of queries."""
    syntactic_gain: float = 0.1
    """Voita: accuracy above the best fixed offset by 10 % (points, or see below)."""
    syntactic_relative: bool = False
    """Whether that gain is relative to the offset's accuracy (the paper does not say)."""
    syntactic_cases: int = 100
    """Clark: relations with at least 100 instances."""
    rare2_share: float = 0.5
    """Voita (WMT): over half of the queries look at one of the two rarest tokens."""
    sink_share: float = 0.5
    """Clark: over half of the attention on the first token, or on separators."""
    punctuation_share: float = 0.5
    """Over half of the attention on punctuation, as for separators."""
    block_share: float = 0.5
    """Half of the maps are blocks (the paper gives no threshold for a head)."""

    def __post_init__(self) -> None:
        """Check that the thresholds are finite, so that a record can hold them.

        Raises:
            InputError: for a threshold that is not finite.
        """
        for name, value in vars(self).items():
            if not math.isfinite(value):
                raise InputError(
                    f"Expected a finite number as the threshold {name}, got {value}. No head "
                    "reaches a share above 1."
                )

    def is_syntactic(self, accuracy: float, baseline: float) -> bool:
        """Whether a relation is found clearly more often than by the best fixed offset."""
        # Rounded, so that 0.6 against 0.5 is 10 points
        return round(self.syntactic_excess(accuracy, baseline), 9) >= self.syntactic_gain

    def syntactic_excess(self, accuracy: float, baseline: float) -> float:
        """The number compared with `syntactic_gain`; infinite if no offset finds the relation."""
        if not self.syntactic_relative:
            return accuracy - baseline
        return accuracy / baseline - 1 if baseline else math.inf

    @property
    def syntactic_words(self) -> str:
        """The syntactic threshold in words: `10 points` or `10 %`."""
        return f"{100 * self.syntactic_gain:.0f} {'%' if self.syntactic_relative else 'points'}"
