"""Figures of a curve: score against heads kept, by method, and which heads those are.

Figures 7 to 10 of Analyzing Multi-Head Self-Attention (Voita et al., 2019), for any model and any
method: score against heads kept (7), functions of the kept heads (8), heads kept at each site (9)
and in each layer (10). https://arxiv.org/abs/1905.09418
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from headcount.core import (
    LINE,
    MUTED,
    SITE_COLOURS,
    SITE_MARKERS,
    Chart,
    Heads,
    grid_of,
    new_figure,
    panel_grid,
    say,
)
from headcount.numbers import effect
from headcount.pages.names import SITE_TITLES
from headcount.results import METRICS, RANDOM, CurvePoint, CurvePoints, loss_unit
from headcount.vocabulary import roles_named

NONE = "no role"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A3E9D", "#8C564B")
"""Colours of the methods, in order; colour-blind readers can distinguish them."""
MARKERS = "os^Dv<>P"
IN_A_ROW = 3
Panels = list[tuple[str, Axes]]
"""Each method with its axes."""


def score_curve(points: CurvePoints, column: str, label: str) -> Figure:
    """A number against heads kept, one line per method; random shows mean and range over seeds."""
    figure = new_figure(5.8, 3.4)
    axes = figure.subplots()
    dense = points.dense.numbers[column]
    axes.axhline(dense, color=MUTED, linewidth=0.7, linestyle="--", zorder=0)
    axes.annotate(
        "all heads",
        (0, dense),
        (3, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        size=7.5,
        color=MUTED,
    )
    for number, method in enumerate(points.methods):
        if method == RANDOM:
            _random(axes, points, column)
            continue
        rows = points.first_seed(method)
        keeps, values = [row.keep for row in rows], [row.numbers[column] for row in rows]
        (line,) = axes.plot(
            keeps,
            values,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=3.5,
            linewidth=1.3,
            label=method,
        )
        said = zip(keeps, values, strict=True)
        _say(axes, line, [f"{method}, {keep:,} kept: {effect(value)}" for keep, value in said])
        if method in points.controls:
            control = points.controls[method]
            axes.plot(
                control.keep,
                control.numbers[column],
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
                markerfacecolor="none",
                linestyle="none",
                clip_on=False,
                label=f"{method}, control",
            )
    axes.set(xlabel=_left(points), ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right upper")
    return figure


def sites(points: CurvePoints, heads: Heads) -> Figure:
    """Heads kept at each site by budget, one panel per method; random shows its first seed."""
    figure, panels = _panels(points)
    for method, axes in panels:
        rows = points.first_seed(method)
        for site in heads.counts:
            axes.plot(
                [row.keep for row in rows],
                [row.kept[site] for row in rows],
                color=SITE_COLOURS[site],
                marker=SITE_MARKERS[site],
                markersize=3,
                linewidth=1.3,
                label=SITE_TITLES[site],
            )
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return _labelled(figure, _left(points), "heads kept at the site", panels)


def functions(points: CurvePoints, roles: Mapping[str, Sequence[str]]) -> Figure:
    """Main roles of the kept heads, one panel per method; random shows its first seed."""
    main = {head: each[0] if each else NONE for head, each in roles.items()}
    shown = roles_named(role for role in main.values() if role != NONE)
    colours = {name: role.colour for name, role in shown.items()} | {NONE: LINE}
    figure, panels = _panels(points)
    for method, axes in panels:
        rows = points.first_seed(method)
        bottom_K = np.zeros(len(rows))
        for role, colour in colours.items():
            count_K = np.array(
                [[main[str(head)] for head in row.heads].count(role) for row in rows]
            )
            axes.bar(range(len(rows)), count_K, 0.8, bottom_K, color=colour, label=role)
            bottom_K = bottom_K + count_K
        axes.set_xticks(range(len(rows)), [str(row.keep) for row in rows])
    return _labelled(figure, _left(points), "heads, by main role", panels)


def layers(points: CurvePoints, heads: Heads) -> Figure:
    """Share of each layer kept under each budget; one row per method, one column per site."""
    methods, columns = points.methods, list(heads.counts)
    size = (2.1 * len(columns) + 1.0, 1.25 * len(methods) + 0.6)
    figure, grid = grid_of(len(methods), len(columns), size, sharex=True)
    images = [
        _layer_map(grid[row, column], points.first_seed(method), heads, site)
        for row, method in enumerate(methods)
        for column, site in enumerate(columns)
    ]
    for row, method in enumerate(methods):
        grid[row, 0].set_ylabel(f"{method}\nlayer")
    for column, site in enumerate(columns):
        grid[0, column].set_title(SITE_TITLES[site], size=7.5)
    figure.supxlabel(_left(points), fontsize=8)
    bar = figure.colorbar(images[0], ax=list(grid.flat), shrink=0.5, pad=0.02)
    bar.set_label("share kept")
    return figure


def _left(points: CurvePoints) -> str:
    """The label of an axis of budgets."""
    return f"heads kept, of {points.dense.keep}"


def curve_charts(
    points: CurvePoints,
    heads: Heads,
    metric: str,
    roles: Mapping[str, Sequence[str]] | None = None,
) -> list[Chart]:
    """All figures of a curve; those of the development set are details if there is a test set."""
    charts = list[Chart]()
    has_test = "test_score" in points or "test_loss" in points
    labels = {"score": METRICS.get(metric, metric), "loss": f"loss ({loss_unit(metric)})"}
    for prefix, data in (("", "development set"), ("test_", "test set")):
        for column, label in labels.items():
            name, says = f"{prefix}{column}", f"{column.capitalize()} by kept heads, {data}"
            draw = partial(score_curve, points, name, f"{label}, {data}")
            drawn = draw if name in points else _nothing
            charts.append(Chart(f"curve_{name}", says, drawn, bool(prefix) != has_test))
    kept = _nothing if roles is None else partial(functions, points, roles)
    return [
        *charts,
        Chart("sites", "Kept heads of every site", partial(sites, points, heads), True),
        Chart("layers", "Kept heads of every layer", partial(layers, points, heads), True),
        Chart("functions", "Kept heads of every role", kept, True),
    ]


def _nothing() -> None:
    """What is drawn without numbers."""


def _random(axes: Axes, points: CurvePoints, column: str) -> None:
    """Mean and range of the random orders, up to the dense model."""
    dense = points.dense
    values = {keep: points.values(RANDOM, keep, column) for keep in reversed(points.keeps)}
    values |= {dense.keep: [dense.numbers[column]]}
    keeps = list(values)
    lows, highs = [min(each) for each in values.values()], [max(each) for each in values.values()]
    axes.fill_between(keeps, lows, highs, color=LINE, alpha=0.7, linewidth=0, zorder=0)
    means = [float(np.mean(each)) for each in values.values()]
    (line,) = axes.plot(keeps, means, color=MUTED, linewidth=1.1, label=RANDOM, zorder=1)
    ranges = zip(keeps, means, lows, highs, strict=True)
    _say(
        axes,
        line,
        [
            f"{RANDOM}, {keep:,} kept: {effect(mean)} ({effect(low)} to {effect(high)})"
            for keep, mean, low, high in ranges
        ],
    )


def _say(axes: Axes, line: Line2D, texts: list[str]) -> None:
    """Let the points of a line say their numbers; the marks that do are invisible."""
    say(axes.scatter(*line.get_data(), s=36, alpha=0, zorder=4), texts)


def _panels(points: CurvePoints) -> tuple[Figure, Panels]:
    """One small panel per method, three in a row."""
    methods, shared = points.methods, {"sharex": True, "sharey": True}
    figure, grid = panel_grid(len(methods), IN_A_ROW, (2.2, 1.6), (0.6, 0.9), **shared)
    for method, axes in zip(methods, grid, strict=True):
        axes.set_title(method)
    for axes in grid[-IN_A_ROW:]:  # nothing is below them
        axes.tick_params(labelbottom=True)
    return figure, list(zip(methods, grid, strict=True))


def _labelled(figure: Figure, x: str, y: str, panels: Panels) -> Figure:
    """Add axis labels and a legend with one column per panel: no name is wider than a panel."""
    figure.supxlabel(x, fontsize=8)
    figure.supylabel(y, fontsize=8)
    handles, labels = panels[0][1].get_legend_handles_labels()
    columns = min(IN_A_ROW, len(panels))
    figure.set_figheight(figure.get_figheight() + 0.15 * (-(-len(labels) // columns) - 1))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)
    return figure


def _layer_map(axes: Axes, rows: list[CurvePoint], heads: Heads, site: str) -> AxesImage:
    """Layers x budgets; darker cells keep a larger share of the layer, and none is black."""
    share_LK = np.zeros((len(heads.counts[site]), len(rows)))
    for column, row in enumerate(rows):
        for head in row.heads:
            if head.site == site:
                share_LK[head.layer, column] += 1 / heads.counts[site][head.layer]
    axes.set_xticks(range(len(rows)), [str(row.keep) for row in rows])
    axes.set_yticks(range(len(share_LK)))
    axes.tick_params(length=0)
    return axes.imshow(share_LK, cmap="Blues", vmin=0, vmax=1, aspect="auto")
