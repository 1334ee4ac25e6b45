"""Figures of a run for a paper, as SVG, PNG and PDF; here those of profiles, relations and layers.

Each is a function of a run that draws a figure, or returns None where the run lacks its numbers.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headcount.analysis import layer_curves, relations
from headcount.commands import document_of
from headcount.core import (
    ACCENT,
    FORMATS,
    INK,
    LINE,
    MUTED,
    SITE_COLOURS,
    SITE_MARKERS,
    InputError,
    for_column,
    grid_of,
    panel_grid,
    save_all,
    styled,
    with_variants,
)
from headcount.importance import agreement_figure, importance_figure
from headcount.numbers import percent
from headcount.pages import (
    MAX_OFFSET,
    MEASURES,
    SITE_TITLES,
    confidence_map,
    heard,
    offset_bins,
    role_map,
)
from headcount.results import Analysis, HeadRow, RunRecord, read_run


def positional_offsets(run: Analysis, limit: int = 6) -> Figure | None:
    """Offset profiles of the heads with the largest positional share; None for images."""
    if "positional_share" not in run.measures:
        return None
    heads = sorted(run.rows, key=_positional, reverse=True)[:limit]
    figure, grid = panel_grid(len(heads), 3, (2.4, 1.4), (0.0, 0.3), sharex=True, sharey=True)
    for axes, row in zip(grid, heads, strict=True):
        shares = offset_bins(run.offset_shares.get(row.head, {}))
        offsets = range(-MAX_OFFSET - 1, MAX_OFFSET + 2)
        colour = ACCENT if "positional" in row.roles else MUTED
        axes.bar(offsets, shares, width=0.85, color=colour)
        axes.set_title(f"{row.head}   {percent(row.values['positional_share'])}")
        axes.set_xticks([-10, -5, 0, 5, 10])
        axes.set_ylim(0, 1)
    figure.supxlabel("offset of the largest weight (key − query)", fontsize=8)
    figure.supylabel("share of queries", fontsize=8)
    return figure


def weight_and_norm(run: Analysis) -> Figure | None:
    """Weight against norm-weighted share for each head; None if norms were not measured."""
    panels = [each for each in MEASURES.values() if each.norm in run.measures]
    if all(math.isnan(row.values[each.norm]) for row in run.rows for each in panels):
        return None
    size = (6.8 if len(panels) > 1 else 2.6, 2.6)
    figure, (all_axes,) = grid_of(1, len(panels), size, sharex=True, sharey=True)
    for axes, column in zip(all_axes, panels, strict=True):
        axes.plot([0, 1], [0, 1], color=LINE, linewidth=0.8, zorder=0)
        for site, rows in run.by_site():
            weights, norms = (
                [row.values[key] for row in rows] for key in (column.key, column.norm)
            )
            axes.scatter(
                weights,
                norms,
                s=12,
                alpha=0.7,
                linewidth=0,
                color=SITE_COLOURS.get(site, INK),
                marker=SITE_MARKERS.get(site, "D"),
                label=SITE_TITLES.get(site, site),
            )
        axes.set(title=heard(column.rests, run), xlabel="weight", xlim=(0, 1), ylim=(0, 1))
        axes.set_box_aspect(1)
    all_axes[0].set_ylabel("norm-weighted share")
    _site_legend(figure, all_axes[0])
    return figure


def _positional(row: HeadRow) -> float:
    share = row.values["positional_share"]
    return -1.0 if math.isnan(share) else share


def _site_legend(figure: Figure, axes: Axes) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)


FIGURES: dict[str, Callable[[Analysis], Figure | None]] = {
    "role_map": role_map,
    "confidence_map": confidence_map,
    "positional_offsets": positional_offsets,
    "relations": relations,
    "layer_curves": layer_curves,
    "weight_and_norm": weight_and_norm,
    "importance": lambda run: importance_figure(run.importance, run.rows),
    "agreement": lambda run: agreement_figure(run.importance),
}
"""Every figure by its file name."""


def write_figures(folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw every figure that the run has numbers for, into `folder/figures`.

    Raises:
        InputError: if a result file is missing or damaged, or a format is unknown.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise InputError(f"Expected formats among {', '.join(FORMATS)}, got {unknown}")
    with styled():
        return save_all(_drawn(folder), folder / "figures", formats)


PAPER_FORMATS = ("pdf", "svg")
"""What papers include."""


def write_paper_figures(folder: Path, out: Path) -> list[Path]:
    """Draw every figure of the results in a folder for one column of a paper, as PDF and SVG.

    They are 3.3 inches wide with letters of 8 points, so that LaTeX need not scale them.

    Args:
        folder: folder of the run.
        out: folder of the figures.

    Raises:
        InputError: if a result file is missing or damaged.
    """
    with styled(), for_column():
        figures = _drawn(folder) if (folder / RunRecord.FILE).exists() else {}
        for kind in (its.result_type for its in with_variants() if its.document):
            found = kind.read_if_any(folder)
            charts = {} if found is None else document_of(found, folder).charts
            figures |= {name: draw() for name, draw in charts.items()}
        return save_all(figures, out, PAPER_FORMATS)


def _drawn(folder: Path) -> dict[str, Figure | None]:
    run = read_run(folder)
    return {name: draw(run) for name, draw in FIGURES.items()}
