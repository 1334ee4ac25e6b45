"""The card of one head: everything the report says about it, as short texts and a few numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.pages.attention_view import ExampleView, ImageView, PlacesView, view_of
from headcount.pages.kinds import findings
from headcount.pages.map_view import fates, keepings
from headcount.pages.names import SITE_TITLES, columns_of, known, measures
from headcount.pages.part import CardPart, ProbeHead, Score, page_parts
from headcount.pages.sentences import arrows, head_line, not_tested
from headcount.pages.worth import bracketed, effect_of, luck, ranked, scores_of, without
from headcount.results import (
    Analysis,
    Relative,
    TraitStrength,
    finding,
    kind_of_trait,
    related_heads,
    target_of,
)
from headcount.vocabulary import BORDERLINE, ColumnEntry

OTHER_TRAITS = 8
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
    found = [each for each in tested if each.is_beyond_chance]
    others = [each for each in tested if each not in found and each.strength > 0]
    order = sorted(found, key=_rank) + sorted(others, key=_rank)[:OTHER_TRAITS]
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


SHOWN_ROLES, SHOWN_TENDENCIES = 4, 2
"""Largest numbers of roles and of tendencies in the sentences of a card."""


MAX_OFFSET = 10
"""Largest offset with a bin of its own; larger ones share one bin on either side."""


@final
@dataclass(frozen=True)
class Share:
    """One bar, or a pair of bars if `norm` was measured."""

    label: str
    value: float | None
    text: str
    norm: float | None = None
    norm_text: str = ""


@final
@dataclass(frozen=True)
class Finding:
    """One role or tendency of a head, in plain words."""

    kind: str
    verdict: str
    text: str


@final
@dataclass(frozen=True)
class Card:
    """Everything the report shows of one head."""

    head: str
    title: str
    roles: tuple[str, ...]
    findings: tuple[Finding, ...]
    """What the head does: roles, then tendencies."""
    line: str
    profile: ProfileView | None
    """Strengths of the head's traits; None in runs from before there were profiles."""
    does: str
    """What the head does with needles and tasks, in a sentence; empty if it has no such skill."""
    skills: tuple[Score, ...]
    """Its scores by skills; none if they were not measured."""
    without: str
    """What happens to the model without the head, in a sentence; empty if not measured."""
    fate: str
    """Where the head is kept and where it is pruned; empty without a choice of heads."""
    worth: tuple[Score, ...]
    probe: ProbeHead | None
    """What the head adds to the attention probe; None without that probe."""
    offsets: tuple[float, ...]
    """Share of queries at each offset: further left, -10 ... 10, further right; none for images."""
    offsets_title: str
    sinks: tuple[Share, ...]
    patterns: tuple[Share, ...]
    rare: str
    random: tuple[str, ...]
    """Its numbers at random weights, in the order of the maps; empty without a null run."""
    related: tuple[Relative, ...]
    """Heads with the most similar profiles."""
    examples: tuple[ExampleView | ImageView | PlacesView, ...]
    known: str = ""
    """What a paper says of the head, and whether that was found, in a sentence."""


def cards(run: Analysis) -> tuple[Card, ...]:
    """One card per head, in the order of the table of heads."""
    null = {row.head: row.values for row in run.null_rows or ()}
    worth, fate, added = _worth(run), fates(run, keepings(run)), _added(run)
    columns = columns_of(run)
    related = related_heads(run.traits or {}, [row.head for row in run.rows])
    missing = {site: not_tested(run, site) for site in {row.site for row in run.rows}}
    return tuple(
        Card(
            head=row.head,
            title=f"{SITE_TITLES.get(row.site, row.site)}, layer {row.layer}, head {row.index}",
            roles=tuple(role.role for role in run.roles[row.head]),
            findings=(found := _findings(run, row.head)),
            line=head_line(
                row.values,
                any(each.kind == "first" for each in found),
                None if row.site == "decoder.self" else run.record.frame_ms,
            ),
            profile=_profile(run, row.head, missing[row.site]),
            does=_sentence(added[row.head].does),
            skills=added[row.head].scores,
            without=without(run, row),
            fate=fate[row.head],
            worth=worth[row.head],
            probe=added[row.head].probe,
            offsets=_offsets(run, row.head),
            offsets_title=_offsets_title(run, row.site),
            sinks=_sinks(columns, row.values),
            patterns=_patterns(row.values),
            rare=_rare(row.values),
            random=_at_random(columns, null.get(row.head)),
            related=related[row.head],
            examples=tuple(view_of(e, run.record.grid) for e in run.examples.get(row.head, ())),
        )
        for row in run.rows
    )


def _profile(run: Analysis, head: str, missing: str) -> ProfileView | None:
    if run.traits is None:
        return None
    unit, few = (run.record.inputs.unit, f"{run.record.inputs.unit}s"), run.record.few_texts
    if few is not None:
        unit = (f"segment of {few.words}", f"segments of {few.words}")
    about = few.words if few is not None else f"{unit[1]} of this kind"
    return profile_view(run.traits.get(head, ()), unit, missing, about)


