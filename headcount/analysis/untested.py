"""What no head could be tested for, and why.

A trait is not tested because nobody asked for it, because it is impossible for the model, because
the corpus has no trees or no pairs of sentences, or because it has too few cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import pandas as pd

from headcount.core import amount
from headcount.corpora import LEAST_UNITS, Halves
from headcount.results import Untested
from headcount.vocabulary import SYNTAX, Inputs, Thresholds, TraitEntry


@final
@dataclass(frozen=True)
class Conditions:
    """What decides which traits can be tested."""

    is_causal: bool
    """Whether the model is a causal language model without an encoder."""
    inputs: Inputs
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
        for entry in self.inputs.traits:
            is_own = profiles["trait"] == entry.key
            is_own = profiles["relation"].notna() if entry == SYNTAX else is_own
            rows = profiles[["verdict", "cases", "units"]].to_numpy()[is_own.to_numpy()]
            if all(verdict == "untested" for verdict, _, _ in rows):  # of no rows, too
                counts = [(int(cases), int(units)) for _, cases, units in rows]
                found[entry.key] = Untested(entry.role.name, *self._why(entry, counts))
        return found

    def _why(self, entry: TraitEntry, own: Sequence[tuple[int, int]]) -> tuple[str, str]:
        """Kind of the reason, and the reason; heads have some numbers of cases and units."""
        if why := self._lacks(entry, bool(own)):
            return why
        if self.halves.missing:
            return "few", _missing(self.halves, self.truncated)
        cases, units = map(max, zip(*own, strict=True)) if own else (0, 0)
        unit, limits = self.inputs.unit, self.thresholds
        if self.halves.segments is not None:
            unit = "segment"
        if not cases:
            return entry.no_case
        return "few", (
            f"at most {amount(cases, 'case')} in {amount(units, unit)}, {limits.test_cases} in "
            f"{limits.test_sentences} are needed"
        )

    def _lacks(self, entry: TraitEntry, has_cells: bool) -> tuple[str, str] | None:
        """The reason if the model or the corpus lacks what a trait needs."""
        match entry.needs:
            case "repeats" if not has_cells and not self.is_causal:
                return "model", "impossible: the model is no causal language model"
            case "repeats" if not has_cells and not self.induction:
                return "not asked", "not asked for: leave --no-induction out"
            case "repeats" if not has_cells:
                return "model", f"impossible for this model: {self.no_induction}"
            case "later tokens" if self.is_causal:
                return "model", "impossible: the model sees no later token"
            case "trees" if not self.has_trees:
                return "no trees", "no trees: give a treebank (.conllu)"
            case "pairs" if not has_cells:
                return "no pairs", "no pairs: give pairs of sentences (--pairs)"
        return None


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
