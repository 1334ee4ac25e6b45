"""Layer curves: the mean of a measure per layer, one small panel a measure, as SVG coordinates."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import pandas as pd

from headcount.reports import numbers
from headcount.reports.measure_names import SITE_TITLES
from headcount.reports.read import Run

WIDTH, HEIGHT = 280, 150
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 24

PANELS: tuple[tuple[str, str, str | None, Callable[[float], str]], ...] = (
    ("Confidence", "confidence", None, numbers.weight),
    ("Entropy (nats)", "entropy", None, numbers.weight),
    ("Share at the best offset", "positional_share", None, numbers.percent),
    ("First token", "attn_first", "norm_first", numbers.percent),
    ("Separators", "attn_sep", "norm_sep", numbers.percent),
    ("Punctuation", "attn_punct", "norm_punct", numbers.percent),
)
"""Title, measure, its norm-weighted partner, how the axis is written."""

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
    """x, y and text of every layer."""


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


def layer_means(heads: pd.DataFrame, column: str) -> dict[str, np.ndarray]:
    """Mean over the heads of each layer, by site; heads that were not measured are left out."""
    means = heads.groupby(["site", "layer"])[column].mean()
    return {
        site: means[site].reindex(range(int(heads["layer"].max()) + 1)).to_numpy(dtype=float)
        for site in dict.fromkeys(heads["site"])
    }


def panels(run: Run) -> tuple[Panel, ...]:
    """All panels whose measure is there."""
    made = (_panel(run, *panel) for panel in PANELS if panel[1] in run.heads.columns)
    return tuple(panel for panel in made if panel.curves)


def sites(run: Run) -> tuple[tuple[str, str], ...]:
    """Sites and their titles, for the legend."""
    return tuple((site, SITE_TITLES.get(site, site)) for site in dict.fromkeys(run.heads["site"]))


def _panel(
    run: Run, title: str, column: str, norm: str | None, show: Callable[[float], str]
) -> Panel:
    num_layers = int(run.heads["layer"].max()) + 1
    values = run.heads[column].to_numpy(dtype=float)
    series: list[tuple[Kind, dict[str, np.ndarray]]] = []
    if run.null_heads is not None and column in run.null_heads:
        series.append(("null", layer_means(run.null_heads, column)))
    if norm is not None and norm in run.heads:
        series.append(("norm", layer_means(run.heads, norm)))
    series.append(("measured", layer_means(run.heads, column)))
    top = _top(np.concatenate([values, *(mean for _, means in series for mean in means.values())]))
    curves = [
        _curve(site, kind, mean, top, show)
        for kind, means in series
        for site, mean in means.items()
        if np.isfinite(mean).any()
    ]
    dots = [
        f"M{_x(layer, num_layers):.0f} {_y(value, top):.0f}h0"
        for layer, value in zip(run.heads["layer"], values, strict=True)
        if math.isfinite(value)
    ]
    step = max(1, math.ceil(num_layers / 12))
    return Panel(
        title=title,
        curves=tuple(curves),
        dots="".join(dict.fromkeys(dots)),
        ticks=tuple((_y(part * top, top), show(part * top)) for part in (0.0, 0.5, 1.0)),
        layers=tuple((_x(n, num_layers), str(n)) for n in range(0, num_layers, step)),
    )


def _curve(
    site: str, kind: Kind, mean: np.ndarray, top: float, show: Callable[[float], str]
) -> Curve:
    path, texts, pen = [], [], "M"
    for layer, value in enumerate(mean):
        if math.isnan(value):
            pen = "M"
            continue
        x, y = _x(layer, len(mean)), _y(float(value), top)
        path.append(f"{pen}{x:.1f} {y:.1f}")
        texts.append((round(x, 1), round(y, 1), f"layer {layer}: {show(float(value))}"))
        pen = "L"
    return Curve(site, kind, "".join(path), tuple(texts))


def _top(values: np.ndarray) -> float:
    """The smallest round number above all values."""
    finite = values[np.isfinite(values)]
    largest = float(finite.max()) if finite.size else 0.0
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 4, 5, 6, 8, 10) if step * power >= largest)


def _x(layer: int, num_layers: int) -> float:
    inner = WIDTH - LEFT - RIGHT
    return LEFT + 8 + (inner - 16) * (layer / max(1, num_layers - 1))


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)
