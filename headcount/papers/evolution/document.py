"""The document of a comparison of layers: figures, each with a sentence that says what it shows.

A curve has a line for each objective, with a band over seeds; pictures are t-SNE. These are figures
2 to 9 of The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019) for any
models. https://arxiv.org/abs/1909.01380
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import final

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.spatial import KDTree

from headcount.core import MUTED, Block, Chart, Document, Heading, Table, Text, grid_of, new_figure
from headcount.numbers import correlation, percent
from headcount.pages import Note
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

_SHARED = {
    "token": "Neighbours with the same token, share",
    "left": "Neighbours with the same token on the left",
    "right": "Neighbours with the same token on the right",
    "tag": "Neighbours with the same tag, share",
    "position": "Distance of neighbours, in tokens",
}

CURVES = (
    *(
        CurveFigure(name, against, f"Nats about {what} ({words})")
        for against, what in _KNOWN.items()
        for name, words in zip(ESTIMATES, _CORRECTIONS, strict=True)
    ),
    CurveFigure("pwcca", "next layer", "Distance to the next layer (PWCCA)", "pwcca-shuffled"),
    CurveFigure("pwcca", "last layer", "Distance to the last layer (PWCCA)"),
    *(
        CurveFigure("neighbours", against, title, "neighbours-chance")
        for against, title in _SHARED.items()
    ),
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
    figure, (grid,) = grid_of(1, len(layers), (1.5 * len(layers), 1.9))
    for axes, layer in zip(grid, layers, strict=True):
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


BESIDE = 5
"""Number of nearest points in a plane."""

_TITLES = {
    "words": "{labels}",
    "position": "{token} by position in the sentence",
    "tags": "tokens by tag ({labels})",
}


def evolution_notes(found: Evolution) -> tuple[Note, ...]:
    """What is measured between layers."""
    del found
    return (
        Note(
            "Evolution of layers",
            "Mutual information of a token's states with the tokens around it, by clusters, and "
            "distances between layers by canonical correlations.",
            "Voita et al., EMNLP 2019, arXiv:1909.01380",
        ),
    )


def evolution_document(evolution: Evolution) -> Document:
    """The figures, then what they show in sentences and tables, then the states they are of."""
    return Document(
        "How representations evolve",
        (
            *evolution_charts(evolution),
            *(block for curve in CURVES for block in _curve(evolution, curve)),
            *_pictures(evolution),
            _stores(evolution),
        ),
    )


def _curve(evolution: Evolution, curve: CurveFigure) -> Iterator[Block]:
    """The sentence and the table of one quantity, if it was measured."""
    if evolution.select(quantity=curve.quantity, against=curve.against):
        yield Heading(curve.title)
        yield Text(" ".join(curve_sentences(evolution, curve)))
        yield _table(evolution, curve)


def _pictures(evolution: Evolution) -> Iterator[Block]:
    """What each picture shows: how often points lie beside points of the same colour."""
    for picture in dict.fromkeys(point.picture for point in evolution.points):
        points = [each for each in evolution.points if (each.picture, each.seed) == (picture, 1)]
        labels = list(dict.fromkeys(map(label_of, points)))
        title = _TITLES[picture].format(labels=", ".join(labels), token=points[0].token)
        yield Heading(f"In a plane: {title}")
        said = []
        for objective in dict.fromkeys(point.objective for point in points):
            here = [point for point in points if point.objective == objective]
            layers = sorted({point.layer for point in here})
            shares = [beside_same([each for each in here if each.layer == at]) for at in layers]
            top = max(shares)
            between = f", {percent(top)} at layer {layers[shares.index(top)]}"
            said.append(
                f"{objective} {percent(shares[0])} at layer {layers[0]}"
                f"{between if top > max(shares[0], shares[-1]) else ''}, {percent(shares[-1])} "
                f"at layer {layers[-1]}"
            )
        yield Text(
            f"Share of the {BESIDE} points nearest to a point (t-SNE, first seed) that have its "
            f"colour: {'; '.join(said)}. Distances between clusters mean nothing."
        )


def beside_same(points: Sequence[EvolutionPoint]) -> float:
    """The share of the nearest points in the plane that have the same label, mean over points."""
    near = min(BESIDE, len(points) - 1)
    at = np.array([[point.x, point.y] for point in points])
    labels = np.array([label_of(point) for point in points])
    found = np.asarray(KDTree(at).query(at, near + 1)[1])
    return float((labels[found[:, 1:]] == labels[:, None]).mean())


def curve_sentences(evolution: Evolution, curve: CurveFigure) -> Iterator[str]:
    """What a figure shows, in a sentence for each objective."""
    for objective, layers in evolution.curves(curve.quantity, curve.against).items():
        means = {layer: sum(values) / len(values) for layer, values in sorted(layers.items())}
        first, last = min(means), max(means)
        lowest, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        direction = "rises" if means[last] > means[first] else "drops"
        inner = [
            f"{word} {correlation(means[layer])} at layer {layer}"
            for word, layer in (("lowest", lowest), ("highest", highest))
            if layer not in (first, last)
        ]
        between = f" ({', '.join(inner)})" if inner else ""
        yield (
            f"{objective} {direction} from {correlation(means[first])} at layer {first} to "
            f"{correlation(means[last])} at layer {last}{between}."
        )


def _table(evolution: Evolution, curve: CurveFigure) -> Table:
    curves = evolution.curves(curve.quantity, curve.against)
    layers = sorted({layer for each in curves.values() for layer in each})
    rows = [
        [objective, *(_band(values[layer]) if layer in values else "" for layer in layers)]
        for objective, values in curves.items()
    ]
    return Table.of(["layer", *map(str, layers)], rows, curve.title)


def _band(values: list[float]) -> str:
    """The value of one seed, or the lowest and the highest."""
    low, high = (f"{end:z.3f}".replace("-", "−") for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _stores(evolution: Evolution) -> Table:
    headers = ["model", "view", "tokens", "occurrences of each", "states"]
    rows = [
        [
            f"{each.objective}-{each.seed}",
            each.view,
            f"{each.types:,}",
            f"{each.occurrences:,}" if each.occurrences else "as in the text",
            f"{each.states:,}",
        ]
        for each in evolution.record.stores
    ]
    return Table.of(headers, rows, "What was stored of each model")
