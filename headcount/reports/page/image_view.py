"""An image as one head sees it: the picture, and the attention of some patches over all of them."""

import base64
from dataclasses import dataclass
from typing import final

from headcount.core import Grid
from headcount.results import Example


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
