"""The page of a comparison: what it counts, its intervals, and its use in Chromium."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from headcount.reports import Comparison, compare, comparison_document, write_comparison
from headcount.reports.kinds import leading
from headcount.reports.page.compare_plot import LEFT, SIZE, TOP, scatter, span
from headcount.reports.page.compare_view import (
    agreement_by_chance,
    compare_view,
    relation_pairs,
    share_interval,
)
from headcount.results import Analysis, read_run
from tests.reports.changed import changed
from tests.reports.run_folder import Wish, write_run
from tests.reports.test_profile_view import TRAIT

SUBJECT = replace(
    TRAIT, trait="nsubj", relation="nsubj", direction="head->dependent", role="syntactic"
)


def told(found: Comparison, names: tuple[str, str]) -> str:
    """The document as Markdown."""
    return comparison_document(found, names, lambda: None).markdown()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs over the same 5 x 4 heads, with profiles and importance."""
    parent = tmp_path_factory.mktemp("compared")
    one, other = (
        write_run(parent / name, Wish(layers=5, heads=4, profiles=True, importance=True, seed=seed))
        for name, seed in (("news", 3), ("captions", 11))
    )
    return one, other


@pytest.fixture(scope="module")
def runs(folders: tuple[Path, Path]) -> tuple[Analysis, Analysis]:
    return read_run(folders[0]), read_run(folders[1])


def test_agreement_by_chance_is_that_of_all_pairs_of_heads():
    one, other = ["a", "b", None, "a", "c"], ["a", "a", None, "b", "d"]
    pairs = list(itertools.product(one, other))
    assert agreement_by_chance(one, other) == sum(a == b for a, b in pairs) / len(pairs)


def test_the_headline_counts_heads_that_do_the_same(runs: tuple[Analysis, Analysis]):
    view = compare_view(*runs, compare(*runs), ("news", "captions"))
    keys = [
        {head: leads.kind.key if leads else None for head, leads in leading(run).items()}
        for run in runs
    ]
    same = [head for head in keys[0] if keys[0][head] == keys[1][head]]
    assert 0 < len(same) < 20
    assert view.headline.startswith(f"{len(same)} of 20 heads do the same in both (")
    assert [pair.head for pair in view.pairs if pair.same] == same
    for row in view.kind_rows:
        key = row.kind.key if row.kind else None
        assert row.counts == tuple(list(each.values()).count(key) for each in keys)
        assert row.both == sum(keys[0][head] == key for head in same)


def test_an_interval_of_a_share_is_that_of_its_strength():
    trait = replace(SUBJECT, share=0.6, null=0.2, attainable=0.9, low=0.5, high=0.64)
    assert share_interval(trait) == pytest.approx((0.55, 0.648))
    assert share_interval(replace(trait, low=-1.0, high=2.0)) == (0.0, 1.0)


def test_each_run_has_the_head_that_its_first_half_chose(runs: tuple[Analysis, Analysis]):
    chosen = replace(SUBJECT, head="enc.0.1", share=0.5, first_gain=0.4, low=0.35, high=0.45)
    lucky = replace(SUBJECT, head="enc.0.2", share=0.9, first_gain=0.1)
    few = replace(SUBJECT, head="enc.0.3", first_gain=0.9, verdict="untested")
    profiles = {each.head: (each,) for each in (chosen, lucky, few)}
    other = {"enc.4.0": (replace(chosen, head="enc.4.0", share=0.72, low=0.6, high=0.7),)}
    (pair,) = relation_pairs(changed(runs[0], traits=profiles), changed(runs[1], traits=other))
    assert [best.head for best in pair.best] == ["enc.0.1", "enc.4.0"]
    assert pair.change == "+22" and pair.apart
    other = {"enc.4.0": (replace(chosen, head="enc.4.0", share=0.5),)}
    (pair,) = relation_pairs(changed(runs[0], traits=profiles), changed(runs[1], traits=other))
    assert not pair.apart


