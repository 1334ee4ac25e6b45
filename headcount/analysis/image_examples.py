"""Example images: for each head, a few images that show what it does best, with its attention.

A small sample of images is run once more. Of the maps are kept: the class token's row, the mean
over all patches, and the rows of some patches, all of them in a small grid.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from headcount.analysis.patch_profiles import displacement_of, spot_of
from headcount.core import Grid, Head
from headcount.corpora import AnyEncoder, Batch, ImageEncoder
from headcount.measures import Places, forward
from headcount.numbers import percent
from headcount.results import Example, Role
from headcount.tap import Anatomy, AttentionLayer, Block, WholeMap

NUM_EXAMPLES = 3
"""Number of images kept for each head."""
MAX_WEIGHTS = 4500
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
    step, most = 1, max(4, MAX_WEIGHTS // grid.num_tokens - 2)
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
    image = Image.fromarray(bytes_HWC.squeeze(-1) if bytes_HWC.shape[-1] == 1 else bytes_HWC)
    image.thumbnail((SIDE, SIDE))
    kind = "png" if max(image.size) <= SIDE // 2 else "jpeg"
    file = BytesIO()
    image.save(file, kind, **({"optimize": True} if kind == "png" else {"quality": 80}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def _show(grid: Grid, weights_QK: Tensor, role: Role | None) -> tuple[float, str]:
    """How well an image shows a role, as a number and in words."""
    places, special = Places.in_grid(grid), grid.special
    patches_PK = weights_QK[special:]
    if role is None:
        sharp = float(patches_PK[:, special:].amax(1).mean())
        return sharp, f"mean largest weight {sharp:.2f}"
    match role.role:
        case "positional":
            row, column = displacement_of(role.direction or "")
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
            row, column = spot_of(role.direction or "")
            share = float(weights_QK[:, special + row * grid.columns + column].mean())
            return share, f"{percent(share)} of attention on {role.direction}"
        case "sink":
            share = float(weights_QK[:, 0].mean())
            return share, f"{percent(share)} of attention on the class token"
        case _:
            raise AssertionError(f"no example shows the role {role.role}")
