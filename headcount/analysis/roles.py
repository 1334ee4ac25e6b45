"""Roles: what each head is for, by the papers' thresholds and a test, with evidence.

A *role* passes its paper's threshold and the test, on the half of the corpus that did not choose;
a *tendency* passes the test alone, with a strength of at least 0.05. The test is corrected (Holm)
for all cells that were chosen: those whose share is above their null in the first half, and that
have enough cases in the second. A role is *clear* if its interval clears the threshold, else
*borderline*.

A head can have several roles, in the order of `ROLES`, or none: "none found" is an answer.

References: positional, syntactic and rare: Voita et al. (2019), section 5; sink and punctuation:
    Clark et al. (2019), section 3.2; block: Kovaleva et al. (2019), section 4.1; induction and
    duplicate: Olsson et al. (2022). Departures are noted with each threshold.

What no head could be tested for, and why.

A trait is not tested because nobody asked for it, because it is impossible for the model, because
the corpus has no trees or no pairs of sentences, or because it has too few cases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from headcount.core import amount
from headcount.corpora import LEAST_UNITS, Halves
from headcount.results import (
    Role,
    TraitStrength,
    Untested,
    finding,
    kind_of_trait,
    rows_of,
    with_words,
)
from headcount.statistics import holm
from headcount.vocabulary import (
    BORDERLINE,
    CLEAR,
    OF_RELATIONS,
    ROLES,
    Inputs,
    LinkWords,
    RoleEntry,
    Thresholds,
    TraitEntry,
    traits_of,
)


def judged(
    profiles: pd.DataFrame,
    thresholds: Thresholds | None = None,
    further: Mapping[str, TraitEntry] | None = None,
) -> pd.DataFrame:
    """The profiles with `p_holm` and `verdict` by some thresholds; the papers' if None.

    Args:
        profiles: strengths of traits.
        thresholds: thresholds of the roles; the papers' if None.
        further: traits of plug-ins, as in the run's record.
    """
    limits, entries = thresholds or Thresholds(), roles_with(further)
    score = profiles["score"].to_numpy(dtype=float, copy=True)
    is_gain = np.array([entries[role].is_gain for role in profiles["role"]], dtype=bool)
    pairs = zip(profiles["share"], profiles["chance"], strict=True)
    gains = np.array(
        [limits.excess(role, *pair) for role, pair in zip(profiles["role"], pairs, strict=True)],
        dtype=float,
    )
    score[is_gain] = gains[is_gain]
    least = np.array([limits.least_cases(role) for role in profiles["role"]], dtype=float)
    is_tested = (profiles["cases"].to_numpy(dtype=float) >= least) & (
        profiles["units"].to_numpy(dtype=float) >= limits.test_sentences
    )
    p = profiles["p"].to_numpy(dtype=float)
    is_tested &= ~np.isnan(p)
    is_chosen = is_tested & (profiles["first_gain"].to_numpy(dtype=float) > 0)
    p_holm = np.full(len(p), np.nan)
    p_holm[is_chosen] = holm(p[is_chosen])
    passes = is_chosen & (np.nan_to_num(p_holm, nan=1.0) <= limits.test_alpha)
    least_score = np.array([limits.least(entries[role]) for role in profiles["role"]], dtype=float)
    # Rounded, so that 0.6 against 0.5 is 10 points
    is_role = passes & (np.round(score, 9) >= least_score)
    is_tendency = passes & (profiles["strength"].to_numpy() >= limits.tendency_strength)
    cases = [is_role, is_tendency, is_tested]
    verdict = np.select(cases, ["role", "tendency", "none"], "untested")
    return profiles.assign(score=score, p_holm=p_holm, verdict=verdict)


def tendencies(profiles: pd.DataFrame) -> dict[str, list[str]]:
    """The roles that heads tend to without having them, by head name; the strongest first."""
    rows = profiles.to_dict("records")
    has_role = {(row["head"], row["role"]) for row in rows if row["verdict"] == "role"}
    found: dict[str, dict[str, None]] = {}
    for row in sorted(rows, key=lambda row: -row["strength"]):
        if row["verdict"] == "tendency" and (row["head"], row["role"]) not in has_role:
            found.setdefault(row["head"], {})[row["role"]] = None
    return {head: list(roles) for head, roles in found.items()}


def find_roles(
    profiles: pd.DataFrame,
    thresholds: Thresholds | None = None,
    links: Mapping[str, LinkWords] | None = None,
    further: Mapping[str, TraitEntry] | None = None,
) -> dict[str, list[Role]]:
    """The roles of every head, by head name; an empty list for a head without a role.

    >>> find_roles(analysis.profiles, Thresholds(sink_share=0.7))  # doctest: +SKIP

    Args:
        profiles: strengths of traits, such as `Analysis.profiles`.
        thresholds: thresholds of the roles; the papers' if None.
        links: what kinds of links are called, as in the run's record.
        further: traits of plug-ins, as in the run's record.
    """
    limits = thresholds or Thresholds()
    profiles = judged(profiles, limits, further)
    found: dict[str, list[Role]] = {str(head): [] for head in profiles["head"]}
    having: dict[tuple[str, str], list[TraitStrength]] = {}
    rows = rows_of(profiles.loc[profiles["verdict"] == "role"], TraitStrength)
    for trait in with_words(rows, links or {}, further):
        having.setdefault((trait.head, trait.role), []).append(trait)
    for (head, _), traits in having.items():
        ordered = sorted(traits, key=lambda each: (each.score, each.strength), reverse=True)
        certain = [limits.certainty(vars(each)) for each in ordered]
        best = min(certain, key=(CLEAR, BORDERLINE, None).index)
        found[head].append(_role(ordered[0], best))
    order = [*roles_with(further)]
    return {
        head: sorted(roles, key=lambda each: order.index(each.role))
        for head, roles in found.items()
    }


def roles_with(further: Mapping[str, TraitEntry] | None) -> dict[str, RoleEntry]:
    """All roles by name, those of plug-ins' traits last."""
    return {**ROLES, **{each.role.name: each.role for each in (further or {}).values()}}


def _role(trait: TraitStrength, certainty: str | None) -> Role:
    """The role of a head by its best trait."""
    kind = kind_of_trait(trait)
    return Role(
        trait.role,
        finding(trait),
        trait.score,
        offset=trait.offset,
        relation=trait.relation,
        direction=trait.direction or kind.direction,
        certainty=certainty,
    )


@final
@dataclass(frozen=True)
class Conditions:
    """What decides which traits can be tested."""

    is_causal: bool
    """Whether the model is a causal language model without an encoder."""
    inputs: Inputs
    has_trees: bool
    has_links: bool
    further: tuple[TraitEntry, ...]
    """Traits of plug-ins."""
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
        for entry in (*traits_of(self.inputs, self.has_links), *self.further):
            is_own = profiles["role"] == entry.role.name
            if entry not in OF_RELATIONS.values():
                is_own &= profiles["trait"] == entry.key
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
