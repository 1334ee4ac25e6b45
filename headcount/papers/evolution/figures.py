"""Figures of a comparison of layers: a curve for each objective with a band over seeds, and t-SNE.

Figures 2 to 9 of The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019)
for any models. https://arxiv.org/abs/1909.01380
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import final

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import MUTED, Chart, new_figure
from headcount.papers.evolution.mutual_information import ESTIMATES
from headcount.papers.evolution.record import Evolution, EvolutionPoint

COLOURS = {
    "translation": "#0072B2",
    "causal-lm": "#D55E00",
    "masked-lm": "#009E73",
    "encoder": "#7A3E9D",
}
MARKERS = {"translation": "o", "causal-lm": "s", "masked-lm": "^", "encoder": "D"}


@final
@dataclass(frozen=True)
class CurveFigure:
    """A figure of one quantity."""

    quantity: str
    against: str
    title: str
    """What is on the vertical axis, with its unit."""
    control: str | None = None
    """Quantity that is drawn as its control."""

    @property
    def name(self) -> str:
        """Name of the figure's files."""
        return f"{self.quantity}-{self.against}".replace(" ", "-")


_KNOWN = {
    "input": "the token that is read",
    "output": "the token to predict",
    "replaced input": "a false token read",
    "replaced output": "the right token",
}

_CORRECTIONS = ("Miller-Madow", "less that of shuffled tokens", "on states left out")
"""What corrects each estimate."""

CURVES = (
    *(
        CurveFigure(name, against, f"Nats about {what} ({words})")
        for against, what in _KNOWN.items()
        for name, words in zip(ESTIMATES, _CORRECTIONS, strict=True)
    ),
    CurveFigure("pwcca", "next layer", "Distance to the next layer (PWCCA)", "pwcca-shuffled"),
    CurveFigure("pwcca", "last layer", "Distance to the last layer (PWCCA)"),
    CurveFigure(
        "neighbours", "token", "Neighbours with the same token, share", "neighbours-chance"
    ),
    CurveFigure(
        "neighbours", "left", "Neighbours with the same token on the left", "neighbours-chance"
    ),
    CurveFigure(
        "neighbours", "right", "Neighbours with the same token on the right", "neighbours-chance"
    ),
    CurveFigure("neighbours", "tag", "Neighbours with the same tag, share", "neighbours-chance"),
    CurveFigure("neighbours", "position", "Distance of neighbours, in tokens", "neighbours-chance"),
)


def evolution_charts(evolution: Evolution) -> list[Chart]:
    """Every figure that the numbers allow."""
    curves = [
        Chart(curve.name, curve.title, partial(layer_curves, evolution, curve))
        for curve in CURVES
        if evolution.select(quantity=curve.quantity, against=curve.against)
    ]
    pictures, objectives = (
        list(dict.fromkeys(getattr(each, name) for each in evolution.points))
        for name in ("picture", "objective")
    )
    return curves + [
        Chart(
            f"{picture}-{objective}",
            f"{picture.capitalize()} in a plane, {objective}",
            partial(_picture, evolution, picture, objective),
        )
        for picture, objective in product(pictures, objectives)
    ]


def layer_curves(evolution: Evolution, curve: CurveFigure) -> Figure:
    """One line for each objective: the mean over seeds, with the band from lowest to highest."""
    figure = new_figure(4.6, 2.9)
    axes = figure.subplots()
    for objective, layers in evolution.curves(curve.quantity, curve.against).items():
        at = sorted(layers)
        means = [sum(layers[each]) / len(layers[each]) for each in at]
        colour = COLOURS.get(objective, MUTED)
        axes.fill_between(
            at,
            [min(layers[each]) for each in at],
            [max(layers[each]) for each in at],
            color=colour,
            alpha=0.25,
            linewidth=0,
        )
        marker = MARKERS.get(objective, "o")
        axes.plot(
            at, means, color=colour, marker=marker, markersize=3.5, linewidth=1.3, label=objective
        )
    if curve.control is not None:
        for number, layers in enumerate(evolution.curves(curve.control, curve.against).values()):
            at = sorted(layers)
            means = [sum(layers[each]) / len(layers[each]) for each in at]
            label = "chance" if number == 0 else None
            axes.plot(at, means, color=MUTED, linewidth=0.8, linestyle="--", label=label)
    axes.set(xlabel="layer (0: embeddings)", title=curve.title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right upper")
    return figure


def _picture(evolution: Evolution, picture: str, objective: str) -> Figure:
    """The t-SNE of the first seed of an objective, one panel for each layer."""
    points = [
        each
        for each in evolution.points
        if (each.picture, each.objective, each.seed) == (picture, objective, 1)
    ]
    labels = list(dict.fromkeys(label_of(each) for each in points))
    if picture == "position":
        labels.sort(key=lambda label: int(label.split("-")[0].rstrip("+")))
    colours = _colours(picture, len(labels))
    layers = sorted({point.layer for point in points})
    figure = new_figure(1.5 * len(layers), 1.9)
    for axes, layer in zip(figure.subplots(1, len(layers), squeeze=False)[0], layers, strict=True):
        for number, label in enumerate(labels):
            here = [each for each in points if (each.layer, label_of(each)) == (layer, label)]
            axes.scatter(
                [each.x for each in here],
                [each.y for each in here],
                s=2,
                color=colours[number % len(colours)],
                label=label,
            )
        axes.set(title=f"layer {layer}", xticks=[], yticks=[])
    handles, shown = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, shown, loc="outside lower center", ncols=len(labels), markerscale=3)
    return figure


def label_of(point: EvolutionPoint) -> str:
    """What a point is coloured by."""
    return point.token if point.picture == "words" else point.label


def _colours(picture: str, count: int) -> list[str]:
    """Colours that differ, or, for positions, that grow darker."""
    if picture == "position":
        return [to_hex(shade) for shade in colormaps["viridis"](np.linspace(0.9, 0, count))]
    distinct = (*COLOURS.values(), "#CC79A7", "#E69F00", "#56B4E9")
    return [distinct[number % len(distinct)] for number in range(count)]
