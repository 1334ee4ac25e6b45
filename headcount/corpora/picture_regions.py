"""Regions: which part of a picture each of its tokens stands for.

Processors resize, crop, pad and cut pictures into tiles, each in its own way, and none of them says
where. So a picture is given to them whose red is the place from left to right, whose green is the
place from top to bottom, and whose blue is 1 inside: the pixels that come out say where each is
from. Tokens of a tile stand in rows, as do the tiles. A model whose tokens can't be laid over its
pixels so has no regions, and everything else works.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.corpora.sentence import Box

_INSIDE = 0.5
"""Least blue of a pixel that is no padding."""


def map_of(size: tuple[int, int]) -> Any:
    """A picture of some width and height whose colours say where each pixel is."""
    from PIL import Image

    width, height = size
    x_W, y_H = (255 * (np.arange(each) + 0.5) / each for each in (width, height))
    pixels_HW3 = np.full((height, width, 3), 255, np.uint8)
    pixels_HW3[..., 0], pixels_HW3[..., 1] = np.round(x_W), np.round(y_H)[:, None]
    return Image.fromarray(pixels_HW3)


def flat(color: int, size: tuple[int, int]) -> Any:
    """A picture of one grey."""
    from PIL import Image

    return Image.new("RGB", size, (color, color, color))


def regions_of(
    colored: Mapping[str, Tensor],
    black: Mapping[str, Tensor],
    white: Mapping[str, Tensor],
    number: int,
    merged: int,
    patch: int,
) -> list[Box | None]:
    """Regions of a picture's tokens, as shares of its width and height; none if unknown.

    Args:
        colored: what the processor makes of the picture that says where it is.
        black: the same of a black one.
        white: the same of a white one.
        number: number of the picture's tokens.
        merged: side of the square of patches that are one token, where patches come as rows.
        patch: side of a patch in pixels, where patches come as rows.
    """
    pixels = [each.get("pixel_values") for each in (colored, black, white)]
    given = [each for each in pixels if isinstance(each, Tensor)]
    if len(given) < len(pixels) or len({each.shape for each in given}) > 1:
        return []
    place, none, full = (each.float() for each in given)
    scale = full - none
    share = torch.where(scale.abs() > 1e-6, (place - none) / scale, 0)
    as_patches = "image_grid_thw" in colored
    cells_TCP = _cells(share, number, merged, as_patches)
    if cells_TCP is None:
        return []
    side = merged * patch if as_patches else round(cells_TCP.shape[2] ** 0.5)
    return [_region(cell_CP, side) for cell_CP in cells_TCP]


def regions_in_lines(
    colored: Mapping[str, Tensor],
    black: Mapping[str, Tensor],
    white: Mapping[str, Tensor],
    number: int,
    patch: int,
    tiles: Sequence[Sequence[int]],
) -> list[Box | None]:
    """Regions of a picture's tokens if the whole comes first, and then lines across all tiles.

    As in LLaVA-NeXT: lines of padding are left out, and a token of no place ends each line.

    Args:
        colored: what the processor makes of the picture that says where it is.
        black: the same of a black one.
        white: the same of a white one.
        number: number of the picture's tokens.
        patch: side of a patch in pixels.
        tiles: heights and widths that tiles can have together, in pixels.
    """
    from transformers.models.llava_next.modeling_llava_next import (
        get_anyres_image_grid_shape,
        unpad_image,
    )

    pixels = colored["pixel_values"]
    side = pixels.shape[-1] // patch
    size = [*map(int, colored["image_sizes"][0])]
    rows, columns = get_anyres_image_grid_shape(size, [[*each] for each in tiles], pixels.shape[-1])
    each = side * side * pixels.shape[1]
    if pixels.shape[1] != 1 + rows * columns:
        return []
    found = [*regions_of(colored, black, white, each, merged=1, patch=patch), None]
    place_YX = torch.arange(side * side, each).view(rows, columns, side, side)
    place_YX = place_YX.transpose(1, 2).reshape(1, rows * side, columns * side)
    place_YX = unpad_image(place_YX, size)[0]
    ended_YX = torch.cat([place_YX, torch.full_like(place_YX[:, :1], each)], dim=1)
    places = [*range(side * side), *ended_YX.flatten().tolist()]
    return [found[place] for place in places] if len(places) == number else []


def _cells(
    share: Tensor, number: int, merged: int, as_patches: bool
) -> Float[Tensor, "token color pixel"] | None:
    """The pixels of each token, by colour."""
    if as_patches:
        if share.ndim != 2 or len(share) != number * merged**2 or share.shape[1] % 3:
            return None
        patches = share.view(number, merged**2, 3, -1)
        return patches.transpose(1, 2).flatten(2)
    tiles = share.flatten(0, -4) if share.ndim > 4 else share
    if tiles.ndim != 4 or tiles.shape[1] != 3 or number % len(tiles):
        return None
    height, width = tiles.shape[2:]
    each = number // len(tiles)
    rows = round((each * height / width) ** 0.5)
    if rows < 1 or each % rows or height % rows or width % (each // rows):
        return None
    columns = each // rows
    if height // rows != width // columns:
        return None
    cells = tiles.view(len(tiles), 3, rows, height // rows, columns, width // columns)
    return cells.permute(0, 2, 4, 1, 3, 5).reshape(number, 3, -1)


def _region(cell_CP: Float[Tensor, "color pixel"], side: int) -> Box | None:
    """The rectangle that a token's pixels are from; None for padding.

    Colours are those of the middle of pixels, so it is larger by half a pixel on every side.
    """
    inside_P = cell_CP[2] > _INSIDE
    if inside_P.float().mean() < _INSIDE:
        return None
    found = list[float]()
    for each_P in cell_CP[:2, inside_P]:
        low, high = each_P.min().item(), each_P.max().item()
        half = (high - low) / max(side - 1, 1) / 2
        found += [max(low - half, 0.0), min(high + half, 1.0)]
    left, right, top, bottom = found
    return left, top, right, bottom


def inside(regions: Sequence[Box | None], boxes: Sequence[Box], size: tuple[int, int]) -> list[int]:
    """Numbers of the tokens of which at least half lies in one of some boxes.

    Where no token lies so far inside, as with a box that is smaller than a token, it is the token
    that shares most with a box.

    Args:
        regions: where the tokens are.
        boxes: boxes in pixels.
        size: width and height of the picture, in pixels.
    """
    shares = [max((_share(each, box, size) for box in boxes), default=0.0) for each in regions]
    found = [number for number, share in enumerate(shares) if share >= 0.5]
    best = max(shares, default=0.0)
    return found or [shares.index(best)] * (best > 0)


def _share(region: Box | None, box: Box, size: tuple[int, int]) -> float:
    """The share of a token's region that lies in a box."""
    if region is None:
        return 0.0
    width, height = size
    left, top, right, bottom = region
    edges = (box[0] / width, box[1] / height, box[2] / width, box[3] / height)
    across = min(right, edges[2]) - max(left, edges[0])
    down = min(bottom, edges[3]) - max(top, edges[1])
    area = max((right - left) * (bottom - top), 1e-9)
    return max(across, 0.0) * max(down, 0.0) / area
