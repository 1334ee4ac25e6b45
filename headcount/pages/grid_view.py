"""The map of heads: a cell a head by what leads it, its legend, and choices of kept heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from headcount import numbers
from headcount.pages.kinds import (
    Found,
    Leading,
    counted,
    num_borderline,
    only_second,
    tint,
    verdicts,
)
from headcount.pages.names import SITE_TITLES
from headcount.pages.part import Keeping, page_parts
from headcount.pages.sentences import nothing_words
from headcount.pages.worth import large, mattering
from headcount.results import Analysis
from headcount.vocabulary import TraitEntry


@final
@dataclass(frozen=True)
class Cell:
    """One head in a grid; layers with fewer heads have None in place of cells."""

    head: str
    index: int
    matters: bool
    """Whether the model gets worse without this head, beyond chance."""
    says: str
    """Text for screen readers."""
    kind: TraitEntry | None = None
    """What leads the head; None if nothing was found."""
    second: TraitEntry | None = None
    """What else it does; None without another role or tendency."""
    verdict: str = "none"
    """`role`, `tendency` or `none`."""
    tint: int = 0
    """Share of the hue in the cell, in percent."""


Layer = tuple[int, tuple[Cell | None, ...]]
"""The number of a layer, and its heads."""
MOST_LAYERS = 16
"""Number of layers above which a grid is laid out in parts."""


@final
@dataclass(frozen=True)
class Grid:
    """Layers x heads of one site."""

    site: str
    title: str
    num_columns: int
    layers: tuple[Layer, ...]

    @property
    def parts(self) -> tuple[tuple[Layer, ...], ...]:
        """Layers that stand below each other; a deep model's parts stand side by side."""
        number = -(-len(self.layers) // MOST_LAYERS)
        size = -(-len(self.layers) // number)
        return tuple(self.layers[n : n + size] for n in range(0, len(self.layers), size))


@final
@dataclass(frozen=True)
class Chip:
    """One entry of the legend: a kind of heads with their number."""

    kind: TraitEntry
    part: Literal["kind", "second"]
    """Whether it leads these heads, or comes second in all of them."""
    count: str


@final
@dataclass(frozen=True)
class Legend:
    """What the map shows, with counts."""

    verdicts: tuple[tuple[str, str, str], ...]
    """Verdict, its name and the number of its heads."""
    chips: tuple[Chip, ...]
    mattering: str | None
    """Number of heads that matter, and of those that matter much; None if that was not tested."""


def legend(run: Analysis, found: Found) -> Legend:
    """The legend of the map."""
    names = ("role", "tendency", "none"), ("role", "tendency", "neither")
    counts = [*map(numbers.count, verdicts(found.values()))]
    if some := num_borderline(found.values()):
        counts[0] += f" ({numbers.count(some)} borderline)"
    chips = [Chip(kind, "kind", numbers.count(some)) for kind, some in counted(found.values())]
    chips += [
        Chip(kind, "second", f"{numbers.count(some)} as second trait")
        for kind, some in only_second(found.values())
    ]
    return Legend(tuple(zip(*names, counts, strict=True)), tuple(chips), _num_mattering(run))


def _num_mattering(run: Analysis) -> str | None:
    matter = mattering(run)
    if matter is None or run.importance is None:
        return None
    deltas = [row.values["ablation_delta"] for row in run.rows if row.head in matter]
    return f"{numbers.count(len(matter))} ({large(deltas, run.importance)})"


def grids(run: Analysis, found: Found) -> tuple[Grid, ...]:
    """One grid for each site."""
    matter, nothing = mattering(run) or frozenset(), nothing_words(run)
    result = []
    for site, rows in run.by_site():
        cells = {
            (row.layer, row.index): _cell(
                row.head, row.index, found[row.head], row.head in matter, nothing
            )
            for row in rows
        }
        num_columns = 1 + max(index for _, index in cells)
        layers = tuple(
            (layer, tuple(cells.get((layer, index)) for index in range(num_columns)))
            for layer in sorted({layer for layer, _ in cells})
        )
        result.append(Grid(site, SITE_TITLES.get(site, site), num_columns, layers))
    return tuple(result)


def _cell(head: str, index: int, leading: Leading | None, matters: bool, nothing: str) -> Cell:
    worth = "; matters" if matters else ""
    if leading is None:
        return Cell(head, index, matters=matters, says=f"{head}: {nothing}{worth}")
    kind, second = leading.kind, leading.second
    also = f"; also {second.label}" if second else ""
    says = f"{head}: {leading.called}, {leading.short}{also}{worth}"
    return Cell(
        head=head,
        index=index,
        kind=kind,
        second=second,
        verdict=leading.verdict,
        tint=tint(leading),
        matters=matters,
        says=says,
    )


def keepings(run: Analysis) -> tuple[Keeping, ...]:
    """Every choice of heads that the folder holds, the pruned model's first."""
    found = [each for part in page_parts() for each in part.keepings(run)]
    return tuple(sorted(found, key=lambda each: each.key != "pruned"))


def fates(run: Analysis, shown: Sequence[Keeping]) -> dict[str, str]:
    """Where each head is kept, in a sentence; empty without any choice."""
    return {row.head: " ".join(_fate(row.head, shown)) for row in run.rows}


def _fate(head: str, shown: Sequence[Keeping]) -> list[str]:
    found = []
    for each in shown:
        if each.key == "pruned":
            verb = "keeps it" if head in each.kept else "is without it"
            found.append(f"The pruned model {verb}.")
    budgets = [each for each in shown if each.key != "pruned"]
    kept, gone = (
        [each.label for each in budgets if (head in each.kept) is wanted]
        for wanted in (True, False)
    )
    if budgets:
        parts = [f"keeps it among {numbers.listed(kept)} heads"] if kept else []
        parts += [f"prunes it at {numbers.listed(gone)}"] if gone else []
        found.append(f"The curve's best method, {budgets[0].method}, {' and '.join(parts)}.")
    return found
