"""Profiles of images: how strongly each head shows each trait of patches, see `profiles`.

Positional traits are the four neighbours, the patch itself, and the displacement beyond them that a
head looks at most often in the first half of the images. The null of a displacement is the larger
of chance and of the mean rate at the four displacements beside it. That of a row or a column is the
larger of chance and of what the head's weights at displacements of up to one give it. Closeness has
no null but even attention, 0. A spot is the patch that gets most weight in the first half; its null
is the larger of chance and of the mean weight on the patches beside it.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, final

import numpy as np
import torch

from headcount.analysis.profile_cells import (
    Cells,
    ProfileRow,
    chosen_rows,
    class_cells,
    look_cells,
    profile_rows,
    ratio,
)
from headcount.core import Grid, LayerId
from headcount.measures import (
    DISPLACEMENTS,
    PATCH_TRAITS,
    PatchLooks,
    PatchSpots,
    PatchTraits,
    Totals,
)
from headcount.vocabulary import IMAGE_TRAITS, TRAITS

AT_PLACES = {each.place: each for each in IMAGE_TRAITS if each.place is not None}
"""Traits with a displacement of their own, by displacement."""


def displacement_words(row: int, column: int) -> str:
    """A displacement in words.

    >>> displacement_words(-2, 1), displacement_words(0, -3)
    ('2 up and 1 to the right', '3 to the left')
    """
    up = f"{abs(row)} {'up' if row < 0 else 'down'}" if row else ""
    side = f"{abs(column)} to the {'left' if column < 0 else 'right'}" if column else ""
    return " and ".join(filter(None, (up, side))) or "0 away"


def displacement_of(words: str) -> tuple[int, int]:
    """The displacement behind the words of a positional role.

    >>> displacement_of("to the left"), displacement_of("2 up and 1 to the right")
    ((0, -1), (-2, 1))
    """
    named = {entry.direction: place for place, entry in AT_PLACES.items()}
    if words in named:
        return named[words]
    return next(each for each in DISPLACEMENTS if displacement_words(*each) == words)


def spot_words(row: int, column: int) -> str:
    """The place of a patch in words.

    >>> spot_of(spot_words(2, 0))
    (2, 0)
    """
    return f"row {row + 1}, column {column + 1}"


def spot_of(words: str) -> tuple[int, int]:
    """The row and the column behind the words of a spot."""
    row, column = words.removeprefix("row ").split(", column ")
    return int(row) - 1, int(column) - 1


@final
class PatchLayer:
    """The profiles of one layer's heads on images."""

    def __init__(self, place: LayerId, totals: Totals, grid: Grid | None) -> None:
        self.place, self._grid = place, grid
        self._looks: Any = totals.sums.get((PatchLooks, place))
        self._traits: Any = totals.sums.get((PatchTraits, place))
        self._spots: Any = totals.sums.get((PatchSpots, place))

    def rows(self) -> Iterator[ProfileRow]:
        """The rows of all heads."""
        if self._looks is not None:
            yield from self._positional(self._looks)
        if self._traits is not None:
            yield from self._classes(self._traits)
        if self._spots is not None and self._grid is not None:
            yield from self._spot(self._spots, self._grid)

    def _positional(self, looks: PatchLooks) -> Iterator[ProfileRow]:
        for displacement, entry in AT_PLACES.items():
            cells = at_displacement(looks, displacement)
            yield from profile_rows(self.place, entry, cells if cells.cases else None)
        free = [each for each in DISPLACEMENTS if each not in AT_PLACES]
        existing = [each for each in free if int(looks.cases[:, DISPLACEMENTS.index(each)].min())]
        if not existing:
            return
        order = torch.tensor([DISPLACEMENTS.index(each) for each in existing])
        best = [existing[n] for n in looks.hits[0][:, order].max(-1).indices.tolist()]
        named = [{"direction": displacement_words(*each)} for each in best]
        cells_at = partial(at_displacement, looks)
        yield from chosen_rows(self.place, TRAITS["place"], best, cells_at, named)

    def _classes(self, traits: PatchTraits) -> Iterator[ProfileRow]:
        nulls_2TH = line_nulls(traits)
        for t, trait in enumerate(PATCH_TRAITS):
            cells = class_cells(traits, t, nulls_2TH[:, t])
            yield from profile_rows(self.place, TRAITS[trait], cells)

    def _spot(self, spots: PatchSpots, grid: Grid) -> Iterator[ProfileRow]:
        chosen = spots.weight[0].argmax(-1).tolist()
        named = [{"direction": spot_words(*divmod(patch, grid.columns))} for patch in chosen]
        cells_at = partial(on_spot, spots, grid)
        yield from chosen_rows(self.place, TRAITS["spot"], chosen, cells_at, named)


def on_spot(spots: PatchSpots, grid: Grid, patch: int) -> Cells:
    """How much of their attention heads give to one patch of every image."""
    row, column = divmod(patch, grid.columns)
    around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    beside = [
        r * grid.columns + c for r, c in around if 0 <= r < grid.rows and 0 <= c < grid.columns
    ]
    weight_2H, tokens_2 = spots.weight[..., patch].numpy(), spots.tokens.numpy()
    null_2H = np.full(weight_2H.shape, np.nan)
    if beside:
        null_2H = ratio(spots.weight[..., beside].mean(-1).numpy(), tokens_2[:, None])
    each = grid.num_tokens
    rates = spots.moments.rates(weight_2H[1], int(tokens_2[1]), patch)
    return Cells(
        rates,
        chance=1 / each,
        position_null=null_2H[1],
        first_share=ratio(weight_2H[0], tokens_2[0]),
        first_null=np.fmax(1 / each, null_2H[0]),
        cases=int(tokens_2[1]),
        paper_share=ratio(weight_2H.sum(0), tokens_2.sum()),
    )


def at_displacement(looks: PatchLooks, displacement: tuple[int, int]) -> Cells:
    """How often heads look at a displacement."""
    row, column = displacement
    around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    beside = [DISPLACEMENTS.index(each) for each in around if each in DISPLACEMENTS]
    return look_cells(looks, DISPLACEMENTS.index(displacement), beside)


def line_nulls(traits: PatchTraits) -> np.ndarray:
    """What each head would have by its weights at small displacements: [half, trait, head]."""
    weight_HO = np.nan_to_num(ratio(traits.diagonal.numpy(), traits.diagonal_queries.numpy()))
    far_H = traits.far_weight.numpy() / max(int(traits.far_pairs), 1)
    beside_2TO, far_2T = traits.beside.double().numpy(), traits.far.double().numpy()
    found_2TH = beside_2TO @ weight_HO.T + far_2T[..., None] * far_H
    return ratio(found_2TH, traits.cases.numpy()[..., None])
