"""Roles: what each head is for, by the papers' thresholds and a test, with evidence.

A *role* passes its paper's threshold and the test, on the half of the corpus that did not choose;
a *tendency* passes the test alone, with a strength of at least 0.05. The test is corrected (Holm)
for all cells that were chosen: those whose share is above their null in the first half, and that
have enough cases in the second. A role is *clear* if its interval clears the threshold, else
*borderline*.

A head can have several roles, in the order below, or none: "none found" is an answer.

References: positional, syntactic and rare: Voita et al. (2019), section 5; sink and punctuation:
    Clark et al. (2019), section 3.2; block: Kovaleva et al. (2019), section 4.1; induction and
    duplicate: Olsson et al. (2022). Departures are noted with each threshold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from headcount.core import amount
from headcount.results import BORDERLINE, CLEAR, Role, Thresholds
from headcount.statistics import holm

PLACE_WORDS = {"left": "to the left", "right": "to the right", "same": "itself"}
"""Words for traits whose name does not say where a patch is, as seen from another."""

ROLES = (
    "positional",
    "syntactic",
    "rare",
    "sink",
    "punctuation",
    "block",
    "induction",
    "duplicate",
)
"""The roles of sentences, in the order of a head's list."""

IMAGE_ROLES = ("positional", "line", "local", "spot", "sink")
"""The roles of images."""

_ORDER = (*IMAGE_ROLES[:4], *ROLES[1:])

SHOWN = 3
"""Number of relations that the evidence of a syntactic head names."""


def judged(profiles: pd.DataFrame, thresholds: Thresholds | None = None) -> pd.DataFrame:
    """The profiles with `p_holm` and `verdict` by some thresholds; the papers' if None."""
    limits = thresholds or Thresholds()
    score = profiles["score"].to_numpy(dtype=float, copy=True)
    is_syntactic = (profiles["role"] == "syntactic").to_numpy()
    pairs = zip(profiles["share"], profiles["chance"], strict=True)
    gains = np.array([limits.syntactic_excess(*pair) for pair in pairs], dtype=float)
    score[is_syntactic] = gains[is_syntactic]
    least = np.where(
        is_syntactic, max(limits.syntactic_cases, limits.test_cases), limits.test_cases
    )
    is_tested = (profiles["cases"].to_numpy(dtype=float) >= least) & (
        profiles["units"].to_numpy(dtype=float) >= limits.test_sentences
    )
    p = profiles["p"].to_numpy(dtype=float)
    is_tested &= ~np.isnan(p)
    is_chosen = is_tested & (profiles["first_gain"].to_numpy(dtype=float) > 0)
    p_holm = np.full(len(p), np.nan)
    p_holm[is_chosen] = holm(p[is_chosen])
    passes = is_chosen & (np.nan_to_num(p_holm, nan=1.0) <= limits.test_alpha)
    least_score = np.array([limits.least(role) for role in profiles["role"]], dtype=float)
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
    profiles: pd.DataFrame, thresholds: Thresholds | None = None
) -> dict[str, list[Role]]:
    """The roles of every head, by head name; an empty list for a head without a role.

    >>> find_roles(analysis.profiles, Thresholds(sink_share=0.7))  # doctest: +SKIP

    Args:
        profiles: strengths of traits, such as `Analysis.profiles`.
        thresholds: thresholds of the roles; the papers' if None.
    """
    limits = thresholds or Thresholds()
    profiles = judged(profiles, limits)
    found: dict[str, list[Role]] = {str(head): [] for head in profiles["head"]}
    having: dict[tuple[str, str], list[dict]] = {}
    for row in profiles.to_dict("records"):
        if row["verdict"] == "role":
            having.setdefault((row["head"], row["role"]), []).append(row)
    for (head, role), rows in having.items():
        ordered = sorted(rows, key=lambda row: (row["score"], row["strength"]), reverse=True)
        certain = [limits.certainty(row) for row in ordered]
        best = min(certain, key=(CLEAR, BORDERLINE, None).index)
        found[head].append(replace(_EVIDENCE[role](ordered), certainty=best))
    return {
        head: sorted(roles, key=lambda r: _ORDER.index(r.role)) for head, roles in found.items()
    }


