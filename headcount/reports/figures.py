"""Figures for a paper, as SVG, PNG and PDF: one function a figure, each from a run to a matplotlib figure."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from headcount.errors import InputError
from headcount.reports.card_view import MAX_OFFSET, offset_bins
from headcount.reports.curve_view import layer_means
from headcount.reports.figure_style import (
    ACCENT,
    FORMATS,
    INK,
    LINE,
    MUTED,
    SITE_COLOURS,
    SITE_MARKERS,
    new_figure,
    plain_grid,
    save,
    styled,
)
from headcount.reports.measure_names import SITE_TITLES
from headcount.reports.numbers import percent
from headcount.reports.read import Run, read_run
from headcount.reports.relation_view import relation_table
from headcount.reports.role_names import role_names


def write_figures(folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw every figure that the run has numbers for, into `folder/figures`.

    Raises:
        InputError: when a result file is missing or damaged, or a format is unknown.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise InputError(f"figures can be written as {', '.join(FORMATS)}; came {unknown}")
    run = read_run(folder)
    paths = []
    with styled():
        for name, draw in FIGURES.items():
            figure = draw(run)
            if figure is not None:
                paths += [save(figure, folder / "figures" / f"{name}.{kind}") for kind in formats]
    return paths


def role_map(run: Run) -> Figure:
    """Layers x heads, coloured by role; a head with several roles is split."""
    roles = {head: [role.role for role in found] for head, found in run.roles.items()}
    names = role_names(name for found in roles.values() for name in found)
    figure, all_axes = _site_axes(run, extra=0.5)
    for axes, (_, rows) in zip(all_axes, _by_site(run), strict=True):
        for row in rows.to_dict("records"):
            found = [names[name] for name in roles[row["head"]]]
            _split_cell(axes, row["index"], row["layer"], [role.colour for role in found])
            if found:
                _label(axes, row["index"], row["layer"], found[0].abbreviation, found[0].ink,
                       len(found))  # fmt: skip
    patches = [
        Patch(facecolor=role.colour, label=f"{role.abbreviation}  {role.name}")
        for role in names.values()
    ]
    patches.append(Patch(facecolor="white", edgecolor=LINE, label="no role"))
    figure.legend(handles=patches, loc="outside lower center", ncols=min(4, len(patches)))
    return figure


def confidence_map(run: Run) -> Figure:
    """Layers x heads, shaded by confidence; hatched where it could not be measured."""
    figure, all_axes = _site_axes(run, extra=0.0)
    image = None
    for axes, (_, rows) in zip(all_axes, _by_site(run), strict=True):
        shape = (int(rows["layer"].max()) + 1, int(rows["index"].max()) + 1)
        grid = np.full(shape, np.nan)
        grid[rows["layer"], rows["index"]] = rows["confidence"]
        axes.set_facecolor("white")
        axes.add_patch(
            Rectangle((-0.5, -0.5), shape[1], shape[0], hatch="////", facecolor="none",
                      edgecolor=LINE, linewidth=0)
        )  # fmt: skip
        image = axes.imshow(np.ma.masked_invalid(grid), cmap="cividis_r", vmin=0, vmax=1,
                            aspect="auto")  # fmt: skip
    assert image is not None
    bar = figure.colorbar(image, ax=all_axes, shrink=0.8, pad=0.02)
    bar.set_label("confidence (mean largest weight)")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return figure


def positional_offsets(run: Run, limit: int = 6) -> Figure:
    """Offset profiles of the most positional heads."""
    heads = run.heads.sort_values("positional_share", ascending=False, kind="stable").head(limit)
    columns = min(3, len(heads))
    rows = -(-len(heads) // columns)
    figure = new_figure(2.4 * columns, 1.4 * rows + 0.3)
    all_axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, row in zip(all_axes.flat, heads.to_dict("records"), strict=False):
        shares = offset_bins(run.offsets[run.offsets["head"] == row["head"]])
        offsets = range(-MAX_OFFSET - 1, MAX_OFFSET + 2)
        is_positional = any(role.role == "positional" for role in run.roles[row["head"]])
        axes.bar(offsets, shares, width=0.85, color=ACCENT if is_positional else MUTED)
        axes.set_title(f"{row['head']}   {percent(row['positional_share'])}")
        axes.set_xticks([-10, -5, 0, 5, 10])
        axes.set_ylim(0, 1)
    for axes in all_axes.flat[len(heads) :]:
        axes.set_visible(False)
    figure.supxlabel("offset of the largest weight (key − query)", fontsize=8)
    figure.supylabel("share of queries", fontsize=8)
    return figure


def relations(run: Run, limit: int = 20) -> Figure | None:
    """Best head of each relation against the best fixed offset; None without trees."""
    if run.relations is None or run.relations.empty:
        return None
    table = relation_table(run.relations, None)
    best = [
        max((score for score in row.best if score is not None), key=_gain)
        for row in (table.rows or table.few_rows)[:limit]
    ]
    figure = new_figure(5.6, 0.24 * len(best) + 0.9)
    axes = figure.subplots()
    places = np.arange(len(best))
    accuracy = [score.accuracy or 0.0 for score in best]
    baseline = [score.baseline or 0.0 for score in best]
    colours = [ACCENT if score.beats else MUTED for score in best]
    axes.hlines(places, baseline, accuracy, color=colours, linewidth=1.6)
    axes.scatter(accuracy, places, color=colours, s=22, zorder=3, label="best head")
    axes.scatter(baseline, places, marker="|", color=INK, s=60, zorder=3, label="best fixed offset")
    axes.set_yticks(places, [f"{score.relation}, {score.direction}" for score in best])
    for place, score in zip(places, best, strict=True):
        axes.text(1.02, float(place), score.head, va="center", color=MUTED, family="monospace", size=7)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(best) - 0.4, -0.6)
    axes.set_xlabel("accuracy")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def layer_curves(run: Run) -> Figure:
    """Mean per layer of confidence, entropy and the weight on first token and separators."""
    panels = (("confidence", "confidence"), ("entropy", "entropy (nats)"),
              ("attn_first", "weight on the first token"),
              ("attn_sep", "weight on separators"))  # fmt: skip
    figure = new_figure(6.6, 4.0)
    all_axes = figure.subplots(2, 2, sharex=True)
    for axes, (column, title) in zip(all_axes.flat, panels, strict=True):
        axes.scatter(run.heads["layer"], run.heads[column], s=4, color=MUTED, alpha=0.35, linewidth=0)
        _layer_lines(axes, run, column)
        axes.set_title(title)
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(0, int(run.heads["layer"].max()) + 1))
    for axes in all_axes[-1]:
        axes.set_xlabel("layer")
    handles, labels = all_axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def weight_and_norm(run: Run) -> Figure | None:
    """Weight against norm-weighted share for each head; None when norms were not measured."""
    panels = (("first", "first token"), ("sep", "separators"), ("punct", "punctuation"))
    if run.heads[[f"norm_{key}" for key, _ in panels]].isna().to_numpy().all():
        return None
    figure = new_figure(6.8, 2.6)
    all_axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, (key, title) in zip(all_axes, panels, strict=True):
        axes.plot([0, 1], [0, 1], color=LINE, linewidth=0.8, zorder=0)
        for site, rows in _by_site(run):
            axes.scatter(rows[f"attn_{key}"], rows[f"norm_{key}"], s=12, alpha=0.7, linewidth=0,
                         color=SITE_COLOURS.get(site, INK), marker=SITE_MARKERS.get(site, "D"),
                         label=SITE_TITLES.get(site, site))  # fmt: skip
        axes.set_title(title)
        axes.set_xlabel("weight")
        axes.set_box_aspect(1)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
    all_axes[0].set_ylabel("norm-weighted share")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


FIGURES: dict[str, Callable[[Run], Figure | None]] = {
    "role_map": role_map,
    "confidence_map": confidence_map,
    "positional_offsets": positional_offsets,
    "relations": relations,
    "layer_curves": layer_curves,
    "weight_and_norm": weight_and_norm,
}
"""Every figure by the name of its file."""


def _by_site(run: Run):
    return [(str(site), rows) for site, rows in run.heads.groupby("site", sort=False)]


def _site_axes(run: Run, extra: float) -> tuple[Figure, list[Axes]]:
    """One map per site side by side, cells of a fixed size."""
    sites = _by_site(run)
    shapes = [(int(r["layer"].max()) + 1, int(r["index"].max()) + 1) for _, r in sites]
    columns = [shape[1] for shape in shapes]
    width = 0.34 * sum(columns) + 0.7 * len(sites) + 0.8
    figure = new_figure(width, 0.3 * max(shape[0] for shape in shapes) + 0.8 + extra)
    grid = figure.subplots(1, len(sites), squeeze=False, width_ratios=columns)
    for axes, shape, (site, _) in zip(grid.flat, shapes, sites, strict=True):
        plain_grid(axes, *shape)
        axes.set_title(SITE_TITLES.get(site, site))
    return figure, list(grid.flat)


def _split_cell(axes: Axes, index: int, layer: int, colours: list[str]) -> None:
    """A cell in horizontal bands, the main role on top; an outline when there is no role."""
    left, top, size = index - 0.46, layer - 0.46, 0.92
    if not colours:
        axes.add_patch(Rectangle((left, top), size, size, facecolor="white", edgecolor=LINE))
    for band, colour in enumerate(colours):
        height = size / len(colours)
        axes.add_patch(Rectangle((left, top + band * height), size, height, facecolor=colour, linewidth=0))


def _label(axes: Axes, index: int, layer: int, text: str, ink: str, num_bands: int) -> None:
    middle = layer - 0.46 + 0.46 / num_bands
    axes.text(index, middle, text, ha="center", va="center", size=6, color=ink)


def _gain(score) -> float:
    return (score.accuracy or 0.0) - (score.baseline or 0.0)


def _layer_lines(axes: Axes, run: Run, column: str) -> None:
    for site, means in layer_means(run.heads, column).items():
        axes.plot(range(len(means)), means, color=SITE_COLOURS.get(site, INK), linewidth=1.4,
                  marker=SITE_MARKERS.get(site, "D"), markersize=3.5,
                  label=SITE_TITLES.get(site, site))  # fmt: skip
