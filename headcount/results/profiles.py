"""What heads do, as it is stored: traits, roles, and the sentences that say them; similar heads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import final

import numpy as np

from headcount import numbers
from headcount.core import Head, omitted
from headcount.statistics import ALPHA, shrunken
from headcount.vocabulary import (
    LINKS,
    OF_RELATIONS,
    LinkWords,
    RoleEntry,
    Thresholds,
    TraitEntry,
    kind_of,
    relation_target,
    roles_named,
    words_of_link,
)


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
    """Best relation of a syntactic head, or best kind of link."""
    direction: str | None = omitted(None)
    """Direction of that relation, e.g. `head->dependent`; on images, where the head looks, as in
    `2 up`, `row` or `row 1, column 3`."""
    certainty: str | None = omitted(None)
    """`clear` or `borderline`: see `Thresholds.certainty`; None if it is unknown."""


Roles = Mapping[str, Sequence[Role]]
"""Roles of each head, by head name."""


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
    `punctuation`, `segment`, `rare`, a relation without its subtype, or a kind of link; on images
    `left`, `right`, `above`, `below`, `same`, `place`, `class`, `row`, `column`, `near` or
    `spot`."""
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
    words: LinkWords | None = None
    """What links are called, which the record holds; None for other traits."""
    entry: TraitEntry | None = None
    """The row of a plug-in's trait, which the record holds; None for our own."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"got the verdict {self.verdict!r}, expected one of {VERDICTS}")

    @property
    def key(self) -> tuple[str, str, str]:
        """What names the row: head, trait and role. A relation may be called like a trait."""
        return self.head, self.trait, self.role

    @property
    def share_interval(self) -> tuple[float, float]:
        """The 90 % interval of the share, from that of the strength, cut to 0 ... 1."""
        low, high = (
            min(1.0, max(0.0, self.null + each * (self.attainable - self.null)))
            for each in (self.low, self.high)
        )
        return low, high

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the head shows the trait more often than chance and position explain."""
        return self.verdict in ("role", "tendency")


_NUMBERS = [field.name for field in fields(Cell)]
*_NAMES, _P, _VERDICT, _, _ = (
    each.name for each in fields(TraitStrength) if each.name not in _NUMBERS
)
PROFILE_COLUMNS = (*_NAMES, *_NUMBERS, _P, _VERDICT)
"""Columns of `profiles.parquet`, in order."""

Profiles = Mapping[str, Sequence[TraitStrength]]
"""The traits of each head, by head name."""


def kind_of_trait(trait: TraitStrength, roles: Mapping[str, RoleEntry] | None = None) -> TraitEntry:
    """The row of what a head shows: its trait's, or that of all relations.

    Args:
        trait: the trait.
        roles: roles by name, among them the trait's; None for those with a row.
    """
    if trait.entry is not None:
        return trait.entry
    if trait.relation is not None:
        return OF_RELATIONS[trait.role]
    return kind_of(trait.trait, (roles or roles_named([trait.role]))[trait.role])


def target_of(trait: TraitStrength) -> str:
    """What a head with the trait looks at or finds; for a relation, with its name in brackets."""
    if trait.relation is not None:
        found = relation_target(trait.relation, trait.direction or "", trait.words)
        is_said = trait.words is not None and trait.words.key == trait.relation
        return found if is_said else f"{found} ({trait.relation})"
    direction = trait.direction
    if trait.offset is not None and direction is None:
        side = "left" if trait.offset < 0 else "right"
        direction = f"{numbers.of(abs(trait.offset), 'place', 'places')} to the {side}"
    if trait.offset is not None and trait.head.startswith("cross."):
        return f"the source token {direction if trait.offset else 'at the same place'}"
    return kind_of_trait(trait).target.replace("{direction}", str(direction))


def does(trait: TraitStrength) -> str:
    """What a head with the trait does, as a predicate: "looks at the previous token"."""
    return kind_of_trait(trait).does(target_of(trait))


def finding(trait: TraitStrength) -> str:
    """What a head does, how often, and what its null would give; numbers of the tested half.

    >>> finding(nsubj)  # doctest: +SKIP
    'finds the subject of a verb (nsubj) in 58 % of cases; the best fixed position manages 37 %'
    """
    kind, share, null = kind_of_trait(trait), trait.share, trait.null
    if kind.is_of_cases and trait.attainable > 0:
        share, null = share / trait.attainable, null / trait.attainable
    return kind.finding.format(
        does=does(trait),
        target=target_of(trait),
        much=numbers.percent(share),
        null=kind.by_position if trait.position_null > trait.chance else kind.by_chance,
        little=numbers.percent(null),
    )


def with_words(
    rows: Iterable[TraitStrength],
    links: Mapping[str, LinkWords],
    further: Mapping[str, TraitEntry] | None = None,
) -> Iterable[TraitStrength]:
    """The rows; those of links with what their kind is called, those of plug-ins' traits with it.

    Args:
        rows: the traits.
        links: what each kind of link is called, as in `RunRecord.links`.
        further: the traits of plug-ins, as in `RunRecord.further`.
    """
    own = further or {}
    for row in rows:
        if row.role == LINKS.role.name:
            yield replace(row, words=links.get(row.trait, words_of_link(row.trait)))
        elif row.trait in own and own[row.trait].role.name == row.role:
            yield replace(row, entry=own[row.trait])
        else:
            yield row


