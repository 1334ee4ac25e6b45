"""The report's names for sites, columns, directions and roles, as literal tables.

The colours of roles are those of Okabe and Ito (Color Universal Design, 2008), distinct for any
colour vision. Every cell also carries the abbreviation, so colour is never the only cue.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import final

from headcount.importance import SCORES
from headcount.reports import numbers

SITE_TITLES: Mapping[str, str] = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Decoder attention to the encoder",
    "vision.self": "Vision self-attention",
}
"""Titles of the grids."""


def site_titles(sites: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Sites with their titles, for legends."""
    return tuple((site, SITE_TITLES.get(site, site)) for site in sites)


DIRECTIONS: Mapping[str, tuple[str, str]] = {
    "dependent->head": ("dependent → head", "the dependent looks most at its head"),
    "head->dependent": ("head → dependent", "the head looks most at this dependent"),
    "head<-dependent": ("head ← dependent", "of all words, the head looks most at this dependent"),
}
"""Short form and meaning; the third reads the dependent's column (Clark 2019)."""


@final
@dataclass(frozen=True)
class MeasureName:
    """One measured number as the report shows it."""

    key: str
    label: str
    group: str
    about: str
    show: Callable[[float], str]
    """The number as text."""


WORTH = "What it is worth"
"""The group of the scores; higher = more important."""

SIGNED = frozenset(
    {"positional_offset", "ablation_delta", "ablation_low", "ablation_high", "relevance"}
)
"""Measures with values on both sides of zero."""


def _table(group: str, show: Callable[[float], str], *rows: tuple[str, str, str]):
    return [MeasureName(key, label, group, about, show) for key, label, about in rows]


MEASURES: Mapping[str, MeasureName] = {
    measure.key: measure
    for measure in [
        *_table(
            WORTH,
            numbers.effect,
            ("ablation_delta", "ablation effect", "how much worse the model gets without the head"),
            (
                "ablation_low",
                "ablation effect, low",
                "lower end of the 95 % interval of this head alone",
            ),
            (
                "ablation_high",
                "ablation effect, high",
                "upper end of the 95 % interval of this head alone",
            ),
        ),
        *_table(
            WORTH,
            numbers.probability,
            (
                "ablation_p",
                "ablation p, corrected",
                "p-value over examples, corrected for the number of heads",
            ),
        ),
        *(
            MeasureName(
                each.column,
                each.label,
                WORTH,
                each.says,
                numbers.significant if each.is_tiny else numbers.effect,
            )
            for each in SCORES.values()
        ),
        *_table(
            "Sharpness",
            numbers.weight,
            ("confidence", "confidence", "mean over queries of the largest weight"),
            ("entropy", "entropy (nats)", "mean entropy of a query's weights, natural log"),
        ),
        *_table(
            "Position",
            numbers.signed,
            ("positional_offset", "most frequent offset", "key minus query, in tokens"),
        ),
        *_table(
            "Position",
            numbers.percent,
            (
                "positional_share",
                "share at that offset",
                "share of queries whose largest weight lies at the most frequent offset",
            ),
        ),
        *_table(
            "Mean weight on",
            numbers.percent,
            ("attn_self", "weight on itself", "mean weight on the token itself"),
            ("attn_prev", "weight on the previous token", "mean weight on the token before"),
            ("attn_next", "weight on the next token", "mean weight on the token after"),
            ("attn_first", "weight on the first token", "mean weight on the first token"),
            (
                "attn_none",
                "weight on the learned sink (no token)",
                "mean weight that goes to no token, which a learned sink takes",
            ),
            ("attn_sep", "weight on separators", "mean weight on separator tokens"),
            ("attn_punct", "weight on punctuation", "mean weight on punctuation"),
            ("attn_class", "weight on the class token", "mean weight on the class token"),
            ("attn_left", "weight on the patch to the left", "mean weight of patches on it"),
            ("attn_right", "weight on the patch to the right", "mean weight of patches on it"),
            ("attn_above", "weight on the patch above", "mean weight of patches on it"),
            ("attn_below", "weight on the patch below", "mean weight of patches on it"),
            ("attn_row", "weight on the own row", "mean weight of patches on their row"),
            ("attn_column", "weight on the own column", "mean weight of patches on their column"),
        ),
        *_table(
            "Reach",
            numbers.weight,
            (
                "attn_distance",
                "mean attention distance (patches)",
                "mean distance between a patch and what it attends to, class token left out",
            ),
        ),
        *_table(
            "Rare words",
            numbers.percent,
            (
                "rare_share",
                "share at the rarest token",
                "share of queries whose largest weight is on the sentence's rarest token",
            ),
            (
                "rare2_share",
                "share at the two rarest",
                "share of queries whose largest weight is on one of the two rarest tokens",
            ),
        ),
        *_table(
            "Rare words",
            numbers.count,
            (
                "rare_cases",
                "queries counted for rare words",
                "queries of sentences that have a token outside the 500 most frequent",
            ),
        ),
        *_table(
            "Norm-weighted",
            numbers.weight,
            ("value_norm", "norm of the values", "mean norm of the values, ‖f(x)‖"),
        ),
        *_table(
            "Norm-weighted",
            numbers.percent,
            (
                "norm_first",
                "norm share of the first token",
                "share of the sum of ‖A f(x)‖ that comes from the first token",
            ),
            (
                "norm_sep",
                "norm share of separators",
                "share of the sum of ‖A f(x)‖ that comes from separators",
            ),
            (
                "norm_punct",
                "norm share of punctuation",
                "share of the sum of ‖A f(x)‖ that comes from punctuation",
            ),
            (
                "norm_class",
                "norm share of the class token",
                "share of the sum of ‖A f(x)‖ that comes from the class token",
            ),
        ),
        *_table(
            "Pattern of the map",
            numbers.percent,
            (
                "pattern_vertical",
                "vertical",
                "share of maps in which a few keys get all the weight",
            ),
            (
                "pattern_diagonal",
                "diagonal",
                "share of maps in which a fixed offset gets the weight",
            ),
            ("pattern_vertical_diagonal", "vertical and diagonal", "share of maps that are both"),
            ("pattern_block", "block", "share of maps whose weight stays inside segments"),
            ("pattern_heterogeneous", "heterogeneous", "share of maps that are none of these"),
        ),
    ]
}
"""Every number column of `heads.parquet`, in the order of the report."""


