"""The view model matches the numbers; expectations are counted here the slow way."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount.core import Table
from headcount.numbers import percent
from headcount.pages import report_view
from headcount.pages.attention_view import MAX_LINES, MAX_WORDS, example_view
from headcount.pages.card_view import offset_bins
from headcount.pages.kinds import leading
from headcount.pages.map_view import head_map
from headcount.pages.worth import effect_of
from headcount.results import (
    Curve,
    CurvePoint,
    CurvePoints,
    CurveRecord,
    Example,
    RelationResult,
    TraitStrength,
)
from headcount.vocabulary import ColumnEntry
from tests.pages.changed import changed
from tests.pages.run_folder import shared_run
from tests.pages.test_profile_view import TRAIT


def result(head: str, relation: str, accuracy: float, baseline: float = 0.5, cases: int = 200):
    return RelationResult(head, relation, "dependent->head", accuracy, cases, baseline, -1.0)


def test_every_role_is_counted_beside_random_weights(plain: Path, profiled: Path):
    from headcount.analysis.confirmation_section import NO_ROLE, chance_document

    run = shared_run(plain)
    shown = chance_document(run)
    assert shown is not None and chance_document(shared_run(profiled)) is None
    (table,) = [block for block in shown.blocks if isinstance(block, Table)]
    found = [[row.roles for row in heads] for heads in (run.rows, run.null_rows or ())]
    names = {name for heads in found for roles in heads for name in roles}
    assert {row[0] for row in table.rows} == names | {NO_ROLE} and table.rows[-1][0] == NO_ROLE
    for name, *counts in table.rows:
        each = [
            sum(name in roles if name != NO_ROLE else not roles for roles in heads)
            for heads in found
        ]
        assert counts == list(map(str, each))


@pytest.mark.slow
def test_every_letter_of_the_map_is_in_its_legend(profiled: Path):
    """Also that of a kind that leads no head."""
    run = shared_run(profiled)
    sink, rare = TRAIT, replace(TRAIT, trait="rare", role="rare", verdict="tendency")
    heads = [row.head for row in run.rows[:3]]
    traits: dict[str, tuple[TraitStrength, ...]] = {
        head: (replace(sink, head=head), replace(rare, head=head)) for head in heads[:2]
    }
    traits[heads[2]] = (replace(rare, trait="previous", role="positional", head=heads[2]),)
    atlas = report_view(changed(run, traits=traits, roles={row.head: () for row in run.rows})).atlas
    cells = [cell for grid in atlas.grids for _, row in grid.layers for cell in row if cell]
    letters = {kind.letter for cell in cells for kind in (cell.kind, cell.second) if kind}
    assert {chip.kind.letter for chip in atlas.legend.chips} == letters == {"F", "R", "←"}
    assert [(chip.kind.key, chip.part, chip.count) for chip in atlas.legend.chips] == [
        ("previous", "kind", "1"),
        ("first", "kind", "2"),
        ("rare", "second", "2 as second trait"),
    ]


@pytest.mark.slow
def test_the_legend_counts_verdicts_and_heads_that_matter(profiled: Path, translator: Path):
    run = shared_run(profiled)
    verdicts = [leads.verdict if leads else "none" for leads in leading(run).values()]
    counts = [verdicts.count(name) for name in ("role", "tendency", "none")]
    assert len(set(counts)) == 3
    shown = report_view(run).atlas.legend
    assert shown.verdicts == tuple(
        (key, name, str(number))
        for key, name, number in zip(
            ("role", "tendency", "none"), ("role", "tendency", "neither"), counts, strict=True
        )
    )
    assert shown.mattering is None
    run = shared_run(translator)
    matter = [
        row.head
        for row in run.rows
        if row.values["ablation_p"] < 0.05 and row.values["ablation_delta"] > 0
    ]
    report = report_view(run)
    cells = [cell for grid in report.atlas.grids for _, row in grid.layers for cell in row if cell]
    assert matter and report.atlas.legend.mattering == str(len(matter))
    assert [cell.head for cell in cells if cell.matters] == matter


@pytest.mark.slow
def test_every_head_has_a_cell_and_a_card(translator: Path):
    run = shared_run(translator)
    report = report_view(run)
    cells = [cell for grid in report.atlas.grids for _, row in grid.layers for cell in row if cell]
    assert (
        [cell.head for cell in cells] == [card.head for card in report.cards] == list(report.heads)
    )
    assert [grid.site for grid in report.atlas.grids] == list(run.sites)


def test_layers_may_have_different_numbers_of_heads(plain: Path):
    run = shared_run(plain)
    report = report_view(changed(run, rows=run.rows[:-5]))
    last = report.atlas.grids[0].layers[-1][1]
    assert [cell is None for cell in last] == [False] * 7 + [True] * 5


def test_three_heads_to_start_with_each_with_a_reason(profiled: Path):
    run = shared_run(profiled)
    starts = report_view(run).starts
    assert run.traits is not None and len({start.head for start in starts}) == 3
    assert len({start.kind.key for start in starts if start.kind}) == 3
    first = starts[0]
    assert first.kind is not None and first.kind.key == "syntax"
    assert "; the best fixed position manages " in first.why


@pytest.mark.slow
def test_start_with_the_head_that_is_worth_most(translator: Path):
    run = shared_run(translator)
    best = max(run.rows, key=lambda row: row.values["ablation_delta"]).head
    start = report_view(run).starts[0]
    assert start.head == best and start.why.startswith("is worth most: without it, the loss rises")


def test_a_model_without_findings_says_what_to_try(roleless: Path):
    report = report_view(replace(shared_run(roleless), relations=None))
    assert report.opening.headline == "None of the 6 heads shows a role or tendency."
    corpus, task = report.opening.steps
    assert corpus.startswith("A treebank (.conllu)")
    assert "headcount importance" in task and task.endswith("shows which heads matter.")
    assert report.starts[0].why.startswith("is the sharpest")


def test_offset_bins_lump_the_far_ones():
    bins = offset_bins({-14: 0.1, -11: 0.2, -10: 0.05, 0: 0.3, 10: 0.05, 12: 0.3})
    assert bins[0] == pytest.approx(0.3)
    assert (bins[1], bins[11], bins[21], bins[22]) == (0.05, 0.3, 0.05, 0.3)
    assert sum(bins) == pytest.approx(1) and len(bins) == 23


def test_layer_means_leave_out_nan(hostile: Path):
    from headcount.analysis.layers_section import layer_means

    run = shared_run(hostile)
    means = layer_means(run.rows, "confidence")["encoder.self"]
    assert any(math.isnan(row.values["confidence"]) for row in run.rows) and means
    for layer, mean in enumerate(means):
        values = [row.values["confidence"] for row in run.rows if row.layer == layer]
        measured = [value for value in values if not math.isnan(value)]
        assert mean == pytest.approx(sum(measured) / len(measured))


def test_lines_of_layers_are_those_of_random_weights_and_of_norms(plain: Path):
    from headcount.analysis.layers_section import layer_curves, layer_means

    run = shared_run(plain)
    assert run.null_rows is not None
    figure = layer_curves(run)
    assert figure is not None
    (axes,) = [each for each in figure.axes if each.get_title() == "First token"]
    sources = {
        ":": (run.null_rows, "attn_first", " (random weights)"),
        "--": (run.rows, "norm_first", " (share of the norm-weighted sum)"),
        "-": (run.rows, "attn_first", ""),
    }
    assert [line.get_linestyle() for line in axes.lines] == [*sources], "what counts is on top"
    _, *points = axes.collections
    for line, marks, (heads, measure, note) in zip(
        axes.lines, points, sources.values(), strict=True
    ):
        means = layer_means(heads, measure)["encoder.self"]
        assert np.asarray(line.get_ydata()).tolist() == pytest.approx(means)
        texts = [f"# layer {n}: {percent(mean)}{note}" for n, mean in enumerate(means)]
        assert marks.get_urls() == texts


def test_map_scales_from_smallest_to_largest_and_skips_nan():
    shown = head_map(ColumnEntry("x", "x", "", "", percent), [0.2, math.nan, 0.7], "x")
    assert (shown.low, shown.high, shown.values) == (0.2, 0.7, (0.2, None, 0.7))
    assert shown.texts[1] == "–"


def test_diverging_map_has_zero_in_its_middle():
    shown = head_map(ColumnEntry("x", "x", "", "", str, has_signs=True), [-1.0, 3.0], "x")
    assert (shown.low, shown.high) == (-3, 3)


def test_map_of_nothing_measured():
    shown = head_map(ColumnEntry("x", "x", "", "", percent), [math.nan, math.nan], "x")
    assert (shown.low, shown.high, shown.low_text) == (None, None, "–")


def _example(weights_QK: np.ndarray, arcs: tuple[tuple[int, int], ...]) -> Example:
    queries, keys = (tuple(f"w{i}" for i in range(size)) for size in weights_QK.shape)
    return Example("syntactic", "nsubj dependent->head", queries, keys, weights_QK.tobytes(), arcs)


def test_example_keeps_strong_lines_the_largest_of_each_query_and_all_arcs():
    weights_QK = np.array([[200, 12, 13], [3, 5, 4]], dtype=np.uint8)
    view = example_view(_example(weights_QK, ((1, 2),)))
    lines = {tuple(view.lines[i : i + 3]) for i in range(0, len(view.lines), 3)}
    assert lines == {(0, 0, 200), (0, 2, 13), (1, 1, 5), (1, 2, 4)}
    assert view.arcs == (1, 2) and view.keys == ("w0", "w1", "w2") and view.note == ""
    assert view.caption == "nsubj dependent → head"


def test_long_example_is_cut_around_its_arc():
    weights_QK = np.full((100, 100), 30, dtype=np.uint8)
    weights_QK[90, 80] = 255
    view = example_view(_example(weights_QK, ((90, 80),)))
    query, key = view.arcs
    assert len(view.queries) == MAX_WORDS and view.keys is None
    assert (view.queries[query], view.queries[key]) == ("w90", "w80")
    assert view.lines[-3:] == (query, key, 255) and len(view.lines) == 3 * MAX_LINES
    assert view.note == "48 of 100 words shown"


def test_a_measure_that_is_0_for_every_head_has_no_chart(plain: Path):
    from headcount.analysis.layers_section import panels

    run = shared_run(plain)
    without = [replace(row, values={**row.values, "attn_sep": 0.0}) for row in run.rows]
    titles = [panel.title for panel in panels(run)]
    kept = [panel.title for panel in panels(changed(run, rows=tuple(without)))]
    assert "Separators" in titles and kept == [each for each in titles if each != "Separators"]


@pytest.mark.slow
def test_a_curve_in_the_folder_says_how_many_can_be_pruned(profiled: Path):
    """The loss on the development data chooses the method, random is only a comparison."""
    losses = {("fisher", 8): (1.2, 40.0), ("fisher", 4): (1.5, 30.0), ("norm", 8): (2.0, 44.0)}
    losses |= {("norm", 4): (2.5, 35.0), ("random", 8): (0.9, 20.0), ("random", 4): (0.9, 10.0)}
    points = [
        CurvePoint(
            method=method,
            seed=0,
            keep=keep,
            kept={},
            numbers={"loss": loss, "score": 50.0, "test_score": score},
            heads=(),
        )
        for (method, keep), (loss, score) in ({("all heads", 12): (1.0, 45.39)} | losses).items()
    ]
    record = CurveRecord(metric="bleu", heads={}, signature="")
    run = replace(shared_run(profiled), curve=Curve(record, CurvePoints(tuple(points))))
    assert dict(report_view(run).opening.answers)["How many can be pruned"] == (
        "On test data, BLEU is 45.4 with all 12 heads, 40.0 with 8 and 30.0 with 4, chosen by "
        "fisher. Random choices of 8 reach 20.0 on average."
    )


def test_relation_maps_mark_the_heads_that_beat_position_beyond_chance(profiled: Path):
    run = shared_run(profiled)
    assert run.traits is not None
    marked = {
        (trait.relation, trait.direction, head)
        for head, traits in run.traits.items()
        for trait in traits
        if trait.relation and trait.verdict in ("role", "tendency")
    }
    report = report_view(run)
    shown = {each.key: each for each in report.atlas.maps if each.group == "Relation accuracy"}
    found = {
        (*key.split(" "), head)
        for key, each in shown.items()
        for head, sure in zip(report.heads, each.sure or (), strict=True)
        if sure
    }
    assert found and found == {each for each in marked if f"{each[0]} {each[1]}" in shown}
    (gain,) = [each for each in report.atlas.maps if each.key == "gain"]
    assert gain.sure == tuple(any(each[2] == head for each in marked) for head in report.heads)


def test_the_map_of_syntax_leaves_out_punctuation_and_relations_with_few_cases(plain: Path):
    run = shared_run(plain)
    head = run.rows[0].head
    found = [result(head, "obj", 0.7), result(head, "punct", 0.99)]
    few = result(head, "vocative", 0.95, cases=7)
    shown = report_view(changed(run, relation_rows=(*found, few)))
    maps = {each.key: each for each in shown.atlas.maps}
    assert maps["gain"].texts[:2] == ("+20", "–")
    assert [key for key in maps if " " in key] == ["obj dependent->head", "punct dependent->head"]


@pytest.mark.slow
def test_the_map_of_effects_marks_those_beyond_chance(translator: Path):
    run = shared_run(translator)
    maps = {each.key: each for each in report_view(run).atlas.maps}
    p = [effect_of(row, "ablation_delta").p for row in run.rows]
    assert maps["ablation_delta"].sure == tuple(each < 0.05 for each in p) and min(p) < 0.05
    assert maps["gradient"].sure is None


@pytest.mark.slow
def test_a_card_says_what_happens_without_the_head(translator: Path, plain: Path):
    run = shared_run(translator)
    cards = {card.head: card for card in report_view(run).cards}
    for row in run.rows:
        verb = "rises" if row.values["ablation_delta"] >= 0 else "drops"
        assert cards[row.head].without.startswith(f"Without it, the loss {verb} by ")
    assert report_view(shared_run(plain)).cards[0].without == ""
