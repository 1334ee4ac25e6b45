"""Roles found again on other texts: outcomes by hand, and what can't confirm anything."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from headcount.analysis import Claim, Confirmation, confirm, confirmation_document
from headcount.core import InputError
from headcount.pages import render, report_view
from headcount.results import (
    MOST_TEXTS,
    READING,
    SAME_MODEL,
    Analysis,
    RelationResult,
    Signature,
    TraitStrength,
    Untested,
    expected_scores,
    read_run,
)
from tests.commanding import headcount
from tests.pages.changed import changed
from tests.pages.run_folder import Wish, write_run
from tests.textbook import statistics as textbook

HEADS = [f"enc.0.{number}" for number in range(7)]


def trait(head: str, gain: float, first_gain: float, error: float = 0.01, **other: object):
    """A relation of a head; the interval is that of an error over 41 units."""
    margin = error * float(student.isf(0.05, 40)) / 0.6  # in strengths, between 0.4 and 1
    values = {
        "head": head,
        "trait": "nsubj",
        "role": "syntactic",
        "relation": "nsubj",
        "direction": "dependent->head",
        "share": 0.4 + gain,
        "null": 0.4,
        "attainable": 1.0,
        "strength": gain / 0.6,
        "low": gain / 0.6 - margin,
        "high": gain / 0.6 + margin,
        "cases": 307,
        "units": 41,
        "score": gain,
        "chance": 0.4,
        "position_null": 0.1,
        "first_gain": first_gain,
        "paper_share": 0.5,
        "p": 1e-6,
        "p_holm": 1e-5,
        "verdict": "role" if gain >= 0.1 else "none",
    }
    return TraitStrength(**(values | other))  # type: ignore[arg-type]


def texts(*hashes: int) -> pd.DataFrame:
    return pd.DataFrame({"text": np.array(hashes, dtype=np.int64)})


@pytest.fixture
def one(tmp_path: Path) -> Analysis:
    run = read_run(write_run(tmp_path / "one", Wish(layers=1, heads=7, profiles=True)))
    gains = (0.31, 0.23, 0.11, 0.13, 0.02, 0.05, -0.07)
    traits = {
        head: [trait(head, gain, gain - 0.02)] for head, gain in zip(HEADS, gains, strict=True)
    }
    return replace(changed(run, traits=traits), texts=texts(*range(200)))


@pytest.fixture
def other(one: Analysis) -> Analysis:
    """An analysis on other texts with the same numbers."""
    signature = {**one.record.signed.parts, "corpus": "0123", "units": "texts"}
    record = replace(one.record, signature=str(Signature(signature)), corpora=("other.conllu",))
    return replace(one, record=record, texts=texts(*range(1000, 1300)))


def claims(found: Confirmation) -> dict[str, Claim]:
    return {each.trait.head: each for each in found.claims}


def with_trait(run: Analysis, head: str, *traits: TraitStrength) -> Analysis:
    assert run.traits is not None
    return changed(run, traits={**run.traits, head: traits})


def test_expected_scores_are_the_gains_of_both_halves_shrunken(one: Analysis) -> None:
    assert one.traits is not None
    rows = [row for each in one.traits.values() for row in each]
    means = [(row.score + row.first_gain) / 2 for row in rows]
    by_hand = textbook.shrunken(means, [0.01 / math.sqrt(2)] * len(rows))
    found = expected_scores(one.traits, one.record.thresholds)
    assert [found[row.key] for row in rows] == pytest.approx(by_hand)
    assert one.expected == found
    relative = replace(one.record.thresholds, syntactic_relative=True)
    assert expected_scores(one.traits, relative)[rows[0].key] == pytest.approx(by_hand[0] / 0.4)


def test_expected_scores_of_shares_are_in_the_unit_of_the_score(one: Analysis) -> None:
    """Of a fixed offset, shares are of all queries, scores and first gains of those with a case."""
    row = trait(HEADS[0], 0.2, 0.6, role="positional", trait="previous", relation=None, offset=-1)
    row = replace(row, share=0.72, null=0.08, attainable=0.8, score=0.9, chance=0.02)
    alone = expected_scores({HEADS[0]: [row]}, one.record.thresholds)
    assert alone == {(HEADS[0], "previous", "positional"): pytest.approx(0.1 + (0.8 + 0.6) / 2)}
    sure = expected_scores({HEADS[0]: [replace(row, first_gain=1.1)]}, one.record.thresholds)
    assert sure == {(HEADS[0], "previous", "positional"): 1.0}, (
        "no score is above that of a perfect head"
    )
    block = replace(row, role="block", trait="segment")
    untested = replace(row, verdict="untested")
    assert not expected_scores({HEADS[0]: [block, untested]}, one.record.thresholds)


def test_a_sink_is_not_confirmed_by_a_relation_of_its_name(one: Analysis, other: Analysis) -> None:
    head = HEADS[0]
    sink = trait(head, 0.2, 0.2, role="sink", trait="first", relation=None, direction=None)
    weak = replace(sink, share=0.41, score=0.01, p=0.9, first_gain=0.0, verdict="none")
    relation = trait(head, 0.3, 0.3, trait="first", relation="first")
    one = with_trait(one, head, sink, relation)
    other = with_trait(other, head, weak, relation)
    claimed = [each for each in confirm(one, other).claims if each.trait.head == head]
    found = {each.trait.role: each for each in claimed}
    assert {role: each.outcome for role, each in found.items()} == {
        "sink": "not found again",
        "syntactic": "found again",
    }
    assert found["sink"].here == one.expected[head, "first", "sink"] != found["syntactic"].here


def test_roles_are_found_again_where_they_reach_the_threshold_and_pass(
    one: Analysis, other: Analysis
) -> None:
    other = with_trait(other, HEADS[0], trait(HEADS[0], 0.12, 0.06))  # 9 points over both halves
    other = with_trait(other, HEADS[1], trait(HEADS[1], 0.12, 0.08, p=0.03))
    other = with_trait(other, HEADS[3], trait(HEADS[3], 0.15, 0.15, p=0.04))
    found = confirm(one, other)
    by_head = claims(found)
    assert {head: each.outcome for head, each in by_head.items()} == {
        HEADS[0]: "not found again",
        HEADS[1]: "not found again",  # twice 0.03 is above 0.05
        HEADS[2]: "found again",
        HEADS[3]: "not found again",
    }
    assert by_head[HEADS[0]].there == pytest.approx(0.09)
    assert by_head[HEADS[2]].here == one.expected[HEADS[2], "nsubj", "syntactic"]
    assert by_head[HEADS[2]].threshold == 0.1
    assert [by_head[head].certainty for head in HEADS[:4]] == [
        "clear",
        "clear",
        "borderline",
        "clear",
    ]
    assert found.number("found again", certainty="borderline", role="syntactic") == 1
    assert found.number("not found again") == 3 and not found.warnings
    text = confirmation_document(found).markdown()
    assert (
        "Of 4 roles, 1 is found again on other.conllu (2,001 texts): 0 of 3 clear ones and "
        "1 of 1 borderline ones." in text
    )


def test_a_relation_in_another_direction_there_counts_by_its_accuracy(
    one: Analysis, other: Analysis
) -> None:
    turned = trait(HEADS[0], 0.4, 0.4, direction="head->dependent")
    other = with_trait(other, HEADS[0], turned)
    here = ("nsubj", "dependent->head")
    rows = [RelationResult(HEADS[0], *here, 0.55, 500, 0.41, -1.0)]
    found = claims(confirm(one, changed(other, relation_rows=rows)))[HEADS[0]]
    assert found.outcome == "found again" and found.there == pytest.approx(0.14)
    assert "another direction" in found.why
    rows = [RelationResult(HEADS[0], *here, 0.55, 99, 0.41, -1.0)]
    found = claims(confirm(one, changed(other, relation_rows=rows)))[HEADS[0]]
    assert found.outcome == "not tested" and found.why == "fewer than 100 cases there"


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ({"relation": "nsubj:pass"}, "another direction or subtype was chosen there"),
        ({}, "too few cases in half of the texts there, so all count"),
        (None, "too few cases in half of the texts there, so all count"),
    ],
)
def test_a_relation_without_a_test_there_counts_by_all_of_its_cases(
    one: Analysis, other: Analysis, chosen: dict[str, str] | None, why: str
) -> None:
    """Half of the other texts chose a subtype with 32 cases, or has few; all hold 650 of nsubj."""
    row = replace(trait(HEADS[0], 0.4, 0.4, verdict="untested", cases=32), **(chosen or {}))
    other = with_trait(other, HEADS[0], *(() if chosen is None else (row,)))
    for accuracy, outcome in ((0.55, "found again"), (0.5, "not found again")):
        rows = [RelationResult(HEADS[0], "nsubj", "dependent->head", accuracy, 650, 0.41, -1.0)]
        found = claims(confirm(one, changed(other, relation_rows=rows)))[HEADS[0]]
        assert (found.outcome, found.why) == (outcome, why)
        assert found.there == pytest.approx(accuracy - 0.41)


def test_another_offset_there_is_not_the_role(one: Analysis, other: Analysis) -> None:
    offset = trait(HEADS[0], 0.55, 0.55, role="positional", trait="offset", offset=-3)
    offset = replace(offset, relation=None, direction=None, verdict="role")
    one = with_trait(one, HEADS[0], offset)
    other = with_trait(other, HEADS[0], replace(offset, offset=2))
    found = claims(confirm(one, other))[HEADS[0]]
    assert (found.outcome, found.why) == ("not found again", "looks most at offset +2 there")
    assert math.isnan(found.there)


def test_what_can_not_occur_there_is_not_tested(one: Analysis, other: Analysis) -> None:
    """No trees, too few cases and random tokens are not the same as "not found again"."""
    assert other.traits is not None
    rest = {head: other.traits[head] for head in HEADS[2:]}
    few = replace(trait(HEADS[1], 0.2, 0.2), verdict="untested", cases=3, units=2)
    induction = trait(HEADS[2], 0.6, 0.6, role="induction", trait="induction", relation=None)
    one = with_trait(one, HEADS[2], induction)
    seen = changed(other, traits={**rest, HEADS[1]: [few]}, relation_rows=[])
    found = claims(confirm(one, seen))
    assert {found[head].outcome for head in HEADS[:3]} == {"not tested"}
    assert [found[head].why for head in HEADS[:3]] == [
        "no case there",
        "3 cases in 2 texts there",
        "measured on random tokens, not on texts",
    ]
    why = Untested("syntactic", "no trees", "no trees: give a treebank (.conllu)")
    seen = replace(seen, record=replace(seen.record, untested={"syntax": why}))
    shown = confirm(one, seen)
    assert claims(shown)[HEADS[0]].why == why.says
    assert "could not be tested there" in confirmation_document(shown).markdown()


def test_the_first_corpus_confirms_nothing(one: Analysis, other: Analysis) -> None:
    with pytest.raises(InputError, match="Expected other texts .*, the same ones"):
        confirm(one, replace(one, texts=texts(1)))
    for shared, size in ((4, 300), (3, 300)):
        overlapping = replace(
            other, texts=texts(*range(shared), *range(1000, 1000 + size - shared))
        )
        if shared > 0.01 * size:
            said = f"of which the first analysis read {shared} of {size} different texts, too"
            with pytest.raises(InputError, match=said):
                confirm(one, overlapping)
        else:
            assert confirm(one, overlapping).warnings == (
                f"{shared} of {size} different texts were read by the first analysis, too",
            )
    (warning,) = confirm(one, replace(other, texts=None)).warnings
    assert "can't be counted" in warning


def test_of_large_corpora_the_smallest_hashes_are_compared(one: Analysis, other: Analysis) -> None:
    """What the other corpus kept beyond the first one's largest hash may have been there, too."""
    full = replace(one, texts=texts(*range(-MOST_TEXTS + 100, 100)))
    half = replace(other, texts=texts(*range(90, 130)))
    with pytest.raises(InputError, match="read 10 of 10 different texts"):
        confirm(full, half)


