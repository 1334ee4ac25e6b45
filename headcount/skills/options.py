"""Options of the skills of a language model. Needs no torch."""

from dataclasses import dataclass
from typing import final

from headcount.core import InputError, check_seed

SHORTEST = 100
"""Least number of tokens of a text with a needle."""


@final
@dataclass(frozen=True)
class SkillOptions:
    """Which needles are hidden where, and how many heads are removed.

    Raises:
        InputError: for values that can't be used.
    """

    lengths: tuple[int, ...] = (400, 700)
    """Numbers of tokens of the texts in which needles are hidden."""
    depths: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Places of a needle, as shares of its text."""
    needles: int = 2
    """Number of needles of every kind at each length and depth."""
    removed: tuple[int, ...] = ()
    """Numbers of best heads that are removed together; 5 heads and 5 % of the heads by default."""
    draws: int = 3
    """Number of sets of random other heads that are removed beside them."""
    first: str | None = None
    """Token in front of repeated random tokens; by default what the tokenizer puts in front of a
    text, or its BOS token."""
    seed: int = 0
    """Seed of the needles, of the random tokens and of the random heads."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for name in ("lengths", "depths"):
            if not getattr(self, name):
                raise InputError(f"Expected a number at least in {name}, got none. Name one.")
        if min(self.lengths) < SHORTEST:
            raise InputError(
                f"Expected lengths of at least {SHORTEST} tokens, got {min(self.lengths)}. A "
                "needle is hidden in more text than its own."
            )
        if not all(0 <= depth <= 1 for depth in self.depths):
            raise InputError(
                f"Expected depths from 0 to 1, got {', '.join(f'{d:g}' for d in self.depths)}. 0.5 "
                "is the middle of the text."
            )
        if min(self.needles, self.draws, *self.removed, 1) < 1:
            raise InputError(
                "Expected numbers of needles, removed heads and draws of at least 1, got "
                f"{self.needles}, {self.removed}, {self.draws}. Leave them out for the defaults."
            )
