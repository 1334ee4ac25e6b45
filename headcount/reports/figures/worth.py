"""Figures of head importance: all heads ordered by effect, and the agreement of scores."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from headcount import numbers
from headcount.core import INK, MUTED, PAPER, SITE_COLOURS, amount, new_figure, say
from headcount.reports.effects import SURE
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.reports.worth import effect_of, ranked, said, scores_of
from headcount.results import Effect, HeadRow, ImportanceRecord, Matrix

_SHORT = {"entropy": "entropy", "positional_share": "positional share"}
"""Short headings of scores."""

_NAMED = 5
"""Largest number of heads named in the figure."""

_DIVERGING = LinearSegmentedColormap.from_list("agreement", ["#b34700", "#f1efe9", "#0c5a86"])
"""The diverging scale of the report."""


def importance(record: ImportanceRecord | None, heads: Sequence[HeadRow]) -> Figure | None:
    """All heads, the most important on the left, with intervals; None if not measured."""
    scores = scores_of(heads)
    if record is None or not scores:
        return None
    rows = ranked(heads, scores[0])
    effects = [effect_of(row, scores[0]) for row in rows]
    sites = [site for site in dict.fromkeys(row.site for row in heads)]
    figure = new_figure(6.6, 2.6)
    axes = figure.subplots()
    axes.axhline(0, color=MUTED, linewidth=0.6, zorder=0)
    for site in sites:
        _dots(axes, [(x, each) for x, each in enumerate(effects) if each.site == site], site)
    for x, effect in _apart(effects):
        axes.annotate(
            effect.head,
            (x, effect.delta),
            (5, 0),
            textcoords="offset points",
            size=7.5,
            color=MUTED,
            va="center",
        )
    axes.set_xlim(-1, len(rows))
    axes.set_xlabel(f"{amount(len(rows), 'head')}, the most important first")
    axes.set_ylabel(_title(record, scores[0]))
    if len(sites) > 1:
        axes.legend(loc="upper right")
    return figure


def agreement(matrix: Matrix | None) -> Figure | None:
    """Rank correlations between scores; None with fewer than two."""
    if matrix is None or len(matrix.names) < 2:
        return None
    size = len(matrix.names)
    below = np.tril(np.ones((size, size), dtype=bool), -1)[1:, :-1]
    rho_SS = np.array(matrix.rho)[1:, :-1]
    rho = np.ma.masked_where(~below | ~np.isfinite(rho_SS), rho_SS)
    figure = new_figure(0.62 * size + 1.6, 0.4 * size + 1.1)
    axes = figure.subplots()
    axes.imshow(rho, cmap=_DIVERGING, vmin=-1, vmax=1, aspect="auto")
    for row, column in zip(*np.nonzero(below), strict=True):
        value = matrix.rho[row + 1][column]
        axes.text(
            column,
            row,
            numbers.correlation(value),
            ha="center",
            va="center",
            size=7.5,
            color="white" if abs(value) > 0.8 else INK,
        )
    labels = [label(name) for name in matrix.names]
    axes.set_xticks(range(size - 1), labels[:-1], rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size - 1), labels[1:])
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_title("Spearman's rank correlation over heads")
    return figure


def _apart(effects: list[Effect]) -> list[tuple[int, Effect]]:
    """The first heads, up to where their names would overlap."""
    room = 0.06 * (effects[0].delta - effects[-1].delta)
    gaps = [above.delta - below.delta for above, below in pairwise(effects[: _NAMED + 1])]
    named = next((place for place, gap in enumerate(gaps) if gap < room), len(gaps))
    return list(enumerate(effects[:named]))


def _dots(axes: Axes, places: list[tuple[int, Effect]], site: str) -> None:
    """Draw the heads of one site; a hollow dot is an effect that may be chance."""
    colour = SITE_COLOURS.get(site, INK)
    x, y = [place for place, _ in places], [effect.delta for _, effect in places]
    known = [(place, each) for place, each in places if math.isfinite(each.low)]
    lows, highs = [each.low for _, each in known], [each.high for _, each in known]
    axes.vlines([n for n, _ in known], lows, highs, color=colour, linewidth=0.8, alpha=0.45)
    faces = [PAPER if effect.p >= SURE else colour for _, effect in places]
    marks = axes.scatter(x, y, s=11, c=faces, edgecolors=colour, linewidths=0.7, zorder=3)
    each = [effect for _, effect in places]
    say(marks, map(said, each), [effect.head for effect in each])
    axes.scatter([], [], s=11, color=colour, label=SITE_TITLES.get(site, site))


def label(name: str) -> str:
    """The short heading for a column of the table of heads."""
    if name in _SHORT:
        return _SHORT[name]
    return MEASURES[name].label if name in MEASURES else name.replace("_", " ")


def _title(found: ImportanceRecord, score: str) -> str:
    return found.effect if score == "ablation_delta" else MEASURES[score].label
