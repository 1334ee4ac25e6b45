"""Figures of probes: dependency trees from attention, distances and depths, and layers."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from matplotlib.ticker import MaxNLocator

from headcount.core import (
    ACCENT,
    INK,
    LINE,
    MUTED,
    Head,
    grid_of,
    named_rows,
    new_figure,
    plain_grid,
)
from headcount.pages import DIVERGING
from headcount.probing.result import Probed, ProbeRow, ProbeTree

VARIANTS = {
    "trained": "trained model",
    "random-init": "random weights",
    "distances": "distances for attention",
    "random-labels": "random labels",
    "majority": "most frequent class",
    "next-word": "next word",
    "offset": "best fixed offset",
    "scalar-mix": "mix of all hidden states",
}
"""Titles of variants."""

_CURVES = (INK, ACCENT, "#0072B2", "#009E73")


def probe_accuracies(found: Probed) -> Figure | None:
    """Accuracies of attention and edge probes beside their baselines and controls."""
    titles = {"attention": "attention", "words": "attention + words", "edges": "pairs of words"}
    metrics = {"uas": "UAS", "edge-accuracy": "arc or none", "relation-accuracy": "which relation"}
    rows = [
        row
        for row in found.rows
        if row.probe in titles and row.metric in metrics and row.relation == "all"
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: (list(titles).index(row.probe), list(metrics).index(row.metric)))
    names = [
        f"{titles[row.probe]}, {metrics[row.metric]}: {VARIANTS.get(row.variant, row.variant)}"
        for row in rows
    ]
    figure, axes = named_rows(names, (5.6, 0.24), "share that is right, with its 95 % interval")
    for place, row in enumerate(rows):
        colour = ACCENT if row.variant == "trained" else MUTED
        axes.plot([row.low, row.high], [place, place], color=colour, linewidth=1.6)
        axes.scatter([row.value], [place], color=colour, s=22, zorder=3)
        number = f"{100 * row.value:.1f}"
        axes.text(1.08, place, number, ha="right", va="center", color=MUTED, size=7)
    return figure


def probe_relations(found: Probed, limit: int = 25) -> Figure | None:
    """UAS by relation: attention, attention + words, and the best fixed offset."""
    shown = {
        ("words", "trained"): ("attention + words", ACCENT, "o"),
        ("attention", "trained"): ("attention", INK, "o"),
        ("attention", "offset"): ("best fixed offset", MUTED, "|"),
    }
    values = {
        (row.probe, row.variant, row.relation): row
        for row in found.rows
        if row.metric == "uas" and row.relation not in ("all", "macro")
    }
    relations = [
        relation
        for probe, variant, relation in values
        if (probe, variant) == ("attention", "offset")
        and values[probe, variant, relation].cases >= found.record.min_cases
    ][:limit]
    if not relations:
        return None
    figure, axes = named_rows(relations, (5.0, 0.22), "share of words with the right head")
    for (probe, variant), (title, colour, marker) in shown.items():
        places = [n for n, each in enumerate(relations) if (probe, variant, each) in values]
        if places:
            axes.scatter(
                [values[probe, variant, relations[n]].value for n in places],
                places,
                color=colour,
                marker=marker,
                s=60 if marker == "|" else 20,
                label=title,
                zorder=3,
            )
    for place in range(len(relations)):
        axes.axhline(place, color=LINE, linewidth=0.5, zorder=0)
    figure.legend(loc="outside upper right", ncols=3)
    return figure


def probe_contributions(found: Probed) -> Figure | None:
    """Layers x heads: what each head adds to the attention probe."""
    if not found.weights:
        return None
    heads = [Head.parse(each.head) for each in found.weights]
    grid = np.full((1 + max(h.layer for h in heads), 1 + max(h.index for h in heads)), np.nan)
    for head, weight in zip(heads, found.weights, strict=True):
        grid[head.layer, head.index] = weight.contribution
    most = float(np.nanmax(np.abs(grid)))
    figure = new_figure(0.3 * grid.shape[1] + 1.6, 0.3 * grid.shape[0] + 0.9)
    axes = figure.subplots()
    image = axes.imshow(np.ma.masked_invalid(grid), cmap=DIVERGING, vmin=-most, vmax=most)
    plain_grid(axes, *grid.shape)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label("nats for the right head")
    return figure


def probe_structure(found: Probed) -> Figure | None:
    """Scores of structural probes over hidden states, and over ranks where there are several."""
    rows = [row for row in found.rows if row.probe == "structure"]
    if not rows:
        return None
    first = rows[0].rank
    ranks = sorted({row.rank for row in rows if row.rank is not None})
    panels = 1 if len(ranks) == 1 else 2
    figure, (all_axes,) = grid_of(1, panels, (3.4 if panels == 1 else 6.4, 2.6), sharey=True)
    metrics = {
        "uuas": "UUAS",
        "spearman-distance": "rank correlation of distances",
        "spearman-depth": "rank correlation of depths",
        "root": "root",
    }
    for (metric, title), colour in zip(metrics.items(), _CURVES, strict=True):
        of_metric = [row for row in rows if row.metric == metric]
        trained = [row for row in of_metric if (row.variant, row.rank) == ("trained", first)]
        _curve(all_axes[0], [(row.layer or 0, row) for row in trained], colour, title)
        for row in of_metric:
            if row.variant != "trained":
                all_axes[0].scatter([row.layer], [row.value], marker="x", color=colour, s=18)
        if len(ranks) > 1:
            best = max(trained, key=lambda row: row.value).layer if trained else None
            best = next((row.layer for row in of_metric if row.rank != first), best)
            by_rank = [row for row in of_metric if (row.variant, row.layer) == ("trained", best)]
            by_rank.sort(key=lambda row: row.rank or 0)
            _curve(all_axes[1], [(row.rank or 1, row) for row in by_rank], colour, title)
            all_axes[1].set_xscale("log", base=2)
            all_axes[1].set_xticks(ranks, [str(rank) for rank in ranks])
            all_axes[1].set_xlabel(f"rank, at hidden state {best}")
    all_axes[0].set_xlabel("hidden state (0: embeddings); × random weights")
    all_axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    all_axes[0].set_ylim(min(0, *(row.value for row in rows)), 1)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def probe_layers(found: Probed) -> Figure | None:
    """Accuracy of tags and relations at every hidden state, and the weights of the scalar mix."""
    rows = [row for row in found.rows if row.probe == "layers"]
    if not rows:
        return None
    figure, ((accuracy, weights),) = grid_of(1, 2, (6.4, 2.5), sharex=True)
    for asked, colour in (("tag", INK), ("relation", ACCENT)):
        curve = [
            row for row in rows if (row.metric, row.variant) == (f"{asked}-accuracy", "trained")
        ]
        _curve(accuracy, [(row.layer or 0, row) for row in curve], colour, asked)
        mix = [row for row in rows if row.metric == f"{asked}-weight"]
        weights.plot(
            [row.layer or 0 for row in mix],
            [row.value for row in mix],
            color=colour,
            marker="o",
            markersize=3.5,
        )
        centre = [row.value for row in rows if row.metric == f"{asked}-centre-of-gravity"]
        for value in centre:
            weights.axvline(value, color=colour, linewidth=0.8, linestyle=":")
    accuracy.set_ylabel("accuracy")
    weights.set_ylabel("weight in the mix (dotted: centre)")
    weights.set_ylim(bottom=0)
    for axes in (accuracy, weights):
        axes.set_xlabel("hidden state (0: embeddings)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*accuracy.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def probe_trees(found: Probed) -> Figure | None:
    """Trees that the best hidden state gives for some test sentences, beside the gold ones."""
    scores = {
        row.layer: row.value
        for row in reversed(found.rows)
        if (row.probe, row.metric, row.variant) == ("structure", "uuas", "trained")
    }
    if not found.record.trees or not scores:
        return None
    best = max(scores, key=lambda layer: scores[layer])
    trees = [tree for tree in found.record.trees if tree.layer == best]
    if not trees:
        return None
    figure = new_figure(6.6, 1.7 * len(trees) + 0.2)
    for axes, tree in zip(figure.subplots(len(trees), 1, squeeze=False)[:, 0], trees, strict=True):
        _draw_tree(axes, tree)
    figure.supxlabel(
        f"above: gold arcs; below: predicted at hidden state {best}, wrong ones dashed", fontsize=8
    )
    return figure


def _draw_tree(axes: Axes, tree: ProbeTree) -> None:
    widths = [max(len(word), 2) + 1.5 for word in tree.words]
    centres = np.cumsum(widths) - np.array(widths) / 2
    for word, centre, counts in zip(tree.words, centres, tree.counts, strict=True):
        colour = INK if counts else MUTED
        axes.text(centre, 0, word, ha="center", va="center", size=7, color=colour)
    gold = set(tree.gold)
    highest = 1.0
    for pairs, side in ((tree.gold, 1), (tree.edges, -1)):
        for first, second in pairs:
            left, right = centres[first], centres[second]
            height = 1.1 * abs(second - first) ** 0.7
            highest = max(highest, height)
            is_right = side > 0 or (first, second) in gold
            axes.add_patch(
                Arc(
                    ((left + right) / 2, 0.45 * side),
                    right - left,
                    2 * height,
                    theta1=0 if side > 0 else 180,
                    theta2=180 if side > 0 else 360,
                    color=INK if side > 0 else ACCENT,
                    linewidth=0.9,
                    linestyle="-" if is_right else "--",
                )
            )
    axes.set_xlim(0, sum(widths))
    axes.set_ylim(-highest - 0.7, highest + 0.7)
    axes.axis("off")


def _curve(axes: Axes, points: Sequence[tuple[int, ProbeRow]], colour: str, title: str) -> None:
    """A line with the 95 % intervals of its points."""
    places = [place for place, _ in points]
    rows = [row for _, row in points]
    axes.plot(
        places,
        [row.value for row in rows],
        color=colour,
        linewidth=1.4,
        marker="o",
        markersize=3.5,
        label=title,
    )
    axes.vlines(
        places, [row.low for row in rows], [row.high for row in rows], color=colour, linewidth=0.8
    )


PROBE_FIGURES: dict[str, tuple[str, Callable[[Probed], Figure | None]]] = {
    "probe_accuracies": ("Accuracies of probes, baselines and controls", probe_accuracies),
    "probe_relations": ("Accuracies by relation", probe_relations),
    "probe_contributions": ("What every head adds to the attention probe", probe_contributions),
    "probe_structure": ("Distances and depths in hidden states", probe_structure),
    "probe_trees": ("Trees of sentences", probe_trees),
    "probe_layers": ("What every hidden state holds", probe_layers),
}
"""Every figure of probes by its file name, with what it shows; None without its numbers."""