def _findings(run: Analysis, head: str) -> tuple[Finding, ...]:
    """The roles of a head and its strongest tendencies; in old runs, the roles with evidence."""
    if run.traits is None:
        return tuple(Finding(role.role, "role", arrows(role.evidence)) for role in run.roles[head])
    found = findings(run.traits.get(head, ()), run.roles[head])
    roles = [each for each in found if each.verdict == "role"]
    tends = [each for each in found if each.verdict == "tendency"]
    return tuple(
        Finding(
            kind_of_trait(each).key,
            each.verdict,
            f"{finding(each)}{_expected(run, each)}{_doubt(run, each)}",
        )
        for each in roles[:SHOWN_ROLES] + tends[:SHOWN_TENDENCIES]
    )


def _expected(run: Analysis, trait: TraitStrength) -> str:
    """The share of a role to expect in new texts, where it is another than the measured one."""
    expected = run.expected.get(trait.key)
    if trait.verdict != "role" or expected is None:
        return ""
    measured = trait.score
    if kind_of_trait(trait).role.is_gain:
        is_relative = run.record.thresholds.syntactic_relative
        gain = expected * trait.chance if is_relative else expected
        measured, expected = trait.share, trait.chance + gain
    shown = numbers.percent(expected)
    if shown == numbers.percent(measured):
        return ""
    return f"; {shown} are expected in new {run.record.inputs.unit}s of this kind"


def _doubt(run: Analysis, trait: TraitStrength) -> str:
    """A note on a role whose interval does not clear its threshold; else nothing."""
    is_borderline = run.record.thresholds.certainty(vars(trait)) == BORDERLINE
    return "; borderline: its interval includes values below the threshold" if is_borderline else ""


def _worth(run: Analysis) -> dict[str, tuple[Score, ...]]:
    """The scores of every head, each with the head's rank."""
    scores: dict[str, list[Score]] = {row.head: [] for row in run.rows}
    words = known(run.stored_columns)
    for score in scores_of(run.rows, run.stored_columns):
        name, rows = words[score], ranked(run.rows, score)
        for place, row in enumerate(rows):
            effect = effect_of(row, score)
            text = f"{name.show(effect.delta)}{bracketed(effect)}{luck(effect)}"
            rank = numbers.rank(place, len(rows))
            scores[row.head].append(Score(name.label, name.about, text, rank))
    return {head: tuple(found) for head, found in scores.items()}


def _added(run: Analysis) -> dict[str, CardPart]:
    """What capabilities say of every head, together."""
    parts = [each.cards(run) for each in page_parts()]
    found = {}
    for row in run.rows:
        own = [each[row.head] for each in parts if row.head in each]
        found[row.head] = CardPart(
            does=[words for each in own for words in each.does],
            scores=tuple(score for each in own for score in each.scores),
            probe=next((each.probe for each in own if each.probe), None),
        )
    return found


def _sentence(does: Sequence[str]) -> str:
    """What a head does, as a sentence; empty if that is nothing."""
    return f"It {'; it '.join(does)}." if does else ""


def _offsets(run: Analysis, head: str) -> tuple[float, ...]:
    shares = (run.offset_shares or {}).get(head)
    return offset_bins(shares) if shares else ()


def _offsets_title(run: Analysis, site: str) -> str:
    """What offsets are counted in: tokens, or frames of sound."""
    frame_ms = None if site == "decoder.self" else run.record.frame_ms
    unit = "special tokens aside" if frame_ms is None else f"in frames of {frame_ms:g} ms"
    return f"Offset of the largest weight, {unit}"


def offset_bins(offsets: Mapping[int, float]) -> tuple[float, ...]:
    """Shares of the offsets: all below -10, each from -10 to 10, all above 10."""
    bins = [0.0] * (2 * MAX_OFFSET + 3)
    for offset, share in offsets.items():
        place = max(-MAX_OFFSET - 1, min(MAX_OFFSET + 1, offset)) + MAX_OFFSET + 1
        bins[place] += share
    return tuple(numbers.rounded(share, 3) or 0.0 for share in bins)


def _sinks(columns: Sequence[ColumnEntry], values: Mapping[str, float]) -> tuple[Share, ...]:
    found = [(m, values[m.key], values.get(m.norm, math.nan)) for m in columns if m.rests]
    return tuple(
        Share(m.rests, *_shown(m, weight), *_shown(m, norm))
        for m, weight, norm in found
        if not math.isnan(weight)
    )


def _patterns(values: Mapping[str, float]) -> tuple[Share, ...]:
    found = [(m, values[m.key]) for m in measures(values) if m.key.startswith("pattern_")]
    return tuple(Share(m.label, *_shown(m, value)) for m, value in found if not math.isnan(value))


def _shown(column: ColumnEntry, value: float) -> tuple[float | None, str]:
    """A number, and its text."""
    return numbers.rounded(value), column.show(value)


def _rare(values: Mapping[str, float]) -> str:
    if "rare_share" not in values:
        return ""
    share, two = values.get("rare_share", math.nan), values.get("rare2_share", math.nan)
    if math.isnan(share):
        return "Not measured: no sentence has a token outside the 500 most frequent ones."
    queries = numbers.of(values.get("rare_cases", math.nan), "query", "queries")
    return (
        f"Looks most at the sentence's rarest token in {numbers.percent(share)} of {queries}, and "
        f"at one of the two rarest in {numbers.percent(two)}."
    )


def _at_random(columns: Sequence[ColumnEntry], null: Mapping[str, float] | None) -> tuple[str, ...]:
    return tuple(
        "" if null is None else each.show(null.get(each.key, math.nan)) for each in columns
    )
