"""Profiles as they are stored: one row per head and trait, `profiles.parquet`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import final

VERDICTS = ("role", "tendency", "none", "untested")
"""What a row can say: see `TraitStrength.verdict`."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The numbers of one trait of one head, untested, of the second half of the corpus."""

    share: float
    """Share of the cases (for an offset, of the queries) that the head gives to the trait."""
    null: float
    """Share that chance or position alone explains: the larger of `chance` and `position_null`."""
    attainable: float
    """Share of a perfect head."""
    strength: float
    """(share - null) / (attainable - null)."""
    low: float
    """Lower end of the 90 % interval of the strength, not corrected for the number of tests."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of cases."""
    units: int
    """Number of sentences (of a long text, runs of tokens) that have cases."""
    score: float
    """Number that is compared with the paper's threshold."""
    chance: float
    """Share of a head that looks at no key in particular; for a relation, its best fixed offset."""
    position_null: float
    """Share of a head that looks at each offset as often as this one does."""
    first_gain: float
    """Share minus null in the first half, by which cells were chosen."""
    paper_share: float
    """The paper's number, over the whole corpus."""
    p: float
    """One-sided p of a share that is at most the null, clustered by sentence."""


@final
@dataclass(frozen=True, kw_only=True)
class TraitStrength(Cell):
    """How strongly one head shows one trait; numbers are of the second half of the corpus."""

    head: str
    """Name of the head."""
    trait: str
    """Name of the trait: `previous`, `next`, `self`, `offset`, `first`, `separator`,
    `punctuation`, `segment`, `rare`, or a relation without its subtype; on images `left`, `right`,
    `above`, `below`, `same`, `place`, `class`, `row`, `column`, `near` or `spot`."""
    role: str
    """Role that the trait can give."""
    offset: int | None = None
    """Offset of a positional trait; that of `offset` was chosen on the first half."""
    relation: str | None = None
    """Relation of the family, chosen on the first half."""
    direction: str | None = None
    """Direction of the relation, or of `place` and `spot` in words, chosen on the first half."""
    p_holm: float
    """That p, corrected for all chosen cells (Holm); NaN if the cell was not chosen."""
    verdict: str
    """`role` (passes the paper's threshold and the test), `tendency` (passes the test), `none`, or
    `untested` (not enough cases)."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"got the verdict {self.verdict!r}, expected one of {VERDICTS}")


_NUMBERS = [field.name for field in fields(Cell)]
*_NAMES, _P, _VERDICT = (each.name for each in fields(TraitStrength) if each.name not in _NUMBERS)
PROFILE_COLUMNS = (*_NAMES, *_NUMBERS, _P, _VERDICT)
"""Columns of `profiles.parquet`, in order."""

Profiles = Mapping[str, Sequence[TraitStrength]]
"""The traits of each head, by head name."""
