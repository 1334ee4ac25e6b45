"""Columns of the head table: one row each, with its name, meaning, format and source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

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

    @property
    def words(self) -> str:
        """Everything that a search for the column can name, in lower case."""
        return f"{self.label} {self.about} {'sink' if self.rests else ''}".lower()


def _table(
    group: str, show: Callable[[float], str], *rows: tuple[str, ...], **more: Any
) -> list[ColumnEntry]:
    """Columns with one format, each of a key, a label, a meaning and its source."""
    return [
        ColumnEntry(key, label, group, about, show, "".join(source), **more)
        for key, label, about, *source in rows
    ]


def _weight(key: str, what: str, source: str, about: str = "", **more: str) -> ColumnEntry:
    """A mean weight on some keys."""
    label, about = f"weight on {what}", about or f"mean weight on {what}"
    return ColumnEntry(
        f"attn_{key}", label, "Mean weight on", about, numbers.percent, source, False, **more
    )


_PEAK = "share of queries whose largest weight is on"
_NORM = "share of the sum of ‖A f(x)‖ that comes from"

COLUMNS: Mapping[str, ColumnEntry] = {
    column.key: column
    for column in (
        *_table(
            WORTH,
            numbers.effect,
            ("ablation_delta", "ablation effect", "how much worse the model gets without the head"),
            *(
                (
                    f"ablation_{end}",
                    f"ablation effect, {end}",
                    f"{side} end of the 95 % interval of this head alone",
                )
                for end, side in (("low", "lower"), ("high", "upper"))
            ),
            has_signs=True,
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
        *_table(
            "Sharpness",
            numbers.weight,
            ("confidence", "confidence", "mean over queries of the largest weight", "V 4"),
            (
                "entropy",
                "entropy (nats)",
                "mean entropy of a query's weights, natural log",
                "C 3.3",
            ),
        ),
        *_table(
            "Position",
            numbers.signed,
            ("positional_offset", "most frequent offset", "key minus query, in tokens", "V 5.1"),
            has_signs=True,
        ),
        *_table(
            "Position",
            numbers.percent,
            (
                "positional_share",
                "share at that offset",
                "share of queries whose largest weight lies at the most frequent offset",
                "V 5.1",
            ),
        ),
        _weight("self", "itself", "C 3.1", "mean weight on the token itself"),
        _weight("prev", "the previous token", "C 3.1", "mean weight on the token before"),
        _weight("next", "the next token", "C 3.1", "mean weight on the token after"),
        _weight("first", "the first token", "C 3.2", rests="first token", norm="norm_first"),
        _weight(
            "none",
            "the learned sink (no token)",
            "[gpt-oss](https://arxiv.org/abs/2508.10925) 2",
            "mean weight that goes to no token, which a learned sink takes",
            rests="learned sink (no token)",
        ),
        _weight("class", "the class token", "C 3.2", rests="class token", norm="norm_class"),
        _weight(
            "sep",
            "separators",
            "C 3.2",
            "mean weight on separator tokens",
            rests="separators",
            norm="norm_sep",
        ),
        _weight("punct", "punctuation", "C 3.2", rests="punctuation", norm="norm_punct"),
        *(
            _weight(key, f"the patch {where}", "after C 3.1", "mean weight of patches on it")
            for key, where in (
                ("left", "to the left"),
                ("right", "to the right"),
                ("above", "above"),
                ("below", "below"),
            )
        ),
        _weight("row", "the own row", "-", "mean weight of patches on their row"),
        _weight("column", "the own column", "-", "mean weight of patches on their column"),
        *_table(
            "Reach",
            numbers.weight,
            (
                "attn_distance",
                "mean attention distance (patches)",
                "mean distance between a patch and what it attends to, class token left out",
                "D figure 7",
            ),
        ),
        *_table(
            "Rare words",
            numbers.percent,
            *(
                (key, f"share at {what}", f"{_PEAK} {what_all}", "V 5.3")
                for key, what, what_all in (
                    ("rare_share", "the rarest token", "the sentence's rarest token"),
                    ("rare2_share", "the two rarest", "one of the two rarest tokens"),
                )
            ),
        ),
        *_table(
            "Rare words",
            numbers.count,
            (
                "rare_cases",
                "queries counted for rare words",
                "queries of sentences that have a token outside the 500 most frequent",
                "V 5.3",
            ),
        ),
        *_table(
            "Norm-weighted",
            numbers.weight,
            ("value_norm", "norm of the values", "mean norm of the values, ‖f(x)‖", "N 2"),
        ),
        *_table(
            "Norm-weighted",
            numbers.percent,
            *(
                (f"norm_{key}", f"norm share of {what}", f"{_NORM} {what}", "N 2")
                for key, what in (
                    ("first", "the first token"),
                    ("sep", "separators"),
                    ("punct", "punctuation"),
                    ("class", "the class token"),
                )
            ),
        ),
        *_table(
            "Pattern of the map",
            numbers.percent,
            *(
                (f"pattern_{key}", key.replace("_", " and "), f"share of maps {what}", "K 4.1")
                for key, what in (
                    ("vertical", "in which a few keys get all the weight"),
                    ("diagonal", "in which a fixed offset gets the weight"),
                    ("vertical_diagonal", "that are both"),
                    ("block", "whose weight stays inside segments"),
                    ("heterogeneous", "that are none of these"),
                )
            ),
        ),
    )
}
"""Every number column of `heads.parquet` but the scores, in the order of the report."""
