"""The sentences that a reader sees first, and numbers as text."""

import math

import pytest

from headcount.reports import numbers
from headcount.reports.names import role_names
from headcount.reports.sentences import by_chance, head_line, headline, measured, several
from headcount.results import Counts, RunRecord


def _headline(*heads: tuple[str, ...]) -> str:
    return headline(heads, role_names(role for head in heads for role in head))


def test_headline_counts_every_role_of_every_head():
    heads = [("positional", "sink"), ("syntactic",), ("syntactic",), ("sink",), ("rare",), ()]
    assert _headline(*heads) == (
        "Of 6 heads, 1 is positional, 2 syntactic, 1 points at rare words and 2 attend to a sink; "
        "1 has no role."
    )
    assert several(heads) == "1 head has more than one role and counts once for each."


def test_headline_without_roles_and_with_roles_everywhere():
    assert _headline((), ()) == "None of the 2 heads has a role."
    assert (
        _headline(("sink",), ("sink",)) == "Of 2 heads, 2 attend to a sink; every head has a role."
    )
    assert several([("sink",)]) == ""


def test_headline_takes_unknown_roles():
    assert "1 has the role “copying”" in _headline(("copying",), ())


def test_unknown_roles_get_letters_and_colours_of_their_own():
    names = role_names(["posterior", "possessive", "sink", "x"])
    assert len({role.abbreviation for role in names.values()}) == 4
    assert "Po" not in {names["posterior"].abbreviation, names["possessive"].abbreviation}
    assert len({role.colour for role in names.values()}) == 4


def test_by_chance():
    assert by_chance([]) == ""
    assert by_chance([(), ()]) == "With random weights, none of the 2 heads would get a role."
    assert by_chance([("sink",), ()]) == "With random weights, 1 of the 2 heads would get a role."


def test_measured_leaves_out_what_was_not_counted():
    record = RunRecord(
        signature="headcount:0.1",
        model="tiny",
        corpora=("/data/a.txt", "b.txt"),
        counts=Counts(sentences=1, tokens=3120),
        sites={},
        roles={},
    )
    assert measured(record) == "1 sentence, 3,120 tokens of a.txt and b.txt"


def test_head_line_leaves_out_what_was_not_measured():
    values = {"positional_share": math.nan, "positional_offset": math.nan, "confidence": 0.5}
    assert head_line(values) == "That weight is 0.50 on average."
    full = {"positional_share": 0.97, "positional_offset": -1.0, "confidence": 0.85, "entropy": 0.0}
    assert head_line(full) == (
        "Special tokens aside, its largest weight falls most often on the previous token "
        "(97\u202f% of queries). "
        "That weight is 0.85 on average. Its entropy equals that of 1.0 equal weights."
    )


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0"), (0.0994, "9.9"), (0.0996, "10"), (0.12, "12"), (1.0, "100")],
)
def test_percent(share: float, text: str):
    assert numbers.percent(share) == f"{text}\u202f%"


def test_not_a_number_is_a_dash_and_null():
    shown = [numbers.percent, numbers.points, numbers.weight, numbers.signed, numbers.count]
    assert {show(math.nan) for show in shown} == {"–"}
    assert numbers.rounded(math.nan) is None
