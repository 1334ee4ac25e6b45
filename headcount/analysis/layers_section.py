"""What layers show: the mean of each measure from layer to layer."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from headcount import numbers
from headcount.core import (
    INK,
    MUTED,
    PAPER,
    SITE_COLOURS,
    SITE_MARKERS,
    Chart,
    Document,
    Text,
    panel_grid,
    say,
)
from headcount.pages import SITE_TITLES, heard
from headcount.results import Analysis, HeadRow

IN_A_ROW = 3
"""Number of panels side by side."""


@final
@dataclass(frozen=True)
class Panel:
    """One small multiple."""

    title: str
    measure: str
    norm: str | None
    """The measure's norm-weighted counterpart."""
    show: Callable[[float], str]


PANELS = (
    Panel("Confidence", "confidence", None, numbers.weight),
    Panel("Entropy (nats)", "entropy", None, numbers.weight),
    Panel("Share at the best offset", "positional_share", None, numbers.percent),
    Panel("First token", "attn_first", "norm_first", numbers.percent),
    Panel("Learned sink (no token)", "attn_none", None, numbers.percent),
    Panel("Class token", "attn_class", "norm_class", numbers.percent),
    Panel("Attention distance (patches)", "attn_distance", None, numbers.weight),
    Panel("Separators", "attn_sep", "norm_sep", numbers.percent),
    Panel("Punctuation", "attn_punct", "norm_punct", numbers.percent),
)
_STYLES: dict[str, dict[str, Any]] = {
    "random weights": {"linestyle": ":"},
    "share of the norm-weighted sum": {"linestyle": "--"},
    "": {},
}
"""Lines of a panel by what they are, the most important one last, so that it is on top."""


def layer_means(heads: Sequence[HeadRow], measure: str) -> dict[str, list[float]]:
    """Mean over the heads of each layer, by site; heads without a value are left out."""
    means: dict[str, list[float]] = {}
    num_layers = max(row.layer for row in heads) + 1
    for site in dict.fromkeys(row.site for row in heads):
        for layer in range(num_layers):
            place = [row.values[measure] for row in heads if row.layer_id == (site, layer)]
            finite = [value for value in place if math.isfinite(value)]
            mean = sum(finite) / len(finite) if finite else math.nan
            means.setdefault(site, []).append(mean)
    return means


def panels(run: Analysis) -> list[Panel]:
    """The panels whose measure was taken and is not 0 for every head."""
    return [
        panel
        for panel in PANELS
        if panel.measure in run.measures
        and any(row.values[panel.measure] for row in run.rows)
        and any(math.isfinite(row.values[panel.measure]) for row in run.rows)
    ]


def layer_curves(run: Analysis) -> Figure | None:
    """Mean per layer of each measure, beside its norm-weighted share and random weights."""
    shown = panels(run)
    if not shown:
        return None
    figure, every = panel_grid(len(shown), IN_A_ROW, (2.25, 1.6), (0.0, 0.5))
    kinds = set[str]()
    for axes, panel in zip(every, shown, strict=True):
        _dots(axes, run, panel.measure)
        for kind, means in _series(run, panel):
            kinds.add(kind)
            _lines(axes, kind, means, panel.show)
        axes.set_title(heard(panel.title, run))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, show=panel.show: show(value)))
    figure.supxlabel("layer", fontsize=8)
    figure.legend(handles=_key(run, kinds), loc="outside upper left", ncols=3)
    return figure


def _series(run: Analysis, panel: Panel) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """The lines of a panel by site, with what they are."""
    random, norm, measured = _STYLES
    if run.null_rows is not None and panel.measure in run.null_rows[0].values:
        yield random, layer_means(run.null_rows, panel.measure)
    if panel.norm is not None and panel.norm in run.measures:
        yield norm, layer_means(run.rows, panel.norm)
    yield measured, layer_means(run.rows, panel.measure)


def _dots(axes: Axes, run: Analysis, measure: str) -> None:
    values = [row.values[measure] for row in run.rows]
    layers = [row.layer for row in run.rows]
    # As pixels: the page of a large model stays small.
    axes.scatter(layers, values, s=4, color=MUTED, alpha=0.35, linewidth=0, rasterized=True)


def _lines(
    axes: Axes, kind: str, by_site: dict[str, list[float]], show: Callable[[float], str]
) -> None:
    for site, means in by_site.items():
        colour, layers = SITE_COLOURS.get(site, INK), range(len(means))
        if not any(map(math.isfinite, means)):
            continue
        axes.plot(layers, means, color=colour, linewidth=1.3, **_STYLES[kind])
        points = axes.scatter(
            layers,
            means,
            s=9,
            color=PAPER if kind else colour,
            edgecolors=colour,
            linewidths=0.8,
            marker=SITE_MARKERS.get(site, "D"),
            zorder=3,
        )
        note = f" ({kind})" if kind else ""
        say(points, (f"layer {n}: {show(mean)}{note}" for n, mean in enumerate(means)))


def _key(run: Analysis, kinds: set[str]) -> list[Line2D]:
    """The legend: sites by colour and marker, kinds by their line."""
    lines = [
        Line2D(
            [],
            [],
            color=SITE_COLOURS.get(site, INK),
            marker=SITE_MARKERS.get(site, "D"),
            markersize=3,
            label=SITE_TITLES.get(site, site),
        )
        for site in run.sites
    ]
    shown = [kind for kind in _STYLES if kind and kind in kinds]
    return lines + [Line2D([], [], color=MUTED, label=kind, **_STYLES[kind]) for kind in shown]


def layers_document(run: Analysis) -> Document | None:
    """The document of the layers; None if no measure is there."""
    if not panels(run):
        return None
    return Document(
        "From layer to layer",
        (
            Text("Mean over the heads of a layer (line) and single heads (dots)."),
            Chart("layer_curves", "Measures by layer", lambda: layer_curves(run)),
        ),
    )
