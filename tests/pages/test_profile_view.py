"""The profile on a head's card: what is shown, in which order, and what is said of the rest."""

import math
from dataclasses import replace

from headcount.pages.card_view import OTHER_TRAITS, profile_view
from headcount.results import TraitStrength

TRAIT = TraitStrength(
    head="enc.0.0",
    trait="first",
    role="sink",
    share=0.62,
    null=0.05,
    attainable=1.0,
    strength=0.6,
    low=0.55,
    high=0.65,
    cases=1234,
    units=77,
    score=0.62,
    chance=0.04,
    position_null=0.05,
    first_gain=0.5,
    paper_share=0.58,
    p=1e-9,
    p_holm=1e-7,
    verdict="role",
)


def test_roles_come_first_then_tendencies_then_what_is_strongest():
    traits = [
        replace(TRAIT, trait="rare", verdict="none", strength=0.04, p_holm=math.nan),
        replace(TRAIT, trait="self", verdict="tendency", strength=0.9),
        TRAIT,
        replace(TRAIT, trait="next", verdict="none", strength=-0.1),
        replace(TRAIT, trait="segment", verdict="untested", strength=math.nan),
    ]
    view = profile_view(traits, missing="Not tested: own segment (no pairs).")
    assert [line.label for line in view.lines] == [
        "the first token",
        "the token itself",
        "the two rarest tokens",
    ]
    assert [line.verdict for line in view.lines] == ["role", "tendency", "none"]
    assert view.lines[0].about.replace("\u202f", " ") == (
        "62 % of 1,234 cases in 77 texts; chance or position alone 5.0 %, attainable 100 %"
    )
    assert (view.lines[0].strength, view.lines[0].interval) == ("0.60", "0.55 to 0.65")
    assert view.lines[2].p == ""
    assert view.note == (
        "1 weaker trait is not shown. Not tested: own segment (no pairs). "
        "Intervals are about texts of this kind."
    )
    few = profile_view(traits, about="these 3 texts")
    assert few.note.endswith("Intervals are about these 3 texts.")


def test_p_is_the_corrected_one():
    view = profile_view([replace(TRAIT, p=0.001, p_holm=0.034)])
    assert view.lines[0].p == "0.034"


def test_a_long_profile_is_cut_but_never_its_findings():
    others = [replace(TRAIT, trait=f"r{n}", verdict="none", strength=0.01 * n) for n in range(12)]
    found = [replace(TRAIT, trait=f"t{n}", verdict="tendency") for n in range(OTHER_TRAITS + 3)]
    view = profile_view([*others, *found])
    assert len(view.lines) == len(found) + OTHER_TRAITS
    assert view.note.startswith("4 weaker traits are not shown. ")


def test_relations_are_named_with_their_direction_and_meaning():
    names = {"trait": "nsubj", "relation": "nsubj:pass", "direction": "dependent->head"}
    (line,) = profile_view([replace(TRAIT, role="syntactic", **names)]).lines
    assert line.label == "the verb of a passive subject (nsubj:pass)"
    (line,) = profile_view([replace(TRAIT, trait="offset", offset=-3)]).lines
    assert line.label == "the token 3 places to the left"


def test_what_is_below_its_null_is_not_a_number():
    (line,) = profile_view([replace(TRAIT, strength=0.1, low=-27.3, high=0.2)]).lines
    assert line.interval == "below to 0.20"
