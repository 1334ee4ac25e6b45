"""Columns of the head table: one row each, with its name, meaning, format and source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from headcount import numbers

WORTH = "What it is worth"
"""The group of the scores; higher = more important."""


@final
@dataclass(frozen=True)
class ColumnEntry:
    """One measured number of every head."""

    key: str
    label: str
    group: str
    about: str
    """Meaning, in a phrase."""
    show: Callable[[float], str]
    """The number as text."""
    source: str = ""
    """Paper and section that define it, as docs/measures.md names them; empty if none does."""
    has_signs: bool = False
    """Whether values lie on both sides of zero."""
    rests: str = ""
    """The keys that heads may rest on, if it is a weight on such keys."""
    norm: str = ""
    """Column with the norm-weighted share on the same keys."""
    synonyms: str = ""
    """Other words that a reader might search for."""

    @property
    def words(self) -> str:
        """Everything that a search for the column can name, in lower case."""
        return " ".join((self.label, self.about, self.synonyms)).lower()


def _weight(key: str, label: str, about: str, source: str, rests: str = "", norm: str = ""):
    """A mean weight on some keys."""
    words = "sink" if rests else ""
    return ColumnEntry(
        key, label, "Mean weight on", about, numbers.percent, source, False, rests, norm, words
    )


def _norm(key: str, what: str):
    """The share of some keys in the sum of norms."""
    about = f"share of the sum of ‖A f(x)‖ that comes from {what}"
    label = f"norm share of {what}"
    return ColumnEntry(key, label, "Norm-weighted", about, numbers.percent, "N 2")


def _pattern(key: str, label: str, about: str):
    """The share of maps with a pattern."""
    return ColumnEntry(key, label, "Pattern of the map", about, numbers.percent, "K 4.1")


COLUMNS: Mapping[str, ColumnEntry] = {
    column.key: column
    for column in (
        ColumnEntry(
            "ablation_delta",
            "ablation effect",
            WORTH,
            "how much worse the model gets without the head",
            numbers.effect,
            has_signs=True,
        ),
        ColumnEntry(
            "ablation_low",
            "ablation effect, low",
            WORTH,
            "lower end of the 95 % interval of this head alone",
            numbers.effect,
            has_signs=True,
        ),
        ColumnEntry(
            "ablation_high",
            "ablation effect, high",
            WORTH,
            "upper end of the 95 % interval of this head alone",
            numbers.effect,
            has_signs=True,
        ),
        ColumnEntry(
            "ablation_p",
            "ablation p, corrected",
            WORTH,
            "p-value over examples, corrected for the number of heads",
            numbers.probability,
        ),
        ColumnEntry(
            "confidence",
            "confidence",
            "Sharpness",
            "mean over queries of the largest weight",
            numbers.weight,
            "V 4",
        ),
        ColumnEntry(
            "entropy",
            "entropy (nats)",
            "Sharpness",
            "mean entropy of a query's weights, natural log",
            numbers.weight,
            "C 3.3",
        ),
        ColumnEntry(
            "positional_offset",
            "most frequent offset",
            "Position",
            "key minus query, in tokens",
            numbers.signed,
            "V 5.1",
            has_signs=True,
        ),
        ColumnEntry(
            "positional_share",
            "share at that offset",
            "Position",
            "share of queries whose largest weight lies at the most frequent offset",
            numbers.percent,
            "V 5.1",
        ),
        _weight("attn_self", "weight on itself", "mean weight on the token itself", "C 3.1"),
        _weight(
            "attn_prev", "weight on the previous token", "mean weight on the token before", "C 3.1"
        ),
        _weight("attn_next", "weight on the next token", "mean weight on the token after", "C 3.1"),
        _weight(
            "attn_first",
            "weight on the first token",
            "mean weight on the first token",
            "C 3.2",
            "first token",
            "norm_first",
        ),
        _weight(
            "attn_none",
            "weight on the learned sink (no token)",
            "mean weight that goes to no token, which a learned sink takes",
            "[gpt-oss](https://arxiv.org/abs/2508.10925) 2",
            "learned sink (no token)",
        ),
        _weight(
            "attn_class",
            "weight on the class token",
            "mean weight on the class token",
            "C 3.2, N 2",
            "class token",
            "norm_class",
        ),
        _weight(
            "attn_sep",
            "weight on separators",
            "mean weight on separator tokens",
            "C 3.2",
            "separators",
            "norm_sep",
        ),
        _weight(
            "attn_punct",
            "weight on punctuation",
            "mean weight on punctuation",
            "C 3.2",
            "punctuation",
            "norm_punct",
        ),
        *(
            _weight(f"attn_{key}", f"weight on the {what}", f"mean weight of patches on {on}", by)
            for key, what, on, by in (
                ("left", "patch to the left", "it", "after C 3.1"),
                ("right", "patch to the right", "it", "after C 3.1"),
                ("above", "patch above", "it", "after C 3.1"),
                ("below", "patch below", "it", "after C 3.1"),
                ("row", "own row", "their row", "-"),
                ("column", "own column", "their column", "-"),
            )
        ),
        ColumnEntry(
            "attn_distance",
            "mean attention distance (patches)",
            "Reach",
            "mean distance between a patch and what it attends to, class token left out",
            numbers.weight,
            "D figure 7",
        ),
        ColumnEntry(
            "rare_share",
            "share at the rarest token",
            "Rare words",
            "share of queries whose largest weight is on the sentence's rarest token",
            numbers.percent,
            "V 5.3",
        ),
        ColumnEntry(
            "rare2_share",
            "share at the two rarest",
            "Rare words",
            "share of queries whose largest weight is on one of the two rarest tokens",
            numbers.percent,
            "V 5.3",
        ),
        ColumnEntry(
            "rare_cases",
            "queries counted for rare words",
            "Rare words",
            "queries of sentences that have a token outside the 500 most frequent",
            numbers.count,
            "V 5.3",
        ),
        ColumnEntry(
            "value_norm",
            "norm of the values",
            "Norm-weighted",
            "mean norm of the values, ‖f(x)‖",
            numbers.weight,
            "N 2",
        ),
        _norm("norm_first", "the first token"),
        _norm("norm_sep", "separators"),
        _norm("norm_punct", "punctuation"),
        _norm("norm_class", "the class token"),
        _pattern(
            "pattern_vertical", "vertical", "share of maps in which a few keys get all the weight"
        ),
        _pattern(
            "pattern_diagonal", "diagonal", "share of maps in which a fixed offset gets the weight"
        ),
        _pattern(
            "pattern_vertical_diagonal", "vertical and diagonal", "share of maps that are both"
        ),
        _pattern("pattern_block", "block", "share of maps whose weight stays inside segments"),
        _pattern("pattern_heterogeneous", "heterogeneous", "share of maps that are none of these"),
    )
}
"""Every number column of `heads.parquet` but the scores, in the order of the report."""
