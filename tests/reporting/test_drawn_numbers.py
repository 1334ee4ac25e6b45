"""Figures draw the numbers of the tables: what their lines, dots and cells hold."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from headcount.analysis.layers_section import layer_curves, layer_means, panels
from headcount.analysis.syntax_section import best_heads, relations
from headcount.core import ACCENT, MUTED, PAPER, Head, Heads
from headcount.importance.document import agreement_figure as agreement
from headcount.importance.document import importance_figure as importance
from headcount.numbers import correlation, percent
from headcount.pages.card_view import offset_bins
from headcount.pages.curves import functions, layers, score_curve, sites
from headcount.pages.kinds import leading, tint
from headcount.pages.map_figures import confidence_map, role_map
from headcount.pages.worth import effect_of
from headcount.reporting.figures import positional_offsets, weight_and_norm
from headcount.results import ALL, RANDOM, Analysis, CurvePoint, CurvePoints
from tests.pages.changed import changed
from tests.pages.run_folder import shared_run


@pytest.fixture(scope="module")
def run(profiled: Path) -> Analysis:
    return shared_run(profiled)


@pytest.fixture(scope="module")
def scored(translator: Path) -> Analysis:
    return shared_run(translator)


@pytest.mark.slow
def test_offsets_of_the_most_positional_heads(run: Analysis):
    best = sorted(run.rows, key=lambda row: -row.values["positional_share"])[:6]
    figure = positional_offsets(run)
    assert figure is not None
    for axes, row in zip(figure.axes, best, strict=True):
        assert axes.get_title() == f"{row.head}   {percent(row.values['positional_share'])}"
        heights = [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]
        assert heights == pytest.approx(offset_bins(run.offset_shares[row.head]))
        colour = ACCENT if "positional" in row.roles else MUTED
        assert to_hex(axes.patches[0].get_facecolor()) == colour.lower()


def test_relations_reach_from_the_fixed_position_to_the_head(run: Analysis):
    rows = best_heads(run)[:20]
    figure = relations(run)
    assert figure is not None and rows
    (axes,) = figure.axes
    (lines,) = [each for each in axes.collections if isinstance(each, LineCollection)]
    ends = [np.asarray(each)[:, 0].tolist() for each in lines.get_segments()]
    assert ends == [pytest.approx([row.chance, row.share]) for row in rows]
    heads, fixed = (
        np.asarray(each.get_offsets(), float)[:, 0]
        for each in axes.collections
        if not isinstance(each, LineCollection)
    )
    assert heads == pytest.approx([row.share for row in rows])
    assert fixed == pytest.approx([row.chance for row in rows])
    assert [text.get_text() for text in axes.texts] == [row.head for row in rows]
    colours = [to_hex(colour) for colour in np.asarray(lines.get_color())]
    assert colours == [(ACCENT if row.is_beyond_chance else MUTED).lower() for row in rows]


def test_lines_of_layers_are_their_means(scored: Analysis):
    figure = layer_curves(scored)
    assert figure is not None
    drawn = {axes.get_title(): axes for axes in figure.axes}
    for panel in panels(scored):
        lines = [np.asarray(line.get_ydata()).tolist() for line in drawn[panel.title].lines]
        means = [*layer_means(scored.rows, panel.measure).values()]
        assert lines[-len(means) :] == [pytest.approx(each) for each in means]


def test_weights_against_norms(scored: Analysis):
    figure = weight_and_norm(scored)
    assert figure is not None
    for axes, key in zip(figure.axes, ("first", "sep", "punct"), strict=True):
        drawn = np.concatenate([np.asarray(dots.get_offsets()) for dots in axes.collections])
        values = [[row.values[f"{kind}_{key}"] for kind in ("attn", "norm")] for row in scored.rows]
        assert drawn == pytest.approx(np.array(values))
    numbered = [axes.yaxis.get_tick_params()["labelleft"] for axes in figure.axes]
    assert numbered == [True, False, False]  # one scale for all


def test_a_role_is_framed_a_tendency_pale_and_the_rest_empty(run: Analysis):
    (axes,) = role_map(run).axes
    found = leading(run)
    letters = {text.get_position(): text.get_text() for text in axes.texts}
    cells = {
        (round(cell.get_x() + 0.46), round(cell.get_y() + 0.46)): cell
        for cell in axes.patches
        if isinstance(cell, Rectangle)
    }
    shades = set[str]()
    for row in run.rows:
        cell, leads = cells[row.index, row.layer], found[row.head]
        colour = to_hex(cell.get_facecolor())
        assert letters.get((row.index, row.layer), "") == (leads.kind.letter if leads else "")
        if leads is None:
            assert colour == "#ffffff"
        elif leads.verdict == "role":
            assert colour == leads.kind.role.colour.lower() and cell.get_linewidth() > 1
        else:
            rgb = [int(leads.kind.role.colour[n : n + 2], 16) for n in (1, 3, 5)]
            pale = [255 - tint(leads) / 100 * (255 - each) for each in rgb]
            got = [int(colour[n : n + 2], 16) for n in (1, 3, 5)]
            assert got == pytest.approx(pale, abs=1) and cell.get_linewidth() == 0
            shades.add(colour)
    assert len(shades) > 1


def test_cells_of_confidence(scored: Analysis):
    figure, sites = confidence_map(scored), list(scored.by_site())
    grids = [axes for axes in figure.axes if axes.images]
    for axes, (_, rows) in zip(grids, sites, strict=True):
        (image,) = axes.images
        drawn = np.asarray(image.get_array())
        for row in rows:
            assert drawn[row.layer, row.index] == row.values["confidence"]
        assert image.get_clim() == (0, 1)


def test_effects_are_ordered_and_hollow_within_chance(scored: Analysis):
    figure = importance(scored.importance, scored.rows)
    assert figure is not None
    (axes,) = figure.axes
    rows = sorted(scored.rows, key=lambda row: -row.values["ablation_delta"])
    places = {row.head: place for place, row in enumerate(rows)}
    dots = [each for each in axes.collections if not isinstance(each, LineCollection)]
    full = [each for each in dots if len(np.asarray(each.get_offsets()))]
    for drawn, (_, heads) in zip(full, scored.by_site(), strict=True):
        effects = {places[row.head]: effect_of(row, "ablation_delta") for row in heads}
        offsets = np.asarray(drawn.get_offsets())
        assert {int(x): y for x, y in offsets} == {
            place: pytest.approx(each.delta) for place, each in effects.items()
        }
        hollow = [to_hex(face) == PAPER for face in np.asarray(drawn.get_facecolor())]
        assert hollow == [effects[int(x)].p >= 0.05 for x, _ in offsets] and any(hollow)
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    ends = sorted(np.asarray(each)[:, 1].tolist() for line in lines for each in line.get_segments())
    known = [effect_of(row, "ablation_delta") for row in rows]
    assert ends == [pytest.approx(each) for each in sorted([e.low, e.high] for e in known)]


def test_correlations_of_scores(scored: Analysis):
    matrix = scored.importance and scored.importance.agreement
    figure = agreement(scored.importance)
    assert figure is not None and matrix is not None
    (axes,) = figure.axes
    for text in axes.texts:
        column, row = map(int, text.get_position())
        assert text.get_text() == correlation(matrix.rho[row + 1][column])
    assert len(axes.texts) == 6
    drawn = np.ma.asarray(axes.images[0].get_array())
    assert drawn[2, 0] == matrix.rho[3][0] and np.ma.getmaskarray(drawn)[0, 2]


HEADS = Heads({"encoder.self": (2, 4), "decoder.self": (3,)})
NAMES = [*HEADS]


def point(method: str, heads: list[Head], score: float, seed: int = 0) -> CurvePoint:
    kept = {site: sum(head.site == site for head in heads) for site in HEADS.counts}
    numbers = {"score": score}
    return CurvePoint(
        method=method, seed=seed, keep=len(heads), kept=kept, numbers=numbers, heads=tuple(heads)
    )


POINTS = CurvePoints(
    (
        point(ALL, NAMES, 9.0),
        point("norm", NAMES[1:7], 7.0),
        point("norm", NAMES[5:7], 4.0),
        point(RANDOM, NAMES[:6], 5.0),
        point(RANDOM, NAMES[:2], 1.0),
        point(RANDOM, NAMES[3:], 6.0, seed=1),
        point(RANDOM, NAMES[7:], 3.0, seed=1),
    )
)


def test_a_curve_has_a_line_for_each_method_and_a_band_for_random():
    (axes,) = score_curve(POINTS, "score", "BLEU").axes
    lines = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
    assert sorted(lines["norm"]) == [[2, 4.0], [6, 7.0], [9, 9.0]]
    assert sorted(lines[RANDOM]) == [[2, 2.0], [6, 5.5], [9, 9.0]]
    (band,) = [each for each in axes.collections if isinstance(each, PolyCollection)]
    band = band.get_paths()[0].vertices
    assert {(x, y) for x, y in np.asarray(band).tolist()} >= {(2, 1), (2, 3), (6, 5), (6, 6)}


def test_kept_heads_by_site_layer_and_role():
    panels = {axes.get_title(): axes for axes in sites(POINTS, HEADS).axes}
    by_site = [np.asarray(line.get_xydata()).tolist() for line in panels["norm"].lines]
    assert [sorted(each) for each in by_site] == [
        [[2, 1], [6, 5], [9, 6]],
        [[2, 1], [6, 1], [9, 3]],
    ]
    grid = layers(POINTS, HEADS).axes
    shares = np.asarray(grid[0].images[0].get_array())
    assert shares == pytest.approx(np.array([[0, 0.5, 1], [0.25, 1, 1]]))
    roles = {str(head): ["sink", "rare"] if head.site[0] == "e" else [] for head in NAMES}
    first = functions(POINTS, roles).axes[0]
    heights = {
        str(bars.get_label()): [bar.get_height() for bar in bars] for bars in first.containers
    }
    assert heights == {"sink": [1, 5, 6], "no role": [1, 1, 3]}


def test_numbers_that_were_not_measured_are_not_drawn(run: Analysis):
    rows = [replace(row, values={**row.values, "confidence": math.nan}) for row in run.rows[:1]]
    figure = confidence_map(changed(run, rows=(*rows, *run.rows[1:])))
    drawn = np.ma.asarray(figure.axes[0].images[0].get_array())
    hidden = np.ma.getmaskarray(drawn)
    assert hidden.sum() == 1 and hidden[0, 0]
    (behind,) = [each for each in figure.axes[0].patches if each.get_hatch()]
    assert not behind.get_fill() or to_hex(behind.get_facecolor(), keep_alpha=True)[-2:] == "00"
