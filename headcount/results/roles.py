"""Roles of heads as they are stored: the role with its evidence, and the thresholds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import InputError, omitted

CLEAR, BORDERLINE = "clear", "borderline"
"""Whether the interval of a role clears its threshold: see `Thresholds.certainty`."""


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
    """Direction of that relation, e.g. `head->dependent`; on images, where the head looks, as in
    `2 up`, `row` or `row 1, column 3`."""
    certainty: str | None = omitted(None)
    """`clear` or `borderline`: see `Thresholds.certainty`; None if it is unknown."""


Roles = Mapping[str, Sequence[Role]]
"""Roles of each head, by head name."""


@final
@dataclass(frozen=True)
class Thresholds:
    """Thresholds for assigning roles."""

    positional_share: float = 0.9
    """Least share of queries whose largest weight is at one offset (Voita et al.: 90 %)."""
    syntactic_gain: float = 0.1
    """Least gain in accuracy over the best fixed offset; 0.1 is 10 points (Voita et al.)."""
    syntactic_relative: bool = False
    """Take that gain relative to the offset's accuracy, not in points (the paper doesn't say)."""
    syntactic_cases: int = 100
    """Least number of cases of a relation (Clark et al.: 100)."""
    rare2_share: float = 0.5
    """Least share of queries that look most at one of the two rarest tokens (Voita, WMT: half)."""
    sink_share: float = 0.5
    """Least share of attention on the first token, or on separators (Clark et al.: half)."""
    punctuation_share: float = 0.5
    """Least share of attention on punctuation; half, as for separators."""
    block_share: float = 0.5
    """Least share of maps that are blocks (the paper gives no threshold for a head)."""
    induction_share: float = 0.5
    """Least weight on the token after the earlier copy of a token, or on that copy (no paper gives
    a threshold; half, as for sinks)."""
    line_share: float = 0.5
    """Images: least share of attention within the patch's own row or column; half, as for sinks."""
    local_closeness: float = 0.5
    """Images: least share by which attention is closer to the patch than even attention; half."""
    spot_share: float = 0.5
    """Images: least share of attention on one patch of every image; half, as for sinks."""
    test_cases: int = 100
    """Least number of cases of a test, in the half of the corpus that did not choose."""
    test_sentences: int = 10
    """Least number of units (texts, or segments of long texts) that have these cases."""
    test_alpha: float = 0.05
    """Largest p, after Holm's correction, of a role or a tendency."""
    tendency_strength: float = 0.05
    """Least strength of a tendency: with thousands of sentences, 0.01 passes the test."""

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

    def least(self, role: str) -> float:
        """The threshold of a role."""
        return {
            "positional": self.positional_share,
            "syntactic": self.syntactic_gain,
            "rare": self.rare2_share,
            "sink": self.sink_share,
            "punctuation": self.punctuation_share,
            "block": self.block_share,
            "induction": self.induction_share,
            "duplicate": self.induction_share,
            "line": self.line_share,
            "local": self.local_closeness,
            "spot": self.spot_share,
        }[role]

    def certainty(self, row: Mapping[str, Any]) -> str | None:
        """Whether the interval of a role clears its threshold: `CLEAR`, or else `BORDERLINE`.

        A role is tested against chance, not against its threshold, so roles just above it are
        winners, some of which other texts of the same kind do not repeat. Clear means that the
        lower end of the 90 % interval is at least the threshold. None for blocks, whose interval
        is that of another number, and for what is no role.

        Args:
            row: A row of `profiles.parquet`, by the names of its columns.
        """
        if row["verdict"] != "role" or row["role"] == "block":
            return None
        share = row["null"] + row["low"] * (row["attainable"] - row["null"])
        if row["role"] == "syntactic":
            score = self.syntactic_excess(share, row["chance"])
        else:
            score = row["score"] * share / row["share"] if row["share"] else 0.0
        return CLEAR if round(score, 9) >= self.least(row["role"]) else BORDERLINE

    @property
    def syntactic_words(self) -> str:
        """The syntactic threshold in words: `10 points` or `10 %`."""
        return f"{100 * self.syntactic_gain:.0f} {'%' if self.syntactic_relative else 'points'}"
