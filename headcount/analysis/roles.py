"""Roles: what each head is for, by the papers' thresholds on the measured numbers, with evidence.

A head can have several roles, in the order below, or none: "none found" is an answer.

References: positional, syntactic and rare: Voita et al. (2019), section 5; sink and punctuation:
    Clark et al. (2019), section 3.2; block: Kovaleva et al. (2019), section 4.1. Departures are
    noted with each threshold.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from headcount.core import HeadTable
from headcount.measures import ALL
from headcount.results import Role, Thresholds

ROLES = ("positional", "syntactic", "rare", "sink", "punctuation", "block")
"""All roles, in the order of a head's list."""

NOT_SYNTAX = frozenset({"punct", ALL})
"""Relations that do not make a head syntactic: UD attaches punctuation by convention, and all
relations together are not one relation."""


def find_roles(
    heads: HeadTable, relations: pd.DataFrame | None, thresholds: Thresholds | None = None
) -> dict[str, list[Role]]:
    """The roles of every head, by head name; an empty list for a head without a role.

    >>> find_roles(analysis.heads, analysis.relations, Thresholds(sink_share=0.7))  # doctest: +SKIP

    Args:
        heads: the measured numbers, such as `Analysis.heads` or the result of `measure`.
        relations: accuracies of relations, such as `Analysis.relations`; None for no relations.
        thresholds: thresholds of the roles; the papers' if None.
    """
    limits = thresholds or Thresholds()
    best = {} if relations is None else _best_relations(relations, limits)
    found = {}
    for row in heads.frame.to_dict("records"):
        candidates = [_positional, _rare, _sink, _punctuation, _block]
        roles = [role for candidate in candidates for role in candidate(row, limits)]
        if row["head"] in best:
            roles.append(_syntactic(best[row["head"]]))
        found[row["head"]] = sorted(roles, key=lambda role: ROLES.index(role.role))
    return found


def _positional(row: dict, limits: Thresholds) -> Iterator[Role]:
    share = row["positional_share"]
    if share >= limits.positional_share:
        offset = int(row["positional_offset"])
        evidence = f"{share:.0%} of tokens look most at {_target(row['site'], offset)}"
        yield Role("positional", evidence, share, offset=offset)


def _target(site: str, offset: int) -> str:
    """Where an offset points, in words; in cross-attention, into the other sequence."""
    if site == "decoder.cross":
        place = "the same place" if offset == 0 else f"their place {offset:+d}"
        return f"the source token at {place}"
    where = {0: "itself", -1: "the token before", 1: "the token after"}
    return where.get(offset, f"the token at offset {offset:+d}")


def _rare(row: dict, limits: Thresholds) -> Iterator[Role]:
    share = row["rare2_share"]
    if share >= limits.rare2_share:
        cases = int(row["rare_cases"])
        evidence = (
            f"{share:.0%} of {cases:,} tokens look most at one of the two rarest tokens of their "
            f"sentence, {row['rare_share']:.0%} at the rarest"
        )
        yield Role("rare", evidence, share)


def _sink(row: dict, limits: Thresholds) -> Iterator[Role]:
    names = {"attn_first": "the first token", "attn_sep": "separators"}
    column = max(names, key=lambda name: row[name])
    if row[column] >= limits.sink_share:
        yield Role("sink", f"{row[column]:.0%} of attention goes to {names[column]}", row[column])


def _punctuation(row: dict, limits: Thresholds) -> Iterator[Role]:
    share = row["attn_punct"]
    if share >= limits.punctuation_share:
        yield Role("punctuation", f"{share:.0%} of attention goes to punctuation", share)


def _block(row: dict, limits: Thresholds) -> Iterator[Role]:
    share = row["pattern_block"]
    if share >= limits.block_share:
        yield Role("block", f"{share:.0%} of maps stay within their own segment", share)


def _best_relations(relations: pd.DataFrame, limits: Thresholds) -> dict[str, list[dict]]:
    enough = (relations["cases"] >= limits.syntactic_cases) & ~relations["relation"].isin(
        list(NOT_SYNTAX)
    )
    scores = list(zip(relations["accuracy"], relations["baseline"], strict=True))
    beats = enough & np.array([limits.is_syntactic(*each) for each in scores], dtype=bool)
    found = relations.assign(gain=[limits.syntactic_excess(*each) for each in scores]).loc[beats]
    ordered = found.sort_values(["gain", "relation", "direction"], ascending=[False, True, True])
    return {str(head): rows.to_dict("records") for head, rows in ordered.groupby("head")}


def _syntactic(rows: list[dict]) -> Role:
    parts = [
        f"{row['relation']} {row['direction']} {row['accuracy']:.0%} "
        f"(fixed offset {row['baseline']:.0%}, {row['cases']:,} cases)"
        for row in rows[:3]
    ]
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    evidence = f"finds {'; '.join(parts)}{more}"
    best = rows[0]
    return Role(
        "syntactic", evidence, best["gain"], relation=best["relation"], direction=best["direction"]
    )
