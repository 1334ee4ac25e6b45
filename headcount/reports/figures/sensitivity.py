"""Figure of a sensitivity: attention to kinds of tokens by layer, and the loss's reaction to it."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import ACCENT, FORMATS, INK, SITES, new_figure, save, styled
from headcount.reports.names import SITE_TITLES
from headcount.results import KINDS, Sensitivity, SensitivityRow

_COLOURS: dict[str, str] = dict(zip(KINDS, (ACCENT, "#0072B2", "#009E73", INK), strict=True))
_MARKERS: dict[str, str] = dict(zip(KINDS, "osD^", strict=True))
_NAMES = {"attention": "mean attention of a query", "gradient": "mean |dL/dA|"}


def sensitivity_curves(found: Sensitivity) -> Figure:
    """By layer, attention to every kind of token above, the loss's reaction to it below."""
    sites = [site for site in SITES if any(row.site == site for row in found.rows)]
    figure = new_figure(3.1 * len(sites) + 0.9, 4.4)
    grid = figure.subplots(2, len(sites), squeeze=False, sharex="col")
    for column, site in enumerate(sites):
        for axes, metric in zip(grid[:, column], _NAMES, strict=True):
            for kind in KINDS:
                _curve(axes, [row for row in found.layers(metric, kind) if row.site == site])
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if column == 0:
                axes.set_ylabel(_NAMES[metric])
        grid[0, column].set_title(SITE_TITLES.get(site, site))
        grid[1, column].set_xlabel("layer")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _curve(axes: Axes, rows: Sequence[SensitivityRow]) -> None:
    rows = [row for row in rows if row.cases and row.value == row.value]
    if not rows:
        return
    kind, layers = rows[0].kind, [row.layer for row in rows]
    colour = _COLOURS[kind]
    low, high = ([getattr(row, end) for row in rows] for end in ("low", "high"))
    axes.fill_between(layers, low, high, color=colour, alpha=0.2, linewidth=0)
    values = [row.value for row in rows]
    axes.plot(layers, values, _MARKERS[kind], ls="-", ms=4, lw=1.2, color=colour, label=kind)


def write_sensitivity_figures(
    found: Sensitivity, folder: Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw the curves of a sensitivity into `folder/figures`."""
    with styled():
        figure = sensitivity_curves(found)
        return [save(figure, folder / "figures" / f"sensitivity.{kind}") for kind in formats]