@final
@dataclass(frozen=True)
class BothHalves:
    """A trait of a head in both halves of the corpus, in the unit of its score."""

    null: float
    """Score that the null explains; 0 for a relation, whose score is a gain."""
    gain: float
    """Mean gain of the halves over it."""
    error: float
    """Standard error of that gain."""
    most: float
    """Score of a perfect head, which no expected score exceeds."""

    @classmethod
    def of(cls, row: TraitStrength) -> "BothHalves | None":
        """The gain of a row; None for blocks, whose score is another number, and what is untested.

        Both halves have about as many texts, so their standard errors are taken to be equal.
        """
        role = kind_of_trait(row).role
        if not role.has_certainty or row.verdict == "untested" or row.units < 2 or not row.share:
            return None
        from scipy.stats import t as student

        scale = 1.0 if role.is_gain else row.score / row.share
        null = (row.chance if role.is_gain else row.null) * scale
        margin = (row.high - row.low) / 2 * (row.attainable - row.null) * scale
        error = margin / float(student.isf(ALPHA, row.units - 1)) / math.sqrt(2)
        gain = (row.share * scale - null + row.first_gain) / 2
        most = math.inf if role.is_gain else row.attainable * scale
        return cls(null, gain, error, most) if math.isfinite(gain + error) else None

    def score(self, limits: Thresholds, row: TraitStrength, gain: float | None = None) -> float:
        """The score for the gain, or for another one."""
        gain = self.gain if gain is None else gain
        if kind_of_trait(row).role.is_gain:
            return limits.excess(row.role, row.chance + gain, row.chance)
        return min(self.null + gain, self.most)


def expected_scores(profiles: Profiles, limits: Thresholds) -> dict[tuple[str, str, str], float]:
    """The expected score of every tested trait, by `TraitStrength.key`.

    A role is given to cells whose score in the second half of the corpus reaches a threshold, so
    the scores of roles just above it are too high. The expected score takes the gains over the null
    in both halves, averaged, and shrinks them to the mean of the site's heads
    (`statistics/estimates.py`). It differs from the score in the direction in which chance has
    picked.
    """
    groups: dict[tuple[str, ...], list[tuple[TraitStrength, BothHalves]]] = {}
    for row in _rows(profiles):
        if (both := BothHalves.of(row)) is not None:
            alike = (Head.parse(row.head).site, row.trait, row.role)
            groups.setdefault(alike, []).append((row, both))
    found = {}
    for group in groups.values():
        gains = np.array([[both.gain, both.error] for _, both in group]).T
        for (row, both), gain in zip(group, shrunken(*gains).tolist(), strict=True):
            found[row.key] = both.score(limits, row, gain)
    return found


def _rows(profiles: Profiles) -> Iterable[TraitStrength]:
    return (row for rows in profiles.values() for row in rows)


RELATED = 4
"""Number of related heads on a card."""


LEAST = 0.5
"""Smallest similarity of a related head."""


@final
@dataclass(frozen=True)
class Relative:
    """A head with a similar profile."""

    head: str
    similarity: str


def related_heads(profiles: Profiles, heads: Sequence[str]) -> dict[str, tuple[Relative, ...]]:
    r"""The heads with the most similar profiles of every head, the most similar first.

    $$\cos(h, g) = \frac{s_h \cdot s_g}{\lVert s_h \rVert \, \lVert s_g \rVert} \in [0, 1]$$

    where s holds the strengths of a head's traits, each cut to 0 ... 1, and 0 where a trait was not
    tested. A head without any strength has no relatives.

    Args:
        profiles: the traits of each head.
        heads: all heads, in the order in which equally similar ones are named.
    """
    strength_HT = _strengths(profiles, heads)
    norm_H = np.linalg.norm(strength_HT, axis=1)
    unit_HT = strength_HT / np.where(norm_H > 0, norm_H, 1.0)[:, None]
    cosine_HG = unit_HT @ unit_HT.T
    np.fill_diagonal(cosine_HG, 0.0)
    order_HG = np.argsort(-cosine_HG, axis=1, kind="stable")[:, :RELATED]
    return {
        head: tuple(
            Relative(heads[int(other)], numbers.weight(float(cosine_HG[place, other])))
            for other in order_HG[place]
            if cosine_HG[place, other] >= LEAST
        )
        for place, head in enumerate(heads)
    }


def _strengths(profiles: Profiles, heads: Sequence[str]) -> np.ndarray:
    """Heads x traits; a relation counts by its name, whatever its direction."""
    traits = sorted({trait.key[1:] for each in profiles.values() for trait in each})
    column = {trait: place for place, trait in enumerate(traits)}
    strength_HT = np.zeros((len(heads), len(traits)))
    for row, head in enumerate(heads):
        for trait in profiles.get(head, ()):
            if trait.verdict != "untested" and math.isfinite(trait.strength):
                strength_HT[row, column[trait.key[1:]]] = min(1.0, max(0.0, trait.strength))
    return strength_HT
