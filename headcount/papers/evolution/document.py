"""The document of a comparison of layers: figures, each with a sentence that says what it shows."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial import KDTree

from headcount.core import Block, Document, Heading, Table, Text
from headcount.numbers import correlation
from headcount.papers.evolution.figures import CURVES, CurveFigure, evolution_charts, label_of
from headcount.papers.evolution.record import Evolution, EvolutionPoint

BESIDE = 5
"""Number of nearest points in a plane."""

_TITLES = {
    "words": "{labels}",
    "position": "{token} by position in the sentence",
    "tags": "tokens by tag ({labels})",
}


def evolution_document(evolution: Evolution) -> Document:
    """What the figures show, in sentences and tables."""
    return Document(
        "How representations evolve",
        (
            _stores(evolution),
            *(block for curve in CURVES for block in _curve(evolution, curve)),
            *_pictures(evolution),
            *evolution_charts(evolution),
        ),
    ).ending(evolution.record.warnings, evolution.record.signature)


def _curve(evolution: Evolution, curve: CurveFigure) -> Iterator[Block]:
    """The sentence and the table of one quantity, if it was measured."""
    if evolution.select(quantity=curve.quantity, against=curve.against):
        yield Heading(curve.title)
        yield Text(curve_sentence(evolution, curve))
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
            between = f", {top:.0%} at layer {layers[shares.index(top)]}"
            said.append(
                f"{objective} {shares[0]:.0%} at layer {layers[0]}"
                f"{between if top > max(shares[0], shares[-1]) else ''}, {shares[-1]:.0%} at layer "
                f"{layers[-1]}"
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


def curve_sentence(evolution: Evolution, curve: CurveFigure) -> str:
    """What a figure shows, in a sentence for each objective."""
    return " ".join(_sentences(evolution, curve))


def _sentences(evolution: Evolution, curve: CurveFigure) -> Iterator[str]:
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
