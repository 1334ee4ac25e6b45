"""What heads show on images: profiles of each trait of patches, and example images.

A small sample of images is run once more. Of the maps are kept: the class token's row, the mean
over all patches, and the rows of some patches, all of them in a small grid.

In a profile (see `profiles`), positional traits are the four neighbours, the patch itself, and the
displacement beyond them that a head looks at most often in the first half of the images. The null
of a displacement is the larger of chance and of the mean rate at the four displacements beside it.
That of a row or a column is the larger of chance and of what the head's weights at displacements of
up to one give it. Closeness has no null but even attention, 0. A spot is the patch that gets most
weight in the first half; its null is the larger of chance and of the mean weight on the patches
beside it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from headcount.analysis.profile_cells import (
    Cells,
    ProfileRow,
    chosen_rows,
    class_cells,
    look_cells,
    profile_rows,
    ratio,
)
from headcount.core import Grid, Head, LayerId
from headcount.corpora import AnyEncoder, Batch, ImageEncoder, thumbnail
from headcount.measures import (
    DISPLACEMENTS,
    PATCH_TRAITS,
    FrameMoments,
    PatchLooks,
    PatchSpots,
    PatchTraits,
    Places,
    Totals,
    forward,
)
from headcount.numbers import percent
from headcount.results import Example, Role
from headcount.tap import Anatomy, AttentionLayer, Block, WholeMap
from headcount.vocabulary import IMAGE_TRAITS, TRAITS

NUM_EXAMPLES = 3
"""Number of images kept for each head."""
_MAX_WEIGHTS = 4500
"""Largest number of weights that are kept of one image; of larger grids some patches are left out,
evenly. Four patches are always kept."""
SIDE = 112
"""Largest side of a picture, in pixels."""

MEAN = "all patches"
"""Name of the mean over the patches."""


def image_examples(
    model: PreTrainedModel,
    anatomy: Anatomy,
    encoder: AnyEncoder,
    batches: Iterable[Batch],
    roles: Mapping[str, Sequence[Role]],
) -> dict[str, list[Example]]:
    """Up to three examples for every head, by head name."""
    assert isinstance(encoder, ImageEncoder)
    listener = _Drawing(encoder, roles)
    forward(model, anatomy, batches, listener)
    return {
        head: [example for _, example in sorted(listener.found[head], key=lambda one: -one[0])]
        for head in roles
    }


@final
class _Drawing:
    """A listener that keeps the best examples of every head."""

    def __init__(self, encoder: ImageEncoder, roles: Mapping[str, Sequence[Role]]) -> None:
        self.found: dict[str, list[tuple[float, Example]]] = {head: [] for head in roles}
        self._encoder, self._grid, self._roles = encoder, encoder.grid, roles
        self._labels = tuple(encoder.grid.labels())
        self._queries = sampled(encoder.grid)

    def start(self, batch: Batch) -> None:
        pixels = batch.inputs["pixel_values"].float().cpu()
        self._pictures = [picture(each, self._encoder.processor) for each in pixels]

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        self._map = WholeMap(value_BHKD, num_queries, torch.float32)

    def block(self, block: Block) -> None:
        self._map.add(block)

    def end(self, layer: AttentionLayer) -> None:
        for index, weights_BQK in enumerate(self._map.weights_BHQK.cpu().unbind(1)):
            head = str(Head(*layer.layer_id, index))
            for row, weights_QK in enumerate(weights_BQK):
                self._add(head, row, weights_QK)

    def _add(self, head: str, row: int, weights_QK: Tensor) -> None:
        role = self._roles[head][0] if self._roles[head] else None
        score, caption = _show(self._grid, weights_QK, role)
        found = self.found[head]
        if len(found) == NUM_EXAMPLES and score <= min(each for each, _ in found):
            return
        special = self._grid.special
        shown = [weights_QK[:special][:1], weights_QK[special:].mean(0, keepdim=True)]
        kept_QK = torch.cat([*shown, weights_QK[self._queries]]).numpy()
        largest_Q = kept_QK.max(1).clip(1e-12)
        names = (*self._labels[:special][:1], MEAN, *(self._labels[q] for q in self._queries))
        example = Example(
            role=role.role if role else "none",
            caption=caption,
            queries=names,
            keys=self._labels,
            weights=(kept_QK / largest_Q[:, None] * 255).round().astype(np.uint8).tobytes(),
            arcs=(),
            image=self._pictures[row],
            largest=tuple(largest_Q.round(4).tolist()),
        )
        found.append((score, example))
        found.sort(key=lambda one: -one[0])
        del found[NUM_EXAMPLES:]


def sampled(grid: Grid) -> list[int]:
    """The tokens of the patches whose attention is kept, in order."""
    step, most = 1, max(4, _MAX_WEIGHTS // grid.num_tokens - 2)
    while -(-grid.rows // step) * -(-grid.columns // step) > most:
        step += 1
    rows, columns = (
        range((size - 1) % step // 2, size, step) for size in (grid.rows, grid.columns)
    )
    return [grid.special + row * grid.columns + column for row in rows for column in columns]


def picture(pixels_CHW: Float[Tensor, "channel height width"], processor: object) -> str:
    """An image as the model reads it, made small, as the text of a `data:` address."""
    from PIL import Image

    mean, std = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if getattr(processor, "do_normalize", False) and mean is not None and std is not None:
        shape = (-1, 1, 1)
        pixels_CHW = pixels_CHW * torch.tensor(std).view(shape) + torch.tensor(mean).view(shape)
    bytes_HWC = (pixels_CHW.clamp(0, 1) * 255).round().byte().movedim(0, -1).numpy()
    grey = bytes_HWC.shape[-1] == 1
    return thumbnail(Image.fromarray(bytes_HWC.squeeze(-1) if grey else bytes_HWC), SIDE)


def _show(grid: Grid, weights_QK: Tensor, role: Role | None) -> tuple[float, str]:
    """How well an image shows a role, as a number and in words."""
    places, special = Places.in_grid(grid), grid.special
    patches_PK = weights_QK[special:]
    if role is None:
        sharp = float(patches_PK[:, special:].amax(1).mean())
        return sharp, f"mean largest weight {sharp:.2f}"
    match role.role:
        case "positional":
            row, column = _displacement_of(role.direction or "")
            target_P = places.key_at(row, column)[special:]
            first = int(special == 0)
            peak_P = patches_PK[:, special + first :].argmax(1) + special + first
            hits, cases = int((peak_P == target_P).sum()), int((target_P >= 0).sum())
            return hits / max(cases, 1), f"largest weight there: {hits} of {cases} patches"
        case "line":
            line = {"row": places.is_same_row, "column": places.is_same_column}
            is_line = line[str(role.direction)]()
            share = float((patches_PK * is_line[special:]).sum(1).mean())
            return share, f"{percent(share)} of attention in the own {role.direction}"
        case "local":
            on_all_P = patches_PK[:, special:].sum(1).clamp_min(1e-12)
            distance = float(((patches_PK * places.distance()[special:]).sum(1) / on_all_P).mean())
            return -distance, f"mean distance {distance:.1f} patches"
        case "spot":
            row, column = _spot_of(role.direction or "")
            share = float(weights_QK[:, special + row * grid.columns + column].mean())
            return share, f"{percent(share)} of attention on {role.direction}"
        case "sink":
            share = float(weights_QK[:, 0].mean())
            return share, f"{percent(share)} of attention on the class token"
        case _:
            raise AssertionError(f"no example shows the role {role.role}")


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


def _displacement_of(words: str) -> tuple[int, int]:
    """The displacement behind the words of a positional role.

    >>> _displacement_of("to the left"), _displacement_of("2 up and 1 to the right")
    ((0, -1), (-2, 1))
    """
    named = {entry.direction: place for place, entry in AT_PLACES.items()}
    if words in named:
        return named[words]
    return next(each for each in DISPLACEMENTS if displacement_words(*each) == words)


def _spot_words(row: int, column: int) -> str:
    """The place of a patch in words.

    >>> _spot_of(_spot_words(2, 0))
    (2, 0)
    """
    return f"row {row + 1}, column {column + 1}"


def _spot_of(words: str) -> tuple[int, int]:
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
        named = [{"direction": _spot_words(*divmod(patch, grid.columns))} for patch in chosen]
        cells_at = partial(on_spot, spots, grid)
        yield from chosen_rows(self.place, TRAITS["spot"], chosen, cells_at, named)


def on_spot(spots: PatchSpots | FrameMoments, grid: Grid, patch: int) -> Cells:
    """How much of their attention heads give to one place of every image or recording."""
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
    beside_2TO, far_2T = traits.near.double().numpy(), traits.far.double().numpy()
    found_2TH = beside_2TO @ weight_HO.T + far_2T[..., None] * far_H
    return ratio(found_2TH, traits.cases.numpy()[..., None])
