"""Layer curves: the mean of each measure per layer, one small panel each, as SVG coordinates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

from headcount import numbers
from headcount.reports.names import site_titles
from headcount.reports.page.section import Section
from headcount.results import Analysis, HeadRow

WIDTH, HEIGHT = 350, 190
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 14, 30

PANELS: tuple[tuple[str, str, str | None, Callable[[float], str]], ...] = (
    ("Confidence", "confidence", None, numbers.weight),
    ("Entropy (nats)", "entropy", None, numbers.weight),
    ("Share at the best offset", "positional_share", None, numbers.percent),
    ("First token", "attn_first", "norm_first", numbers.percent),
    ("Learned sink (no token)", "attn_none", None, numbers.percent),
    ("Class token", "attn_class", "norm_class", numbers.percent),
    ("Attention distance (patches)", "attn_distance", None, numbers.weight),
    ("Separators", "attn_sep", "norm_sep", numbers.percent),
    ("Punctuation", "attn_punct", "norm_punct", numbers.percent),
)
"""Title, measure, its norm-weighted counterpart, and the format of the axis."""

Kind = Literal["measured", "norm", "null"]


@final
@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    site: str
    kind: Kind
    path: str
    """SVG path; broken where a layer has no value."""
    texts: tuple[tuple[float, float, str], ...]
    """x, y and text for every layer."""


@final
@dataclass(frozen=True)
class Panel:
    """One small multiple."""

    title: str
    curves: tuple[Curve, ...]
    dots: str
    """One dot per head as a single SVG path."""
    ticks: tuple[tuple[float, str], ...]
    """y and text."""
    layers: tuple[tuple[float, str], ...]
    """x and text."""


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


@final
@dataclass(frozen=True)
class Layers:
    """The section on layers."""

    panels: tuple[Panel, ...]
    sites: tuple[tuple[str, str], ...]
    """Sites and their titles, for the legend."""
    has_norm: bool
    """Whether a panel has a norm-weighted line."""
    has_null: bool
    """Whether a panel has a line for random weights."""


def section(run: Analysis) -> Section | None:
    """The section on layers; None if no measure is there."""
    shown = panels(run)
    kinds = {curve.kind for panel in shown for curve in panel.curves}
    view = Layers(shown, site_titles(run.sites), "norm" in kinds, "null" in kinds)
    return (
        Section("layers", "From layer to layer", "layers", "_curves.html.j2", view)
        if shown
        else None
    )


def panels(run: Analysis) -> tuple[Panel, ...]:
    """The panels whose measure was taken and is not 0 for every head."""
    made = (
        _panel(run, *panel)
        for panel in PANELS
        if panel[1] in run.measures and any(row.values[panel[1]] for row in run.rows)
    )
    return tuple(panel for panel in made if panel.curves)


def _panel(
    run: Analysis, title: str, measure: str, norm: str | None, show: Callable[[float], str]
) -> Panel:
    values = [(row.layer, row.values[measure]) for row in run.rows]
    series = _series(run, measure, norm)
    means = [mean for _, by_site in series for line in by_site.values() for mean in line]
    top = _top([value for _, value in values] + means)
    dots = [
        f"M{_x(layer, run.num_layers):.0f} {_y(value, top):.0f}h0"
        for layer, value in values
        if math.isfinite(value)
    ]
    step = math.ceil(run.num_layers / 10)
    return Panel(
        title=title,
        curves=tuple(
            _curve(site, kind, line, top, show)
            for kind, by_site in series
            for site, line in by_site.items()
            if any(map(math.isfinite, line))
        ),
        dots="".join(dict.fromkeys(dots)),
        ticks=tuple((_y(part * top, top), show(part * top)) for part in (0.0, 0.5, 1.0)),
        layers=tuple((_x(n, run.num_layers), str(n)) for n in range(0, run.num_layers, step)),
    )


def _series(
    run: Analysis, measure: str, norm: str | None
) -> list[tuple[Kind, dict[str, list[float]]]]:
    """The lines of a panel, the most important one last, so that it is drawn on top."""
    series: list[tuple[Kind, dict[str, list[float]]]] = []
    if run.null_rows is not None and measure in run.null_rows[0].values:
        series.append(("null", layer_means(run.null_rows, measure)))
    if norm is not None and norm in run.measures:
        series.append(("norm", layer_means(run.rows, norm)))
    series.append(("measured", layer_means(run.rows, measure)))
    return series


def _curve(
    site: str, kind: Kind, mean: list[float], top: float, show: Callable[[float], str]
) -> Curve:
    path, texts, pen = [], [], "M"
    for layer, value in enumerate(mean):
        if math.isnan(value):
            pen = "M"
            continue
        x, y = _x(layer, len(mean)), _y(value, top)
        path.append(f"{pen}{x:.1f} {y:.1f}")
        texts.append((round(x, 1), round(y, 1), f"layer {layer}: {show(value)}"))
        pen = "L"
    return Curve(site, kind, "".join(path), tuple(texts))


def _top(values: list[float]) -> float:
    """The smallest round number above all values."""
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 4, 5, 6, 8, 10) if step * power >= largest)


def _x(layer: int, num_layers: int) -> float:
    inner = WIDTH - LEFT - RIGHT
    return LEFT + 8 + (inner - 16) * (layer / max(1, num_layers - 1))


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)
