"""The profile of one head on its card: its traits, the strongest first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.results import TraitStrength, target_of

SHOWN = 8
"""Largest number of traits on a card without a verdict of role or tendency."""


@final
@dataclass(frozen=True)
class TraitLine:
    """One row of a profile."""

    label: str
    about: str
    """The numbers behind the strength, in a sentence."""
    verdict: str
    strength: str
    interval: str
    p: str
    value: float
    """The strength, cut to 0 ... 1, for a bar."""


@final
@dataclass(frozen=True)
class ProfileView:
    """The profile of one head."""

    lines: tuple[TraitLine, ...]
    note: str
    """How many traits are not shown, and why, and what intervals are about."""


def profile_view(
    traits: Sequence[TraitStrength],
    unit: tuple[str, str] = ("text", "texts"),
    missing: str = "",
    about: str = "texts of this kind",
) -> ProfileView:
    """The roles and tendencies of a head, then its strongest other traits.

    Args:
        traits: the head's traits.
        unit: what a test takes as independent, one and several.
        missing: what was not tested, and why, in a sentence.
        about: what intervals are about.
    """
    tested = [each for each in traits if each.verdict != "untested"]
    found = [each for each in tested if each.verdict in ("role", "tendency")]
    others = [each for each in tested if each not in found and each.strength > 0]
    order = sorted(found, key=_rank) + sorted(others, key=_rank)[:SHOWN]
    untested = len(traits) - len(tested)
    rest = len(tested) - len(order)
    notes = [
        f"{numbers.of(rest, 'weaker trait is', 'weaker traits are')} not shown." if rest else "",
        missing if untested else "",
        f"Intervals are about {about}." if order else "",
    ]
    return ProfileView(tuple(_line(each, unit) for each in order), " ".join(filter(None, notes)))


def _rank(trait: TraitStrength) -> tuple[bool, float]:
    return trait.verdict != "role", -trait.strength


def _line(trait: TraitStrength, unit: tuple[str, str]) -> TraitLine:
    corrected = trait.p_holm if math.isfinite(trait.p_holm) else math.nan
    return TraitLine(
        label=target_of(trait),
        about=(
            f"{numbers.percent(trait.share)} of {numbers.of(trait.cases, 'case', 'cases')} in "
            f"{numbers.of(trait.units, *unit)}; chance or position alone "
            f"{numbers.percent(trait.null)}, attainable {numbers.percent(trait.attainable)}"
        ),
        verdict=trait.verdict,
        strength=_clipped(trait.strength),
        interval=f"{_clipped(trait.low)} to {_clipped(trait.high)}",
        p="" if math.isnan(corrected) else numbers.probability(corrected),
        value=numbers.rounded(min(1.0, max(0.0, trait.strength)), 3) or 0.0,
    )


def _clipped(strength: float) -> str:
    """A strength; what is below its null is not comparable, and only said to be below."""
    return "below" if strength < 0 else numbers.weight(strength)