@pytest.mark.parametrize("name", list(SAME_MODEL | READING))
def test_another_model_or_another_way_confirms_nothing(
    one: Analysis, other: Analysis, name: str
) -> None:
    parts = {"tokenizer": "t", "processor": "p", "torch": "2.13"}
    parts |= {"treebank": "as-words"} | dict(other.record.signed.parts)
    first = replace(one.record, signature=str(Signature({**parts, "corpus": "9c0b"})))
    another = "3.1" if (SAME_MODEL | READING)[name].is_version else "another"
    record = replace(other.record, signature=str(Signature({**parts, name: another})))
    with pytest.raises(InputError, match=rf"\({name}\) in both"):
        confirm(replace(one, record=first), replace(other, record=record))


@pytest.mark.slow
def test_the_command_and_the_page_show_it(one: Analysis, other: Analysis, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one.write(tmp_path / "one")
    other.write(tmp_path / "other")
    place = tmp_path / "one"
    status, output, errors = headcount(
        "report", place, "--confirm", tmp_path / "other", "--formats", "svg"
    )
    assert status == 0, errors
    assert "Of 4 roles, 4 are found again on other.conllu" in output and "Document: " in output
    written = (place / "confirmation.md").read_text()
    page = render(report_view(read_run(place, None, tmp_path / "other")))
    for text in (written, page, (place / "report.html").read_text()):
        assert "found again on other.conllu" in re.sub(r"</?span[^>]*>", "", text)
    status, _, errors = headcount("report", place, "--confirm", place)
    assert status == 2 and "Expected other texts than those of the first analysis" in errors
    one.write(place)
    assert not (place / "confirmation.md").exists(), "it was of the earlier analysis"
    status, _, errors = headcount("report", place, "--confirm", tmp_path / "none")
    assert status == 2 and "does not exist" in errors
