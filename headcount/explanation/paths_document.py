"""Paths of a stable circuit: which of its heads wrote the queries and keys of which, as a picture.

An arrow from one head to another is what the first adds to the score of the second's look above its
mean over keys, by its query or by its key (reasons.py), as a share of the whole; an arrow to the
logit is direct attribution, as a share of what is predicted, where it was measured. Arrows whose
95 % interval holds 0 are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from headcount.core import (
    MUTED,
    Block,
    Chart,
    Head,
    Heading,
    Text,
    amount,
    names_a_head,
    new_figure,
    sorted_by,
)
from headcount.explanation.result import Explained
from headcount.numbers import percent
from headcount.pages import COLOURS
from headcount.results import find

ARROWS = 25
"""Largest number of arrows in a picture."""
LOGIT = "logit"
KINDS = {"query": COLOURS[0], "key": COLOURS[1], LOGIT: MUTED}
"""Colours of arrows by what they go to."""


@final
@dataclass(frozen=True)
class Path:
    """What one head adds for another, or to the logit."""

    source: str
    target: str
    """Name of the head that looks, or `logit`."""
    kind: str
    """`query`, `key` or `logit`."""
    share: float
    """The share of the target's score above its mean, or of what is predicted."""


def paths_of(found: Explained) -> list[Path]:
    """The paths between heads of the stable circuit that are beyond chance, the largest first."""
    kept = {row.head for row in found.stable if row.verdict != "out"}
    heads = {*filter(names_a_head, kept)}
    paths = list[Path]()
    for row in found.reasons:
        kind, source = ("query", row.query) if row.query else ("key", row.key)
        look = find(found.looks, head=row.head)
        is_single = not (row.query and row.key)
        if is_single and {row.head, source} <= heads and look and row.low * row.high > 0:
            paths.append(Path(source, row.head, kind, row.value / abs(look.value)))
    for row in found.of("attribution").values():
        if row.part in heads and row.low * row.high > 0:
            paths.append(Path(row.part, LOGIT, LOGIT, row.value / abs(found.record.value)))
    return sorted_by(paths, lambda path: abs(path.share), descending=True)


def path_blocks(found: Explained) -> Iterator[Block]:
    """The picture of the paths, the largest in words, and how many are left out."""
    paths = paths_of(found)
    if not paths:
        return
    said = "; ".join(_said(path) for path in paths[:3])
    left = len(paths) - ARROWS
    rest = f" {amount(left, 'weaker path')} are not drawn." if left > 0 else ""
    yield Heading("Paths between its heads", 3)
    yield Text(
        "An arrow is what one head adds to the score of another's look, by its query or key, as a "
        "share of that score's excess over its mean; or what a head adds to the logit by direct "
        "attribution. Arrows whose interval includes 0 are left out. The largest: "
        f"{said}.{rest}"
    )
    yield Chart(
        "paths",
        "Paths between the heads of the stable circuit",
        lambda: _picture(paths[:ARROWS]),
    )


def _said(path: Path) -> str:
    if path.kind == LOGIT:
        return f"{path.source} to the logit ({percent(path.share)})"
    return f"{path.source} to the {path.kind} of {path.target} ({percent(path.share)})"


def _picture(paths: Sequence[Path]) -> Figure:
    """Heads by layer, from left to right, and arrows between them; dashed ones take away."""
    names = {each for path in paths for each in (path.source, path.target)} - {LOGIT}
    heads = sorted(map(Head.parse, names), key=lambda head: (head.layer, head.index))
    layers = sorted({head.layer for head in heads})
    at = {str(head): (layers.index(head.layer), float(head.index)) for head in heads}
    if any(path.kind == LOGIT for path in paths):
        at[LOGIT] = (len(layers), max(head.index for head in heads) / 2)
    figure = new_figure(5.8, 0.3 * (max(head.index for head in heads) + 1) + 1.4)
    axes = figure.subplots()
    most = max(abs(path.share) for path in paths)
    for path in paths:
        axes.add_patch(
            FancyArrowPatch(
                at[path.source],
                at[path.target],
                arrowstyle="-|>",
                mutation_scale=7,
                connectionstyle=f"arc3,rad={0.15 if path.kind == 'key' else -0.15}",
                shrinkA=9,
                shrinkB=9,
                linewidth=0.4 + 2 * abs(path.share) / most,
                linestyle="-" if path.share > 0 else "--",
                color=KINDS[path.kind],
                alpha=0.8,
            )
        )
    for name, place in at.items():
        shown = name.partition(".")[2] or name
        axes.text(*place, shown, ha="center", va="center", fontsize=7.5, zorder=4)
    for kind, colour in KINDS.items():
        if any(path.kind == kind for path in paths):
            axes.plot([], [], color=colour, label=f"to the {kind}")
    axes.set_xticks(range(len(layers)), [f"{layer}" for layer in layers])
    axes.set(
        xlabel="layer",
        xlim=(-0.6, len(layers) + 0.6),
        ylim=(max(head.index for head in heads) + 0.7, min(head.index for head in heads) - 0.7),
    )
    axes.set_yticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.legend(loc="outside right upper")
    return figure
