"""The card of a head: its texts are its numbers in the tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount import numbers
from headcount.pages.attention_view import example_view
from headcount.pages.card_view import Card, cards
from headcount.pages.map_view import maps
from headcount.results import Analysis, Example, Role
from tests.pages.changed import changed
from tests.pages.run_folder import shared_run
from tests.pages.test_profile_view import TRAIT

NULL = 0.123
"""A number that only the run with random weights has."""


@pytest.fixture(scope="module")
def run(plain: Path) -> Analysis:
    run = shared_run(plain)
    assert run.null_rows is not None
    null = [replace(row, values={**row.values, "confidence": NULL}) for row in run.null_rows]
    return changed(run, null_rows=tuple(null))


@pytest.fixture(scope="module")
def card(run: Analysis) -> Card:
    return cards(run)[7]


def test_weights_stand_beside_norms(run: Analysis, card: Card):
    values = run.rows[7].values
    assert [(share.label, share.text, share.norm_text) for share in card.sinks] == [
        (label, numbers.percent(values[f"attn_{key}"]), numbers.percent(values[f"norm_{key}"]))
        for label, key in (
            ("first token", "first"),
            ("separators", "sep"),
            ("punctuation", "punct"),
        )
    ]


def test_rare_words(run: Analysis, card: Card):
    one, two = (numbers.percent(run.rows[7].values[f"rare{n}_share"]) for n in ("", "2"))
    assert one != two and card.rare == (
        f"Looks most at the sentence's rarest token in {one} of 18,231 queries, and at one of the "
        f"two rarest in {two}."
    )


def test_every_number_stands_beside_the_one_at_random_weights(run: Analysis, card: Card):
    shown = maps(run)
    place = [each.key for each in shown].index("confidence")
    assert (
        shown[place].texts[7]
        == numbers.weight(run.rows[7].values["confidence"])
        != card.random[place]
    )
    assert card.random[place] == numbers.weight(NULL)


def test_roles_stand_before_tendencies(profiled: Path):
    run = shared_run(profiled)
    tendency = replace(TRAIT, trait="self", role="positional", strength=0.9, verdict="tendency")
    head = run.rows[0].head
    roles = {**run.roles, head: (Role("sink"),)}
    one = changed(run, traits={head: (tendency, TRAIT)}, roles=roles)
    found = cards(one)[0].findings
    assert [(each.kind, each.verdict) for each in found] == [
        ("first", "role"),
        ("self", "tendency"),
    ]


def test_the_share_of_the_first_token_is_told_from_that_of_its_finding(profiled: Path):
    run = shared_run(profiled)
    row = replace(run.rows[0], values={**run.rows[0].values, "attn_first": 0.88})
    for traits, says in [((TRAIT,), True), ((replace(TRAIT, trait="separator"),), False)]:
        roles = {**run.roles, row.head: (Role("sink"),)}
        one = changed(run, rows=(row, *run.rows[1:]), traits={row.head: traits}, roles=roles)
        line = cards(one)[0].line.replace("\u202f", " ")
        where = " over the whole corpus. The share above is that of the tested half, "
        where = f"{where}without tokens near the start." if says else ". "
        assert line.startswith(f"It gives 88 % of its attention to the first token{where}")


def test_a_borderline_role_is_said_to_be_one(profiled: Path):
    run = shared_run(profiled)
    head = run.rows[0].head
    found = {}
    for low in (0.0, 1.0):
        one = replace(TRAIT, low=low, score=TRAIT.share)
        some = changed(run, traits={head: (one,)}, roles={**run.roles, head: (Role("sink"),)})
        (found[low],) = cards(some)[0].findings
    assert found[0.0].text.endswith(
        "; borderline: its interval includes values below the threshold"
    )
    assert "borderline" not in found[1.0].text


def test_a_long_map_is_cut_on_both_sides_of_its_own():
    """The query is far to the right, its key at the beginning."""
    weights_QK = np.full((100, 100), 30, dtype=np.uint8)
    words = tuple(f"w{place}" for place in range(100))
    view = example_view(Example("positional", "", words, words, weights_QK.tobytes(), ((90, 10),)))
    query, key = view.arcs
    assert view.keys is not None and (view.queries[query], view.keys[key]) == ("w90", "w10")
