"""Examples of what a head looks at, as the scripts of a page read them: sentences and images."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from headcount.core import Grid, amount
from headcount.pages.sentences import arrows
from headcount.results import Example

DRAWING_SCRIPTS = ("sentence.js", "image.js", "places.js")
"""Scripts that draw examples."""

MAX_WORDS = 48
"""Largest number of words in a drawing; longer sentences are cut around their arcs."""

MAX_LINES = 400
"""Largest number of lines in a drawing; the weakest are dropped first."""

_VISIBLE = 13
"""255 * 0.05: smaller weights are not drawn, except the largest of each query."""


@final
@dataclass(frozen=True)
class ExampleView:
    """One drawing: words on the left and right, and lines between them."""

    role: str
    caption: str
    queries: tuple[str, ...]
    keys: tuple[str, ...] | None
    """None if the same as `queries`."""
    lines: tuple[int, ...]
    """query, key, weight (255 = 1), query, key, weight ..., weakest first."""
    arcs: tuple[int, ...]
    """query, key, query, key ...: the lines that show the role."""
    note: str
    """Note on what was cut; empty if nothing was."""


def example_view(example: Example) -> ExampleView:
    """The drawing of one example."""
    cut = _cut(example)
    weights_QK, arcs = cut.weights_QK, cut.arcs
    keep_QK = weights_QK >= _VISIBLE
    if weights_QK.size:
        keep_QK = keep_QK | ((weights_QK == weights_QK.max(1, keepdims=True)) & (weights_QK > 0))
    queries, keys = np.nonzero(keep_QK)
    order = np.argsort(weights_QK[queries, keys], kind="stable")[-MAX_LINES:]
    chosen = [(int(queries[i]), int(keys[i])) for i in order]
    # Arcs of the role are drawn even where the head misses them: they are evidence too.
    chosen += [arc for arc in arcs if arc not in set(chosen)]
    return ExampleView(
        role=example.role,
        caption=arrows(example.caption),
        queries=cut.queries,
        keys=None if cut.keys == cut.queries else cut.keys,
        lines=tuple(n for q, k in chosen for n in (q, k, int(weights_QK[q, k]))),
        arcs=tuple(n for arc in arcs for n in arc),
        note=_note(example, cut),
    )


@final
@dataclass(frozen=True)
class ImageView:
    """One drawing: a picture with a heat map over its patches."""

    role: str
    caption: str
    image: str
    """The picture, as the text of a `data:` address."""
    rows: int
    columns: int
    special: int
    """Number of tokens before the patches."""
    queries: tuple[str, ...]
    """What the maps are of: the class token, the mean over all patches, and single patches."""
    weights: str
    """The maps, one after the other, as base64 of bytes."""
    largest: tuple[float, ...]
    """The weight in each map that 255 stands for."""
    note: str = ""


def image_view(example: Example, grid: Grid) -> ImageView:
    """The drawing of one example."""
    return ImageView(
        role=example.role,
        caption=example.caption,
        image=example.image,
        rows=grid.rows,
        columns=grid.columns,
        special=grid.special,
        queries=example.queries,
        weights=base64.b64encode(example.weights).decode(),
        largest=example.largest,
    )


@final
@dataclass(frozen=True)
class PlacesView:
    """One drawing: a text and the picture beside it, with where a word looks over the picture."""

    role: str
    caption: str
    image: str
    """The picture, as the text of a `data:` address."""
    width: int
    height: int
    words: tuple[str, ...]
    regions: tuple[float, ...]
    """left, top, right, bottom, left ... of the parts that words look at, as shares of the size."""
    weights: str
    """The weights of every word on all parts, one word after the other, as base64 of bytes."""
    largest: tuple[float, ...]
    """The weight of each word that 255 stands for."""
    arcs: tuple[int, ...]
    """word, part, word, part ...: what the head should look at."""
    note: str = ""


def places_view(example: Example) -> PlacesView:
    """The drawing of one example."""
    return PlacesView(
        role=example.role,
        caption=arrows(example.caption),
        image=example.image,
        width=example.size[0],
        height=example.size[1],
        words=example.queries,
        regions=tuple(edge for region in example.regions for edge in region),
        weights=base64.b64encode(example.weights).decode(),
        largest=example.largest,
        arcs=tuple(n for arc in example.arcs for n in arc),
    )


def view_of(example: Example, grid: Grid | None) -> ExampleView | ImageView | PlacesView:
    """The drawing of an example of a run."""
    if example.regions:
        return places_view(example)
    return image_view(example, grid) if grid and example.image else example_view(example)


def shared_pictures(examples: Iterable[dict[str, Any]]) -> list[str]:
    """The pictures of some drawings, which name theirs by its place from now on."""
    places: dict[str, int] = {}
    for example in examples:
        if "image" in example:
            example["image"] = places.setdefault(example["image"], len(places))
    return [*places]


def _cut(example: Example) -> Example:
    """At most MAX_WORDS queries and keys, around the first arc."""
    first_query, first_key = example.arcs[0] if example.arcs else (0, 0)
    query = _start(len(example.queries), first_query)
    key = _start(len(example.keys), first_key)
    arcs = [(q - query, k - key) for q, k in example.arcs]
    cut_QK = example.weights_QK[query : query + MAX_WORDS, key : key + MAX_WORDS]
    return replace(
        example,
        queries=example.queries[query : query + MAX_WORDS],
        keys=example.keys[key : key + MAX_WORDS],
        weights=cut_QK.tobytes(),
        arcs=tuple((q, k) for q, k in arcs if 0 <= q < MAX_WORDS and 0 <= k < MAX_WORDS),
    )


def _start(length: int, wanted: int) -> int:
    return max(0, min(wanted - MAX_WORDS // 3, length - MAX_WORDS))


def _note(dense: Example, cut: Example) -> str:
    if len(dense.queries) <= MAX_WORDS and len(dense.keys) <= MAX_WORDS:
        return ""
    longest = max(len(dense.queries), len(dense.keys))
    shown = max(len(cut.queries), len(cut.keys))
    return f"{shown} of {amount(longest, 'word')} shown"
