"""The page of a comparison: what it counts, its intervals, and its use in Chromium."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from playwright.sync_api import Browser, Page, expect

from headcount.compare import compare, comparison_document, write_comparison
from headcount.compare.comparison import agreement_by_chance, relation_pairs
from headcount.compare.document import relation_shares, scatters, side_by_side
from headcount.compare.page import compare_view
from headcount.core import Table, styled
from headcount.pages.kinds import NEITHER, leading
from headcount.results import Analysis, read_run
from tests.pages.changed import changed
from tests.pages.labelled import tables_of
from tests.pages.run_folder import Wish, write_run
from tests.pages.test_profile_view import TRAIT

pytestmark = pytest.mark.slow

SUBJECT = replace(
    TRAIT, trait="nsubj", relation="nsubj", direction="head->dependent", role="syntactic"
)


def told(one: Analysis, other: Analysis, names: tuple[str, str]) -> str:
    """The document as Markdown."""
    return comparison_document(one, other, compare(one, other), names).markdown()


def table_of(runs: tuple[Analysis, Analysis], label: str) -> Table:
    """A table of the document."""
    shown = comparison_document(*runs, compare(*runs), ("news", "captions"))
    return tables_of(shown)[label]


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


def test_the_legend_explains_every_letter_of_both_maps(runs: tuple[Analysis, Analysis]) -> None:
    view = compare_view(*runs, compare(*runs), ("news", "captions"))
    grids = [grid for side in view.sides for grid in side.grids]
    cells = [cell for grid in grids for _, row in grid.layers for cell in row if cell]
    shown = {kind.key for cell in cells for kind in (cell.kind, cell.second) if kind}
    assert {kind.key for kind in view.legend} == shown and len(view.legend) == len(shown) > 2


def test_a_cell_of_the_drawn_maps_is_large_enough_for_its_letter(
    runs: tuple[Analysis, Analysis],
) -> None:
    with styled():
        figure = side_by_side(*runs, ("news", "captions"))
        figure.canvas.draw()
    for axes in figure.axes:
        size = axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted()).size
        cells = np.abs([np.subtract(*axes.get_xlim()), np.subtract(*axes.get_ylim())])
        assert (size / cells > 0.2).all(), axes.get_title()  # inches


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
    labels = {kind.label: kind.key for kind in view.kinds.values()} | {NEITHER: None}
    for label, *counts, both in table_of(runs, "Number of heads of each kind").rows:
        key = labels[label]
        assert counts == [str(list(each.values()).count(key)) for each in keys]
        assert both == str(sum(keys[0][head] == key for head in same))
    differ = table_of(runs, "What the heads that differ do")
    assert [row[0] for row in differ.rows] == [head for head in keys[0] if head not in same]


def test_an_interval_of_a_share_is_that_of_its_strength():
    trait = replace(SUBJECT, share=0.6, null=0.2, attainable=0.9, low=0.5, high=0.64)
    assert trait.share_interval == pytest.approx((0.55, 0.648))
    assert replace(trait, low=-1.0, high=2.0).share_interval == (0.0, 1.0)


def test_each_run_has_the_head_that_its_first_half_chose(runs: tuple[Analysis, Analysis]):
    chosen = replace(SUBJECT, head="enc.0.1", share=0.5, first_gain=0.4, low=0.35, high=0.45)
    lucky = replace(SUBJECT, head="enc.0.2", share=0.9, first_gain=0.1)
    few = replace(SUBJECT, head="enc.0.3", first_gain=0.9, verdict="untested")
    profiles = {each.head: (each,) for each in (chosen, lucky, few)}
    other = {"enc.4.0": (replace(chosen, head="enc.4.0", share=0.72, low=0.6, high=0.7),)}
    (pair,) = relation_pairs(changed(runs[0], traits=profiles), changed(runs[1], traits=other))
    assert [best.head for best in pair.best] == ["enc.0.1", "enc.4.0"]
    assert pair.change == pytest.approx(0.22) and pair.apart
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


@pytest.mark.daily
def test_facts_are_listed_that_differ(runs: tuple[Analysis, Analysis]):
    record = replace(
        runs[0].record, model="another", versions={**runs[0].record.versions, "torch": "9"}
    )
    both = (runs[0], replace(runs[0], record=record))
    versions = runs[0].record.versions
    assert table_of(both, "What sets the runs apart").rows == (
        ("model", runs[0].record.model, "another"),
        ("version of torch", versions["torch"], "9"),
    )


def test_ends_of_intervals_are_no_scores(runs: tuple[Analysis, Analysis]):
    labels = [row[0] for row in table_of(runs, "Rank correlations (Spearman)").rows]
    assert "ablation effect" in labels and "confidence" in labels
    text = told(*runs, ("news", "captions"))
    for name in ("ablation effect, low", "ablation p, corrected", "most frequent offset"):
        assert name not in labels and name not in text


def test_heads_are_drawn_at_their_numbers_on_equal_axes(runs: tuple[Analysis, Analysis]):
    one, other = runs
    first = replace(one.rows[0], values={**one.rows[0].values, "confidence": math.nan})
    figure = scatters(changed(one, rows=(first, *one.rows[1:])), other, ("news", "captions"))
    assert figure is not None
    panels = {axes.get_title(): axes for axes in figure.axes}
    figure.canvas.draw()
    drawn = panels["confidence"]
    assert drawn.get_xlim() == drawn.get_ylim()
    width, height = drawn.get_window_extent().transformed(figure.dpi_scale_trans.inverted()).size
    assert width == pytest.approx(height, rel=0.1) and height > 1.5  # inches
    (dots,) = drawn.collections
    values = [
        [row.values["confidence"] for row in rows]
        for rows in zip(one.rows[1:], other.rows[1:], strict=True)
    ]
    assert np.asarray(dots.get_offsets()) == pytest.approx(np.array(values))
    assert str((dots.get_urls() or [""])[0]).startswith("#enc.0.1 enc.0.1: ")


@pytest.mark.daily
def test_relations_are_drawn_with_their_intervals(runs: tuple[Analysis, Analysis]):
    pairs = relation_pairs(*runs)
    figure = relation_shares(pairs, ("news", "captions"))
    assert figure is not None
    (axes,) = figure.axes
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    for number, line in enumerate(lines):
        ends = [np.asarray(each)[:, 0].tolist() for each in line.get_segments()]
        assert ends == [pytest.approx(pair.best[number].share_interval) for pair in pairs]
    assert relation_shares((), ("news", "captions")) is None


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
    assert shown == page.locator("#differ table").first.locator("tbody tr").count() > 0
    page.uncheck("#only-differ")
    assert page.locator(".cell.same").count() == 0


@pytest.mark.browser
def test_tables_and_figures_can_be_downloaded(page: Page):
    for name in ("Relations as CSV", "Every head in both runs as SVG"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name, exact=True).click()
        assert waiting.value.path().stat().st_size > 200


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1024])
def test_the_comparison_fits(page: Page, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