def test_relations_come_by_their_difference_and_are_apart_in_either_order(
    runs: tuple[Analysis, Analysis],
):
    near = replace(SUBJECT, trait="obj", relation="obj", share=0.5, low=0.35, high=0.45)
    high, low = replace(SUBJECT, share=0.9, low=0.8, high=0.95), replace(near, trait="nsubj")
    one = changed(runs[0], traits={"enc.0.0": (near, high)})
    other = changed(runs[1], traits={"enc.0.0": (replace(near, share=0.6), low)})
    for pair in (one, other), (other, one):
        found = relation_pairs(*pair)
        assert [(each.relation, each.apart) for each in found] == [("nsubj", True), ("obj", False)]


def test_facts_are_listed_that_differ(runs: tuple[Analysis, Analysis]):
    record = replace(
        runs[0].record, model="another", versions={**runs[0].record.versions, "torch": "9"}
    )
    other = replace(runs[0], record=record)
    view = compare_view(runs[0], other, compare(runs[0], other), ("news", "captions"))
    versions = runs[0].record.versions
    assert view.differ == (
        ("model", runs[0].record.model, "another"),
        ("version of torch", versions["torch"], "9"),
    )


def test_ends_of_intervals_are_no_scores(runs: tuple[Analysis, Analysis]):
    found = compare(*runs)
    view = compare_view(*runs, found, ("news", "captions"))
    assert view.scores is not None
    labels = [row[0] for row in view.scores.rows]
    assert "ablation effect" in labels and "confidence" in labels
    text = told(found, ("news", "captions"))
    for name in ("ablation effect, low", "ablation p, corrected", "most frequent offset"):
        assert name not in labels and name not in text


def test_both_axes_of_a_scatter_plot_are_the_same():
    picture = scatter(
        "x", [("a", "s"), ("b", "s"), ("c", "s")], [(0.0, 1.0), (0.5, 0.5), (math.nan, 1.0)]
    )
    assert [dot.head for dot in picture.dots] == ["a", "b"]
    assert picture.dots[0].x == LEFT and picture.dots[0].y == TOP
    first, last = picture.ticks[0], picture.ticks[-1]
    assert (picture.dots[1].x, picture.dots[1].y) == (
        pytest.approx((first[0] + last[0]) / 2),
        pytest.approx((first[1] + last[1]) / 2),
    )
    assert all(0 <= value <= SIZE for tick in picture.ticks for value in tick[:2])


def test_a_strip_holds_what_is_outside_of_it():
    shown = span(0.5, -0.2, 1.4, 0.25)
    assert (shown.low, shown.x, shown.high, shown.null) == (8.0, 160.0, 312.0, 84.0)


@pytest.fixture(scope="module")
def page(folders: tuple[Path, Path], browser: Browser, tmp_path_factory) -> Iterator[Page]:
    """The page of both runs; no error may be logged."""
    out = tmp_path_factory.mktemp("comparison")
    write_comparison(*folders, out)
    errors: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    shown = context.new_page()
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    shown.goto((out / "comparison.html").as_uri())
    yield shown
    context.close()
    assert errors == []


@pytest.mark.browser
def test_a_press_shows_a_head_in_both_runs(page: Page):
    page.locator("[data-side='1'] [data-head='enc.2.3']").click()
    assert page.inner_text("#pair h2") == "enc.2.3" and page.locator(".cell.both").count() == 2
    assert page.locator("#pair h3").all_inner_texts() == ["news", "captions"]
    page.focus("[data-side='0'] [data-head='enc.0.0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#pair h2")).to_have_text("enc.1.0")


@pytest.mark.browser
def test_heads_that_do_the_same_can_be_dimmed(page: Page):
    page.check("#only-differ")
    shown = page.locator("[data-side='0'] .cell:not(.same)").count()
    assert shown == page.locator("#differ tbody tr").count() > 0
    page.uncheck("#only-differ")
    assert page.locator(".cell.same").count() == 0


@pytest.mark.browser
def test_tables_and_figures_can_be_downloaded(page: Page):
    for name in ("Relations as CSV", "confidence as SVG"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name, exact=True).click()
        assert waiting.value.path().stat().st_size > 200


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1024])
def test_the_comparison_fits(page: Page, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
