"""What was not tested is said, with the reason; nothing is left out of a headline."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headcount.pages.html import page_data, report_view
from headcount.pages.kinds import leading
from headcount.pages.sentences import headline_of, not_tested, why_none
from headcount.results import Analysis, FewTexts, Signature, Untested, read_run
from tests.pages.changed import changed

MISSING = "1,100 tokens, 3,232 are needed"
FEW = Untested("sink", "few", MISSING)


@pytest.fixture(scope="module")
def run(profiled: Path) -> Analysis:
    return read_run(profiled)


def with_record(
    run: Analysis, untested: Mapping[str, Untested] = {}, few: FewTexts | None = None
) -> Analysis:
    return replace(run, record=replace(run.record, untested=untested, few_texts=few))


def untested(run: Analysis, *traits: str) -> Analysis:
    """The run, with some traits untested; all of them if none is named."""
    assert run.traits is not None
    profiles = {
        head: tuple(
            replace(each, verdict="untested") if not traits or each.trait in traits else each
            for each in own
        )
        for head, own in run.traits.items()
    }
    return changed(run, traits=profiles, roles=dict.fromkeys(run.roles, ()))


def headline(run: Analysis) -> str:
    return headline_of(run, [*leading(run).values()])


def test_a_tested_run_is_as_it_was(run: Analysis):
    assert headline(run).split(" have a role")[0].endswith(" of 72 heads")
    other = Untested("induction", "model", "impossible for this model")
    assert headline(with_record(run, {"induction": other})) == headline(run)


def test_what_was_not_tested_comes_last_after_what_is_known(run: Analysis):
    shares = [row.values["attn_first"] for row in run.rows]
    many = sum(share > 0.5 for share in shares)
    assert 0 < many < len(shares)
    found = headline(with_record(run, {"first": FEW, "separator": FEW}))
    assert found.lower().startswith(f"{headline(run).lower()} {many} of 72 ")
    assert found.endswith(
        f" heads give the first token over half of their attention. Not tested: first token and "
        f"separators ({MISSING})."
    )


@pytest.mark.slow
def test_none_is_never_said_where_nothing_was_tested(run: Analysis):
    nothing = untested(with_record(run, {"first": FEW, "rare": FEW}, FewTexts(texts=1, tokens=9)))
    found = headline(nothing)
    assert found.startswith(f"Nothing was tested: {MISSING}. ") and "None of" not in found
    view = report_view(nothing)
    data = page_data(view)
    assert data["nothing"] == "nothing was tested"
    assert {*data["nothingMore"].values()} == {f"Nothing was tested: {MISSING}."}
    cells = [cell for grid in view.atlas.grids for _, row in grid.layers for cell in row if cell]
    assert {cell.says.split(": ")[1].split(";")[0] for cell in cells} == {"nothing was tested"}
    assert view.opening.steps[0].startswith("More text: what was not tested")
    assert all(MISSING in card.profile.note for card in view.cards if card.profile)


def test_traits_are_named_where_several_reasons_forbade_all_tests(run: Analysis):
    other = replace(FEW, says="at most 3 cases in 2 texts, 100 in 10 are needed")
    found = headline(untested(with_record(run, {"first": FEW, "rare": other})))
    assert found.startswith(f"Nothing was tested: first token ({MISSING}); rare words (at most 3 ")


@pytest.mark.slow
@pytest.mark.parametrize("texts, where", [(1, "this text"), (3, "these 3 texts")])
def test_few_texts_are_named(run: Analysis, texts: int, where: str):
    few = with_record(run, {}, FewTexts(texts=texts, tokens=9000))
    assert headline(few) == f"In {where}, {headline(run)}"
    some = with_record(few, {"rare": replace(FEW, role="rare")}, few.record.few_texts)
    assert headline(some).startswith(f"In {where}, ")
    profiles = [card.profile for card in report_view(few).cards if card.profile is not None]
    lines = [line for profile in profiles for line in profile.lines]
    assert lines and all(f"of {where}" in line.about for line in lines)


@pytest.mark.slow
def test_texts_are_counted_alike_and_those_left_out_of_tests_are_named(run: Analysis):
    few = with_record(run, {}, FewTexts(texts=5, tokens=9000, short=1))
    counts = replace(few.record.counts, sentences=6, words=0, tokens=9100)
    few = replace(few, record=replace(few.record, counts=counts))
    opening = report_view(few).opening
    assert ". In these 6 texts, " in opening.headline
    assert opening.measured.startswith("6 texts, 9,100 tokens of ")
    left_out = "(1 text is shorter than the segments that roles are tested on, and left out there)"
    assert opening.measured.endswith(left_out)


@pytest.mark.parametrize("tokens, is_said", [(300 * 14, True), (300 * 26, False)])
def test_texts_much_shorter_than_the_model_takes_have_their_length_in_the_headline(
    run: Analysis, tokens: int, is_said: bool
):
    signed = Signature({**run.record.signed.parts, "max_length": "512"})
    counts = replace(run.record.counts, sentences=300, tokens=tokens)
    record = replace(run.record, signature=str(signed), counts=counts)
    found = headline(replace(run, record=record))
    assert found.startswith("In 300 sentences of 14 tokens, ") == is_said


@pytest.mark.once
@pytest.mark.parametrize(
    "reason, says",
    [
        ("not asked", "not asked for: leave --no-induction out"),
        ("model", "impossible for this model: it takes 4 tokens"),
        ("no trees", "no trees: give a treebank (.conllu)"),
        ("no pairs", "no pairs: give pairs of sentences (--pairs)"),
        ("few", "at most 3 cases in 2 texts, 100 in 10 are needed"),
    ],
)
def test_each_reason_has_its_sentence(run: Analysis, reason: str, says: str):
    none = untested(with_record(run, {"rare": Untested("rare", reason, says)}), "rare")
    assert why_none(none, "rare") == says
    assert (says in not_tested(none)) == (reason == "few")
    assert why_none(run, "rare") == "none found"


def test_a_role_that_was_tested_in_part_says_so(run: Analysis):
    some = untested(with_record(run, {"first": FEW}), "first")
    traits = {each.trait for own in (some.traits or {}).values() for each in own}
    assert {"first", "separator"} & traits
    expected = "none found (first token not tested)" if "separator" in traits else MISSING
    assert why_none(some, "sink") == expected


@pytest.mark.slow
def test_weight_on_the_first_token_stands_on_every_card(run: Analysis):
    for card, row in zip(report_view(run).cards, run.rows, strict=True):
        assert not math.isnan(row.values["attn_first"])
        assert card.line.startswith("It gives ") and "to the first token" in card.line