def _positional(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    if pd.isna(row["offset"]):
        where = _patch(row)
        evidence = f"{row['score']:.0%} of patches that have a patch {where} look most at it"
        if row["trait"] == "same":
            evidence = f"{row['score']:.0%} of patches look most at themselves"
        return Role("positional", evidence + _cases(row), row["score"], direction=where)
    offset = int(row["offset"])
    target = _target(row["head"], offset)
    evidence = f"{row['score']:.0%} of tokens that can look most at {target} do"
    return Role("positional", evidence + _cases(row), row["score"], offset=offset)


def _target(head: str, offset: int) -> str:
    """Where an offset points, in words; in cross-attention, into the other sequence."""
    if head.startswith("cross."):
        place = "the same place" if offset == 0 else f"their place {offset:+d}"
        return f"the source token at {place}"
    where = {0: "themselves", -1: "the token before", 1: "the token after"}
    return where.get(offset, f"the token at offset {offset:+d}")


def _patch(row: Mapping) -> str:
    """Where a patch is, in words, as seen from another."""
    trait = str(row["trait"])
    return str(row["direction"]) if trait == "place" else PLACE_WORDS.get(trait, trait)


def _line(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = f"{row['share']:.0%} of attention stays in the patch's own {row['trait']}"
    return Role(
        "line",
        f"{evidence} ({row['null']:.0%} by position)",
        row["score"],
        direction=str(row["trait"]),
    )


def _local(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = f"attention is {row['share']:.0%} closer to the patch than even attention"
    return Role("local", evidence, row["score"])


def _spot(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = (
        f"{row['share']:.0%} of attention goes to the patch in {row['direction']} of every image"
    )
    beside = f" ({row['position_null']:.0%} to each patch beside it)"
    return Role("spot", evidence + beside, row["score"], direction=row["direction"])


def _rare(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = f"{row['share']:.0%} of tokens look most at one of the two rarest tokens they see"
    return Role("rare", f"{evidence} ({row['null']:.0%} by position)" + _cases(row), row["score"])


def _sink(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    where = {"first": "the first token", "separator": "separators", "class": "the class token"}[
        row["trait"]
    ]
    return Role("sink", f"{row['share']:.0%} of attention goes to {where}", row["score"])


def _punctuation(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = f"{row['share']:.0%} of attention goes to punctuation"
    return Role("punctuation", f"{evidence} ({row['null']:.0%} by position)", row["score"])


def _block(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    return Role("block", f"{row['score']:.0%} of maps stay within their own segment", row["score"])


def _induction(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = f"{row['share']:.0%} of attention goes to the token after the earlier copy"
    return Role("induction", f"{evidence} ({row['null']:.0%} without a copy)", row["score"])


def _duplicate(rows: Sequence[Mapping]) -> Role:
    row = rows[0]
    evidence = f"{row['share']:.0%} of attention goes to the earlier copy of the token"
    return Role("duplicate", f"{evidence} ({row['null']:.0%} without a copy)", row["score"])


def _syntactic(rows: Sequence[Mapping]) -> Role:
    best = rows[0]
    parts = [
        f"{row['relation']} {row['direction']} {row['share']:.0%} "
        f"(fixed offset {row['chance']:.0%}, {amount(int(row['cases']), 'case')})"
        for row in rows[:SHOWN]
    ]
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return Role(
        "syntactic",
        f"finds {'; '.join(parts)}{more}",
        best["score"],
        relation=best["relation"],
        direction=best["direction"],
    )


def _cases(row: Mapping) -> str:
    return f", {amount(int(row['cases']), 'case')}"


_EVIDENCE: dict[str, Callable[[Sequence[Mapping]], Role]] = {
    "positional": _positional,
    "syntactic": _syntactic,
    "rare": _rare,
    "sink": _sink,
    "punctuation": _punctuation,
    "block": _block,
    "induction": _induction,
    "duplicate": _duplicate,
    "line": _line,
    "local": _local,
    "spot": _spot,
}
