"""Skills beside an analysis: the first section, the opening and the cards say them."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headcount.core import InputError, Text
from headcount.pages import report_view, story
from headcount.pages.map_view import maps
from headcount.pages.sections import document_of
from headcount.results import Analysis, read_run
from headcount.skills import NeedleRow, Overlap, RecallRow, SkillRow, Skills, SkillsRecord, TaskRow
from headcount.skills.document import skills_document
from headcount.vocabulary import SKILLS
from tests.pages.run_folder import Wish, write_run

BEST = {
    "retrieval": 0.97,
    "answers": 0.3,
    "function_vector": 0.2,
    "induction": 0.8,
    "duplicate_token": 0.3,
    "previous_token": 0.1,
}


def made_skills(heads: Sequence[str], is_found: bool = True) -> Skills:
    """Skills that fall from head to head; the first has the best of all scores."""
    unknown = () if is_found else ("retrieval", "answers", "function_vector")
    rows = []
    for place, head in enumerate(heads):
        scores = {
            skill: math.nan if skill in unknown else best / (1 + place)
            for skill, best in BEST.items()
        }
        ends = {"_low": -0.01, "_high": 0.02, "_first": 0.003, "_second": -0.004}
        more = {
            skill + end: score + by for skill, score in scores.items() for end, by in ends.items()
        }
        rows.append(SkillRow(head, **scores, **more))
    recalls = (
        RecallRow("needles", "none", 0, "", 0.85, 0.64, 0.95, 0.9, 20),
        RecallRow("needles", "retrieval", 3, "mean", 0.0, 0.0, 0.16, 0.05, 20),
        *[RecallRow("tasks", "none", 0, "", 0.75, 0.6, 0.86, 0.75, 12)] * is_found,
    )
    needles = (NeedleRow("city", 300, 0.5, "Lima", "Lima", 1.0),)
    tasks = (
        TaskRow("plural", 12, 0.9, 0.65, 0.99, 0.71, 0.13, is_found),
        TaskRow("french", 12, 0.1, 0.01, 0.35, 0.12, math.nan, False),
    )
    overlaps = tuple(
        Overlap(one, other, 2 if one == other else 1, 3, 0.75)
        for one, other in [("retrieval", "retrieval"), ("retrieval", "induction")]
        + [("induction", "induction")]
    )
    record = SkillsRecord(
        signature="headcount:0|model:decoder",
        warnings=(),
        model="decoder",
        start=(),
        first=("<s>",),
        overlaps=overlaps,
    )
    return Skills(record, tuple(rows), recalls, needles, tasks)


def _told(found: Skills) -> str:
    """The document in Markdown, without the blanks that align cells."""
    return re.sub(" +", " ", document_of(found).markdown())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = write_run(
        tmp_path_factory.mktemp("run"),
        Wish(("decoder.self",), layers=2, heads=3, profiles=True, importance=True),
    )
    found = made_skills([row.head for row in read_run(folder).rows])
    found.write(folder)
    return read_run(folder)


def test_the_document_opens_with_the_heads_that_fetch_facts() -> None:
    heads = [f"dec.0.{n}" for n in range(12)]
    first, second, *_ = skills_document(made_skills(heads)).blocks
    assert first == Text(
        "dec.0.0 and dec.0.1 fetch facts from the text. Without the 3 best such heads, 0\u202f% of "
        "facts are found; with all heads, 85\u202f%.",
        "lede",
    )
    assert isinstance(second, Text) and second.text.startswith("decoder finds 85\u202f%")
    unknown, *_ = skills_document(made_skills(heads, is_found=False)).blocks
    assert isinstance(unknown, Text) and unknown.kind == "lede", "no head fetches anything"
    assert unknown.text.startswith("decoder finds")


@pytest.mark.slow
def test_a_folder_with_skills_opens_with_them(run: Analysis) -> None:
    view = report_view(run)
    assert view.sections[0].key == "skills" and view.sections[1].key == "worth"
    title, text = view.opening.answers[0]
    assert view.opening.headline == (
        "It finds 85\u202f% (64\u202f% to 95\u202f%) of 20 needles, facts hidden in long texts. "
        "Of 2 few-shot tasks "
        "it does 1: plural 90\u202f%."
    )
    assert title == "Best heads" and text == (
        "dec.0.0 copies 0.97 (0.96 to 0.99) of a needle's answer; dec.0.0 adds 0.300 (0.290 to "
        "0.320) of the answer to a needle that is asked in other words."
    )
    without = report_view(replace(run, beside=())).opening
    assert view.opening.answers[1] == ("What matters most", without.headline)
    assert view.opening.answers[2] == (
        "What heads look at",
        dict(without.answers)["What heads look at"],
    )
    assert story(run)[:3] == [view.opening.headline, text, without.headline]


def test_cards_say_skills_with_intervals_and_ranks(run: Analysis) -> None:
    cards = report_view(run).cards
    assert cards[0].does == (
        "It copies 0.97 (0.96 to 0.99) of a needle's answer; it adds 0.300 (0.290 to 0.320) of "
        "the answer to a needle that is asked in other words; it raises the probability of a "
        "few-shot answer by 0.200 (0.190 to 0.220); it gives 0.80 (0.79 to 0.82) of its weight to "
        "the token after an earlier copy."
    )
    assert [(each.label, each.text, each.rank) for each in cards[2].skills][:2] == [
        ("retrieval", "0.32 (0.31 to 0.34)", "3rd of 6"),
        ("answers", "0.100 (0.090 to 0.120)", "3rd of 6"),
    ]
    assert [each.label for each in cards[0].skills] == [each.label for each in SKILLS.values()]
    assert "previous" not in cards[0].does


def test_skills_are_maps_with_the_heads_that_surely_have_them(run: Analysis) -> None:
    found = [each for each in maps(run) if each.group == "Skills"]
    assert [each.label for each in found[:2]] == ["retrieval", "answers"]
    assert found[5].label == "previous token, repeated random tokens", "beside the corpus's own"
    assert found[0].texts[:3] == ("0.97", "0.48", "0.32") and all(found[0].sure or ())
    assert found[0].scale == "sequential" and found[1].scale == "diverging"
    assert found[3].sure == (True, *[False] * 5)
    assert not [each for each in maps(replace(run, beside=())) if each.group == "Skills"]


@pytest.mark.slow
def test_one_of_the_heads_to_start_with_has_a_skill(run: Analysis) -> None:
    """The best by the first skill that one surely has; the first is worth most already."""
    worth, *others = report_view(replace(run, beside=())).starts
    found = run.of(Skills)
    assert found is not None
    rows = {row.head: row for row in found.heads}
    heads = sorted(rows, key=lambda head: (head == worth.head, head != others[0].head))
    skilled = replace(run, beside=(made_skills(heads),))
    first, second, third = report_view(skilled).starts
    assert first == worth and second.head == others[0].head and second.kind == others[0].kind
    assert second.why == "copies 0.97 (0.96 to 0.99) of a needle's answer"
    assert third == others[1], "no head twice"
    unsure = made_skills(heads, is_found=False)
    assert "after an earlier copy" in report_view(replace(run, beside=(unsure,))).starts[1].why


def test_the_best_heads_are_one_table(run: Analysis) -> None:
    found = run.of(Skills)
    assert found is not None
    text = _told(found)
    assert "| retrieval | share of an answer that the head copies" in text
    assert "| 0.1 | 6 of 6 |" in text and text.count("first half") == 1
    assert "| dec.0.0 | retrieval | 0.97 (0.96 to 0.99) | 0.97 | 0.97 |" in text
    assert len(re.findall(r"\| dec\.\d\.\d \| retrieval \|", text)) == 5


@pytest.mark.slow
def test_skills_of_another_model_are_refused(run: Analysis, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Wish(layers=1, heads=2))
    made_skills(["enc.0.0", "enc.0.1"]).write(folder)
    assert read_run(folder).of(Skills) is not None
    made_skills(["enc.0.0"]).write(folder)
    with pytest.raises(InputError, match=r"skills of the analysed model in .* \(decoder\)"):
        read_run(folder)


def test_without_skills_nothing_is_said(run: Analysis) -> None:
    view = report_view(replace(run, beside=()))
    assert "skills" not in {section.key for section in view.sections}
    assert view.opening.answers[0][0] != "Best heads"
    assert {card.does for card in view.cards} == {""} and not any(c.skills for c in view.cards)


def test_scores_that_are_unknown_are_left_out(run: Analysis) -> None:
    found = made_skills([row.head for row in run.rows], is_found=False)
    card = report_view(replace(run, beside=(found,))).cards[0]
    assert "needle" not in card.does and len(card.skills) == 3
    text = _told(found)
    assert "| retrieval | share" not in text and "does 0." in text
    assert "| french | 12 | 10 % | 1.0 % to 35 % | 0.12 | not measured | left out |" in text


def test_overlaps_are_a_matrix_with_halves_on_its_diagonal(run: Analysis) -> None:
    found = run.of(Skills)
    assert found is not None
    text = _told(found)
    assert "| best by | retrieval | induction |" in text
    assert "| retrieval | 2 | 1 |" in text and "| induction | | 2 |" in text
    assert "of the 3 best heads by one score are also the best by another;" in text
    assert "| needles | retrieval | 3 | mean | 0 % | 0 % to 16 % | 5.0 % |" in text


@pytest.mark.slow
def test_the_page_shows_a_card_with_skills(run: Analysis, tmp_path: Path, browser) -> None:
    from headcount.pages import render

    page = browser.new_page()
    file = tmp_path / "page.html"
    file.write_text(render(report_view(run)), encoding="utf-8")
    page.goto(f"file://{file}#dec.0.0")
    shown = page.locator("#card").inner_text()
    assert "It copies 0.97 (0.96 to 0.99) of a needle's answer" in shown
    assert "1st of 6" in shown and "function vector" in shown
    page.close()