def measures(columns: Iterable[str]) -> list[MeasureName]:
    """The measures among the columns of a head table; an unknown column is labelled by its name."""
    named = {key: measure for key, measure in MEASURES.items() if key in set(columns)}
    for key in columns:
        if key not in named:
            named[key] = MeasureName(key, key.replace("_", " "), "Other", "", numbers.weight)
    return list(named.values())


@final
@dataclass(frozen=True)
class RoleName:
    """One role as the report shows it."""

    name: str
    abbreviation: str
    """Two letters for the cells of the grid."""
    colour: str
    ink: str
    """Text colour readable on `colour`."""
    one: str
    """Predicate of the headline for one head: "1 is positional"."""
    many: str
    """Predicate for several: "9 are positional"."""
    about: str
    """Meaning of the role, as the end of a sentence about a head."""


_DARK, _LIGHT = "#16191d", "#ffffff"

KNOWN: Mapping[str, RoleName] = {
    role.name: role
    for role in (
        RoleName(
            "positional",
            "Po",
            "#0072B2",
            _LIGHT,
            "is positional",
            "are positional",
            "its largest weight falls on one fixed offset",
        ),
        RoleName(
            "line",
            "Li",
            "#E69F00",  # that of syntactic, which images can't have
            _DARK,
            "stays in its row or column",
            "stay in their row or column",
            "its weight stays in the patch's own row or column",
        ),
        RoleName(
            "local",
            "Lo",
            "#56B4E9",  # that of block
            _DARK,
            "stays near",
            "stay near",
            "its weight stays close to the patch",
        ),
        RoleName(
            "spot",
            "Sp",
            "#CC79A7",  # that of rare
            _DARK,
            "attends to one place",
            "attend to one place",
            "its weight goes to one and the same patch of every image",
        ),
        RoleName(
            "syntactic",
            "Sy",
            "#E69F00",
            _DARK,
            "is syntactic",
            "are syntactic",
            "it finds the other word of a dependency more often than the best fixed offset",
        ),
        RoleName(
            "rare",
            "Ra",
            "#CC79A7",
            _DARK,
            "points at rare words",
            "point at rare words",
            "it looks most at the rarest token of the sentence",
        ),
        RoleName(
            "sink",
            "Si",
            "#009E73",
            _DARK,
            "attends to a sink",
            "attend to a sink",
            "it puts its weight on the first token or a separator, where little is read",
        ),
        RoleName(
            "punctuation",
            "Pu",
            "#F0E442",
            _DARK,
            "attends to punctuation",
            "attend to punctuation",
            "it puts its weight on punctuation",
        ),
        RoleName(
            "block",
            "Bl",
            "#56B4E9",
            _DARK,
            "attends in blocks",
            "attend in blocks",
            "its weight stays inside segments",
        ),
        RoleName(
            "induction",
            "In",
            "#D55E00",
            _DARK,
            "is an induction head",
            "are induction heads",
            "it looks at the token after an earlier copy of its own",
        ),
        RoleName(
            "duplicate",
            "Du",
            "#7A5230",
            _LIGHT,
            "is a duplicate-token head",
            "are duplicate-token heads",
            "it looks at an earlier copy of its token",
        ),
    )
}
"""Every role this version of the report knows, in the order of the report."""

_FALLBACKS = (("#5F4B8B", _LIGHT), ("#3B4148", _LIGHT), ("#A6A6A6", _DARK), ("#A8244F", _LIGHT))


def role_names(names: Iterable[str]) -> dict[str, RoleName]:
    """The names that occur: known roles first and in their order, then the others as they occur.

    >>> list(role_names(["novel", "sink", "positional"]))
    ['positional', 'sink', 'novel']
    """
    occurring = list(dict.fromkeys(names))
    result = {name: role for name, role in KNOWN.items() if name in occurring}
    taken = {role.abbreviation for role in KNOWN.values()}
    for name in occurring:
        if name not in result:
            abbreviation = _abbreviation(name, taken)
            colour, ink = _FALLBACKS[(len(taken) - len(KNOWN)) % len(_FALLBACKS)]
            taken.add(abbreviation)
            predicate = f"“{name}”"
            result[name] = RoleName(
                name,
                abbreviation,
                colour,
                ink,
                f"has the role {predicate}",
                f"have the role {predicate}",
                "it has this role, which this report does not know",
            )
    return result


def _abbreviation(name: str, taken: set[str]) -> str:
    """Two letters of the name that no other role has; a number if the letters run out."""
    letters = [letter for letter in name if letter.isalnum()] or ["?"]
    pairs = [letters[0].upper() + letter.lower() for letter in letters[1:]]
    numbered = [f"{letters[0].upper()}{number}" for number in range(100)]
    return next(pair for pair in pairs + numbered if pair not in taken)
