"""The report's names for columns, sites, directions and relations, as literal tables."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import final

from headcount.reports import numbers

SITE_TITLES: Mapping[str, str] = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Decoder attention to the encoder",
}
"""Titles of the grids."""


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
            ("ablation_low", "ablation effect, low", "lower end of the 95 % interval"),
            ("ablation_high", "ablation effect, high", "upper end of the 95 % interval"),
        ),
        *_table(
            WORTH,
            numbers.probability,
            (
                "ablation_p",
                "ablation p",
                "p-value over examples, corrected for the number of heads",
            ),
        ),
        *_table(
            WORTH,
            numbers.effect,
            ("gradient", "gradient", "how much the loss would change if its gate were lowered"),
            (
                "relevance",
                "relevance",
                "its share of what the heads of its layer contribute to the output",
            ),
            ("norm_score", "output norm", "mean norm of its output; 1 is its layer's mean"),
            ("sink_score", "sink score", "minus the mean weight on the first token"),
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
            ("attn_sep", "weight on separators", "mean weight on separator tokens"),
            ("attn_punct", "weight on punctuation", "mean weight on punctuation"),
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


def offset_words(offset: numbers.Real) -> str:
    """The position of an offset (key minus query), in words.

    >>> offset_words(-1), offset_words(3)
    ('on the previous token', '3 tokens to the right')
    """
    if math.isnan(offset):
        return "nowhere"
    close = {-1: "on the previous token", 0: "on the token itself", 1: "on the next token"}
    side = "left" if offset < 0 else "right"
    return close.get(int(offset), f"{abs(int(offset))} tokens to the {side}")


RELATIONS: Mapping[str, str] = {
    "nsubj": "subject of a verb",
    "nsubj:pass": "passive subject",
    "obj": "direct object",
    "iobj": "indirect object",
    "csubj": "clausal subject",
    "ccomp": "clausal complement",
    "xcomp": "open clausal complement",
    "obl": "oblique nominal",
    "obl:npmod": "noun as adverbial",
    "obl:tmod": "time expression",
    "obl:agent": "agent of a passive",
    "vocative": "addressee",
    "expl": "expletive",
    "dislocated": "dislocated element",
    "advcl": "adverbial clause",
    "advmod": "adverb",
    "discourse": "discourse word",
    "aux": "auxiliary",
    "aux:pass": "passive auxiliary",
    "cop": "copula",
    "mark": "clause marker",
    "nmod": "nominal modifier",
    "nmod:poss": "possessor",
    "appos": "apposition",
    "nummod": "number",
    "acl": "clause on a noun",
    "acl:relcl": "relative clause",
    "amod": "adjective",
    "det": "determiner",
    "case": "preposition or case marker",
    "conj": "conjunct",
    "cc": "conjunction",
    "cc:preconj": "first half of a conjunction",
    "fixed": "fixed expression",
    "flat": "name part",
    "compound": "compound",
    "compound:prt": "verb particle",
    "list": "list item",
    "parataxis": "parataxis",
    "orphan": "orphan of an ellipsis",
    "goeswith": "split word",
    "reparandum": "repair",
    "punct": "punctuation",
    "dep": "unspecified",
    "all": "every word",
}
"""What a Universal Dependencies relation says about the dependent, in a few words."""


def relation_words(relation: str) -> str:
    """The relation in plain words; an unknown subtype falls back to its main type; else empty."""
    return RELATIONS.get(relation, RELATIONS.get(relation.partition(":")[0], ""))
