"""Figures 1 and 2 of Michel et al. (2019): scores without each head, on one data set and on two."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.reports.figure_style import (
    ACCENT,
    INK,
    MUTED,
    SITE_COLOURS,
    SITE_MARKERS,
    new_figure,
)
from headcount.reports.measure_names import SITE_TITLES
from headcount.reproduce.michel2019 import Ablated


def histogram(ablated: Ablated) -> Figure:
    """Heads by the score of the model without them; a dashed line marks the dense model."""
    score_H = ablated.base + ablated.change_H
    edges = np.histogram_bin_edges(score_H, bins=min(40, max(10, len(score_H) // 3)))
    sites = [site for site in SITE_TITLES if site in set(ablated.frame["site"])]
    parts = [score_H[(ablated.frame["site"] == site).to_numpy()] for site in sites]
    figure = new_figure(4.2, 2.4)
    axes = figure.subplots()
    axes.hist(
        parts, edges.tolist(), stacked=True, color=[SITE_COLOURS[site] for site in sites],
        label=[SITE_TITLES[site] for site in sites],
    )  # fmt: skip
    axes.axvline(ablated.base, color=ACCENT, linestyle="--", linewidth=1, label="dense model")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"{ablated.unit} without the head")
    axes.set_ylabel("heads")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def two_data_sets(ablated: Ablated, other: Ablated) -> Figure:
    """The score without each head on two data sets; a star marks the dense model."""
    figure = new_figure(4.2, 3.8)
    axes = figure.subplots()
    frame = other.frame.assign(other=other.base + other.change_H).set_index("head")
    score_H = ablated.base + ablated.change_H
    other_H = frame.loc[ablated.frame["head"], "other"].to_numpy()
    for site, title in SITE_TITLES.items():
        chosen = (ablated.frame["site"] == site).to_numpy()
        if chosen.any():
            axes.scatter(
                score_H[chosen], other_H[chosen], s=12, alpha=0.7, linewidth=0, label=title,
                color=SITE_COLOURS.get(site, INK), marker=SITE_MARKERS.get(site, "D"),
            )  # fmt: skip
    axes.axvline(ablated.base, color=MUTED, linewidth=0.5, zorder=0)
    axes.axhline(other.base, color=MUTED, linewidth=0.5, zorder=0)
    axes.scatter([ablated.base], [other.base], s=70, marker="*", color=ACCENT, label="dense model")
    axes.set_xlabel(f"{ablated.unit} without the head")
    axes.set_ylabel(f"{other.unit}, other data")
    figure.legend(loc="outside upper center", ncols=2)
    return figure
