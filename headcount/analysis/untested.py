"""What no head could be tested for, and why.

A trait is not tested because nobody asked for it, because it is impossible for the model, because
the corpus has no trees or no pairs of sentences, or because it has too few cases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import pandas as pd

from headcount.analysis.patch_profiles import PATCH_ROLE_OF, PLACES
from headcount.analysis.profiles import POSITIONAL, ROLE_OF
from headcount.analysis.repeated_tokens import REPEATED
from headcount.core import amount
from headcount.corpora import LEAST_UNITS, Halves
from headcount.results import Thresholds, Untested

SYNTAX = "syntax"
"""Name of all relations together."""

_TEXT_TRAITS: Mapping[str, str] = {
    **dict.fromkeys([*POSITIONAL, "offset"], "positional"),
    SYNTAX: "syntactic",
    **ROLE_OF,
    **{name: name for name in REPEATED},
}
_IMAGE_TRAITS: Mapping[str, str] = {
    **dict.fromkeys([*PLACES, "place"], "positional"),
    **PATCH_ROLE_OF,
    "spot": "spot",
}


_NO_CASES: Mapping[str, tuple[str, str]] = {
    "first": ("no cases", "the first token of each text is one of its two rarest"),
    "separator": ("model", "impossible: no separator is inside or behind a text"),
    "punctuation": ("no cases", "each text begins with punctuation, or has none"),
    "rare": (
        "no cases",
        "no token is rare, or the first token of each text is one of its two rarest",
    ),
}
"""Kind of the reason, and the reason, why a trait has no case in a corpus."""


@final
@dataclass(frozen=True)
class Conditions:
    """What decides which traits can be tested."""

    is_causal: bool
    """Whether the model is a causal language model without an encoder."""
    is_images: bool
    has_trees: bool
    halves: Halves
    thresholds: Thresholds
    induction: bool
    """Whether repeated tokens were asked for."""
    no_induction: str | None
    """Why the model can't read repeated tokens; None if it can."""
    truncated: int = 0
    """Number of texts that are too long for the model, of which the rest is not read; 0
    if it can't be (encoder-decoders)."""

    def untested(self, profiles: pd.DataFrame) -> dict[str, Untested]:
        """Traits of which no head was tested, by name."""
        found = {}
        for trait, role in (_IMAGE_TRAITS if self.is_images else _TEXT_TRAITS).items():
            is_own = profiles["trait"] == trait
            is_own = profiles["relation"].notna() if trait == SYNTAX else is_own
            rows = profiles[["verdict", "cases", "units"]].to_numpy()[is_own.to_numpy()]
            if all(verdict == "untested" for verdict, _, _ in rows):  # of no rows, too
                counts = [(int(cases), int(units)) for _, cases, units in rows]
                found[trait] = self._why(trait, role, counts)
        return found

    def _why(self, trait: str, role: str, own: Sequence[tuple[int, int]]) -> Untested:
        """The reason for a trait whose heads have some numbers of cases and units."""
        if trait in REPEATED and not own:
            if not self.is_causal:
                return Untested(role, "model", "impossible: the model is no causal language model")
            if not self.induction:
                return Untested(role, "not asked", "not asked for: leave --no-induction out")
            return Untested(role, "model", f"impossible for this model: {self.no_induction}")
        if trait == "next" and self.is_causal:
            return Untested(role, "model", "impossible: the model sees no later token")
        if trait == SYNTAX and not self.has_trees:
            return Untested(role, "no trees", "no trees: give a treebank (.conllu)")
        if trait == "segment" and not own:
            return Untested(role, "no pairs", "no pairs: give pairs of sentences (--pairs)")
        if self.halves.missing:
            return Untested(role, "few", _missing(self.halves, self.truncated))
        cases, units = map(max, zip(*own, strict=True)) if own else (0, 0)
        unit = "image" if self.is_images else "text"
        if self.halves.segments is not None:
            unit = "segment"
        limits = self.thresholds
        if not cases:
            return Untested(role, *_NO_CASES.get(trait, ("few", "no token is a case")))
        return Untested(
            role,
            "few",
            f"at most {amount(cases, 'case')} in {amount(units, unit)}, {limits.test_cases} in "
            f"{limits.test_sentences} are needed",
        )


def _missing(halves: Halves, truncated: int) -> str:
    """How many tokens a corpus of few texts has, and how many it needs."""
    cut = "" if not truncated else f" ({amount(truncated, 'text')} cut off: add --windows)"
    if halves.num_texts == 1:
        needed = halves.num_tokens + halves.missing
        return f"{amount(halves.num_tokens, 'token')}{cut}, {needed:,} are needed"
    texts, tokens = amount(halves.num_texts, "text"), amount(halves.num_tokens, "token")
    return (
        f"{texts} with {tokens}{cut}: {LEAST_UNITS} texts in each half are needed, or at least "
        f"{amount(halves.missing, 'token')} more"
    )
