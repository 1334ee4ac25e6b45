"""Programs of Vision Transformers, whose patches are rows of bits as tokens are."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, final

import numpy as np
import PIL.Image
from jaxtyping import Float, Int, UInt8

from headcount.corpora import Sentence
from headcount.testing.alone import Alone
from headcount.testing.programs import Family, Planted
from headcount.testing.tokens import drawn

Image = Int[np.ndarray, "row column bit"]
ROWS, COLUMNS = 4, 5
"""Number of patches of an image."""
SIDE, CHANNELS = 2, 3
"""Pixels of a side of a patch, and their colours, which are more than a patch has bits."""


@final
@dataclass(frozen=True)
class Patches(Alone[Image]):
    """Heads of a Vision Transformer that says from its class token which class an image is.

    The class token reads patches in one place of every image (`spot`), or what a head that tells
    has written there: the bits of the patch at a place beside it. A patch beyond the edge is the
    one at the edge.
    """

    site: ClassVar[str] = "encoder.self"
    families: ClassVar[tuple[Family, ...]] = ("patches",)
    kinds = ("place", "beside", "spot", "row", "column", "first", "idle")

    def read(self, planted: Planted, example: Image) -> Float[np.ndarray, " label"]:
        """What a head reads at the class token."""
        row, column = planted.place
        if planted.reads_told:
            (tells,) = (each for each in self.planted if each.kind == "beside")
            row, column = row + tells.place[0], column + tells.place[1]
        row, column = min(max(row, 0), ROWS - 1), min(max(column, 0), COLUMNS - 1)
        return example[[row], column, planted.bit].astype(float)

    def images(self, number: int, seed: int) -> list[Image]:
        """The bits of patches of some images, at random."""
        return [*drawn(np.random.default_rng((10, seed)), (number, ROWS, COLUMNS))]


def pixels(bits_RCK: Image) -> UInt8[np.ndarray, "height width colour"]:
    """An image as it is drawn: each bit of a patch is one colour of one pixel, black or full."""
    values = np.zeros((*bits_RCK.shape[:2], SIDE * SIDE * CHANNELS), np.uint8)
    values[..., : bits_RCK.shape[2]] = 255 * (bits_RCK > 0)
    height_width = (ROWS, COLUMNS, SIDE, SIDE, CHANNELS)
    image = values.reshape(height_width).transpose(0, 2, 1, 3, 4)
    return image.reshape(ROWS * SIDE, COLUMNS * SIDE, CHANNELS)


@cache
def _folder() -> TemporaryDirectory[str]:
    """A folder for images, which are deleted when the process ends."""
    return TemporaryDirectory()


def drawn_images(program: Patches, number: int, seed: int = 0) -> tuple[Sentence, ...]:
    """Examples of a corpus of images, at random."""
    paths = [Path(_folder().name) / f"{seed}_{n:04}.png" for n in range(number)]
    for path, bits_RCK in zip(paths, program.images(number, seed), strict=True):
        PIL.Image.fromarray(pixels(bits_RCK)).save(path)
    return tuple(Sentence(path.name, image=path) for path in paths)
