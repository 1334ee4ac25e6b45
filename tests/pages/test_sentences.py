"""The sentences that a reader sees first, and numbers as text."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from headcount import numbers
from headcount.pages.kinds import Leading, leading
from headcount.pages.opening import leaders
from headcount.pages.sentences import by_chance, head_line, headline, measured, shape_text
from headcount.results import Analysis, Counts, HeadRow, RunRecord, kind_of_trait
from headcount.vocabulary import TRAITS, roles_named
from tests.pages.changed import heads_table, traits_frame
from tests.pages.test_profile_view import TRAIT

COUNTS = Counts(sentences=1, tokens=3)
SIGNED = "headcount:0.1.0|model:bert"


def _headline(*verdicts: tuple[str, str] | None) -> str:
    """The headline of heads that are led by a trait with a verdict, or by nothing."""
    return headline([*leading(_run(*verdicts)).values()])


def _leaders(*verdicts: tuple[str, str] | None) -> str:
    """The same heads by name."""
    run = _run(*verdicts)
    return leaders(run, leading(run))


def _run(*verdicts: tuple[str, str] | None) -> Analysis:
    profiles = {
        f"enc.0.{number}": ()
        if each is None
        else (
            replace(
                TRAIT,
                **{"trait": each[0], "role": TRAITS[each[0]].role.name, "verdict": each[1]},
                first_gain=0.9 - number / 10,
            ),
        )
        for number, each in enumerate(verdicts)
    }
    heads = tuple(HeadRow(head, "encoder.self", 0, int(head[6:]), (), {}) for head in profiles)
    record = RunRecord(
        signature=SIGNED, model="tiny", corpora=(), counts=COUNTS, sites={}, roles={}
    )
    traits = traits_frame(replace(each, head=head) for head in profiles for each in profiles[head])
    return Analysis(record, heads_table(heads), pd.DataFrame(), traits)


def leads(trait: str, certainty: str) -> Leading:
    """A head that is led by a role."""
    names = roles_named(["sink", "positional"])
    one = replace(TRAIT, trait=trait, role="sink" if trait == "first" else "positional")
    return Leading(kind_of_trait(one, names), "role", 1.0, "", "", 0.0, certainty=certainty)


FIRST, BEFORE = ("first", "role"), ("previous", "tendency")


def test_headline_counts_roles_tendencies_and_kinds():
    assert _headline(FIRST, FIRST, BEFORE, None) == (
        "2 of 4 heads have a role, 1 a tendency and 1 neither. "
        "1 looks at the previous token and 2 look at the first token."
    )
    assert _headline(FIRST, FIRST, BEFORE, BEFORE, ("rare", "role"), ("self", "role")) == (
        "4 of 6 heads have a role and 2 a tendency. 2 look at the previous token, "
        "1 looks at the token itself, 1 looks at rare words and 2 look at the first token."
    )


def test_headline_names_the_most_telling_kinds_first_and_a_sink_last():
    """Syntax and induction come before kinds of more heads; the rest is said to be left out."""
    kinds = ("next", "self", "previous", "previous", "induction", "separator", "first", "first")
    assert _headline(*((kind, "role") for kind in kinds)) == (
        "All 8 heads have a role. Counted by main role or tendency, 1 looks at the token after an "
        "earlier copy, 2 look at the previous token, 1 looks at the next token and 2 look at the "
        "first token."
    )


def test_headline_counts_borderline_roles():
    """Heads whose main role has an interval that reaches below the threshold."""
    sink, before = leads("first", "borderline"), leads("previous", "clear")
    assert headline([sink, sink, replace(sink, certainty="clear"), before]) == (
        "All 4 heads have a role (2 borderline). "
        "1 looks at the previous token and 3 look at the first token (2 borderline)."
    )


def test_headline_without_roles_and_without_anything():
    assert _headline(BEFORE, None) == (
        "None of the 2 heads has a role, 1 has a tendency and 1 neither. "
        "1 looks at the previous token."
    )
    assert _headline(FIRST) == "The only head has a role. 1 looks at the first token."
    assert _headline(None, None) == "None of the 2 heads shows a role or tendency."
    assert _headline(None) == "The only head shows no role or tendency."


def test_unknown_roles_get_letters_and_colours_of_their_own():
    names = roles_named(["posterior", "possessive", "sink", "x"])
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


@pytest.mark.parametrize(
    ("sites", "text"),
    [
        ({"encoder.self": (4, 4)}, "bert, 2 layers"),
        ({"decoder.self": (4,)}, "bert, 1 layer"),
        (
            {"encoder.self": (4,), "decoder.self": (4, 2), "decoder.cross": (4, 2)},
            "bert, 1 encoder and 2 decoder layers",
        ),
    ],
)
def test_the_shape_of_a_model_counts_its_layers(sites: dict[str, tuple[int, ...]], text: str):
    record = RunRecord(
        signature="", model="m", model_type="bert", corpora=(), counts=COUNTS, sites=sites, roles={}
    )
    assert shape_text(record) == text
    assert shape_text(replace(record, model_type="unknown")) == text.removeprefix("bert, ")


def test_head_line_leaves_out_what_was_not_measured():
    values = {"positional_share": math.nan, "positional_offset": math.nan, "confidence": 0.5}
    assert head_line(values) == (
        "Its largest weight on a token that is not special is 0.50 on average."
    )
    full = {"positional_share": 0.97, "positional_offset": -1.0, "confidence": 0.85, "entropy": 0.0}
    assert head_line(full) == (
        "Its largest weight on a token that is not special is 0.85 on average. "
        "That weight falls most often on the previous token (97\u202f% of queries). "
        "Its entropy equals that of 1.0 equal weights."
    )


def test_head_line_opens_with_the_first_token_and_claims_no_offset_that_is_rare():
    values = {
        "attn_first": 0.955,
        "confidence": 0.96,
        "positional_share": 0.009,
        "positional_offset": -2.0,
    }
    assert head_line(values).replace("\u202f", " ") == (
        "It gives 96 % of its attention to the first token. "
        "Its largest weight on a token that is not special is 0.96 on average. "
        "That weight falls at no fixed offset (the most frequent, 2 tokens to the left: 0.9 %)."
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


def test_the_clearest_heads_of_two_kinds_are_named_before_heads_are_counted():
    kinds = ("first", "first", "previous", "previous", "induction", "first", "first")
    assert _leaders(*((kind, "role") for kind in kinds), None) == (
        "enc.0.4 looks at the token after an earlier copy; enc.0.2 and enc.0.3 look at the "
        "previous token. 7 of 8 heads have a role; 4 of them look at the first token."
    )
    assert _leaders(("first", "role"), ("previous", "tendency"), None) == (
        "enc.0.0 looks at the first token. 1 of 3 heads has a role."
    )


def test_heads_with_a_tendency_are_named_if_none_has_a_role():
    assert _leaders(BEFORE, BEFORE, ("self", "tendency"), None) == (
        "enc.0.0 and enc.0.1 tend to look at the previous token; enc.0.2 tends to look at the "
        "token itself. None of the 4 heads has a role."
    )
    assert _leaders(None, None) == "None of the 2 heads shows a role or tendency."
