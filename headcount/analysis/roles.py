"""Roles: what each head is for, by the papers' thresholds and a test, with evidence.

A *role* passes its paper's threshold and the test, on the half of the corpus that did not choose;
a *tendency* passes the test alone, with a strength of at least 0.05. The test is corrected (Holm)
for all cells that were chosen: those whose share is above their null in the first half, and that
have enough cases in the second. Neither is given where the null leaves less than 5 % of what the
trait can reach. A role is *clear* if its interval clears the threshold, else
*borderline*.

A head can have several roles, in the order of `ROLES`, or none: "none found" is an answer.

References: positional, syntactic and rare: Voita et al. (2019), section 5; sink and punctuation:
    Clark et al. (2019), section 3.2; block: Kovaleva et al. (2019), section 4.1; induction and
    duplicate: Olsson et al. (2022). Departures are noted with each threshold.

What no head could be tested for, and why.

A trait is not tested because nobody asked for it, because it is impossible for the model, because
the corpus has no trees or no pairs of sentences, or because it has too few cases.

Traits on repeated random tokens are cells that are not chosen: each head of a causal model is
tested for induction and for duplicate tokens. As everywhere else one half of the texts decides
which cells are tested and the other half tests them. The null is the weight on the same place where
nothing is repeated; a perfect head has a weight of 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from headcount.analysis.profile_cells import Cells, ProfileRow, profile_frame
from headcount.core import Steps, amount, silent_steps
from headcount.corpora import LEAST_UNITS, Halves
from headcount.measures import PATTERNS, RepeatedTokens, interval, pattern_means
from headcount.models import Loaded
from headcount.results import (
    Cell,
    Role,
    TraitStrength,
    Untested,
    finding,
    kind_of_trait,
    rows_of,
    with_words,
)
from headcount.statistics import ClusteredRates, holm
from headcount.vocabulary import (
    BORDERLINE,
    CLEAR,
    OF_RELATIONS,
    PREVIOUS,
    REPEATED,
    ROLES,
    Inputs,
    LinkWords,
    RoleEntry,
    Thresholds,
    TraitEntry,
    traits_of,
)

LEAST_ROOM = 0.05
"""Least share of what a trait can reach that its null leaves: a head that looks at the patch to the
left is in its own row by that alone, and the rest is rounding, however small its p."""


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
    limits, entries = thresholds or Thresholds(), _roles_with(further)
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
    room = (profiles["attainable"] - profiles["null"]) / profiles["attainable"]
    has_room = room.to_numpy(dtype=float) >= LEAST_ROOM
    passes = is_chosen & has_room & (np.nan_to_num(p_holm, nan=1.0) <= limits.test_alpha)
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
    order = [*_roles_with(further)]
    return {
        head: sorted(roles, key=lambda each: order.index(each.role))
        for head, roles in found.items()
    }


def _roles_with(further: Mapping[str, TraitEntry] | None) -> dict[str, RoleEntry]:
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


LENGTH, TEXTS = 25, 64
"""Number of tokens in a text, and number of texts: half of them are as many as a test needs."""


def repeated_profiles(loaded: Loaded, seed: int = 0, steps: Steps = silent_steps) -> pd.DataFrame:
    """One row per head and trait, untested: see `judged`.

    Args:
        loaded: a causal language model.
        seed: seed of the random tokens.
        steps: called with the number of sequences so far, and of all.

    Raises:
        ModelError: if the model takes too few tokens or has too small a vocabulary.
    """
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, seed)
    return _profiles(loaded, tokens, *pattern_means(loaded, tokens, steps))


def repeated_roles(
    loaded: Loaded, seed: int = 0, steps: Steps = silent_steps
) -> dict[str, list[str]]:
    """Roles of every head on repeated random tokens, by head name: those of `REPEATED_ROLES`.

    Induction and duplicate are those of `analyze`. A head is `previous` if the lower end of
    Student's 95 % interval of its weight on the token before is at least `induction_share`.

    Args:
        loaded: a causal language model.
        seed: seed of the random tokens.
        steps: called with the number of sequences so far, and of all.

    Raises:
        ModelError: if the model takes too few tokens or has too small a vocabulary.
    """
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, seed)
    repeated_PTH, other_PTH = pattern_means(loaded, tokens, steps)
    found = find_roles(_profiles(loaded, tokens, repeated_PTH, other_PTH))
    low_H, _, _ = interval(repeated_PTH[PATTERNS.index("previous_token")])
    least = Thresholds().induction_share
    return {
        str(head): [*(role.role for role in found[str(head)]), *[PREVIOUS] * bool(low >= least)]
        for head, low in zip(loaded.heads, low_H, strict=True)
    }


def _profiles(
    loaded: Loaded, tokens: RepeatedTokens, repeated_PTH: np.ndarray, other_PTH: np.ndarray
) -> pd.DataFrame:
    rows = [
        ProfileRow(head, trait, cell)
        for trait in REPEATED
        for head, cell in zip(
            loaded.heads,
            _cells(
                repeated_PTH[PATTERNS.index(trait.skill)],
                other_PTH[PATTERNS.index(trait.skill)],
                tokens.length,
            ),
            strict=True,
        )
    ]
    return profile_frame(rows)


def _cells(repeated_TH: np.ndarray, other_TH: np.ndarray, length: int) -> Iterator[Cell]:
    """One trait's numbers, head by head."""
    middle = len(repeated_TH) // 2
    gain_TH, null_H = (repeated_TH - other_TH)[middle:], other_TH[middle:].mean(0)
    units = len(gain_TH)
    rates = ClusteredRates(gain_TH.mean(0) + null_H, gain_TH.std(0, ddof=1) / np.sqrt(units), units)
    return Cells(
        rates,
        chance=null_H,
        position_null=np.nan,
        first_share=repeated_TH[:middle].mean(0),
        first_null=other_TH[:middle].mean(0),
        cases=units * length,
        paper_share=repeated_TH.mean(0),
    ).each()
