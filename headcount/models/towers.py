"""The vision tower of a model of texts and pictures, as a model of images.

It reads a picture as the whole model does. Of processors that cut pictures into tiles, it reads the
tile that shows the whole picture; towers of pictures of any shape are given squares.

Towers such as Qwen2.5-VL's take the patches of all pictures in one row, merged by squares and
perhaps sorted by windows, with the shape of each picture. Here such a tower takes pixels of images
of one size, as a Vision Transformer does. It shares every module with the tower that it is made of.

Which token is which patch nobody says, so it is tried out: in the n-th of some images, the patches
are negated in whose number the n-th bit is set, and the tokens that change spell their number.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.corpora import Corpus, map_of
from headcount.models.image_encoding import num_channels
from headcount.models.loaded import Loaded
from headcount.models.picture_encoding import picture_encoder, reads_pictures
from headcount.models.sound_tower import hears_beside_text, sound_tower_of
from headcount.tap import arguments_heard, evaluating, packed_modules
from headcount.vocabulary import IMAGES, SOUND


def reader_of(loaded: Loaded, corpus: Corpus) -> Loaded:
    """The model that reads a corpus: of images or sound alone, the tower of a model of texts.

    Raises:
        ModelError: as `tower_of` and `sound_tower_of`.
    """
    is_of_images = corpus.inputs is IMAGES and not corpus.has_pictures
    if is_of_images and reads_pictures(loaded.model):
        return tower_of(loaded)
    is_of_sound = corpus.inputs is SOUND and hears_beside_text(loaded.model)
    return sound_tower_of(loaded) if is_of_sound else loaded


def tower_of(loaded: Loaded) -> Loaded:
    """The vision tower of a model of texts and pictures, as a model of images.

    Its head enc.L.H is vision.L.H of the whole.

    Raises:
        ModelError: if the model has no tower that reads pixels or patches, or no processor.
    """
    processor = picture_encoder(loaded).processor.image_processor
    parts = [each for each in loaded.model.modules() if isinstance(each, PreTrainedModel)]
    tower = next(filter(_takes_pixels, parts), None)
    reader: _OneTile | _Square = _OneTile(processor)
    if tower is None:
        patches = next(filter(takes_patches, parts), None)
        if patches is None:
            raise ModelError(
                f"Expected a vision tower that reads pixels, or patches with the shape of each "
                f"picture, got {loaded.name} ({loaded.config.model_type}), which has none. Give "
                "chats with pictures for the heads of the language model."
            )
        reader, view = _Square(processor, patches), as_vit(patches)
        view.lay_out(*reader.size)
        tower = view
    return replace(
        loaded,
        model=tower,
        tokenizer=None,
        inputs=_in_windows(tower),
        image_processor=reader,
        processor=None,
        source=None,
    )


def _takes_pixels(part: PreTrainedModel) -> bool:
    """Whether a part of a model reads pixels and nothing else, and attends to them."""
    taken = signature(part.forward).parameters
    return "pixel_values" in taken and "input_ids" not in taken


def _in_windows(tower: Any) -> dict[str, Tensor] | None:
    """Random images of several windows, if a tower attends in windows, so that they are checked."""
    config = tower.config
    window = getattr(config, "window_size", None)
    if not takes_patches(tower) or not isinstance(window, int):
        return None
    side = window + config.patch_size * config.spatial_merge_size
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(2, num_channels(tower), side, side, generator=generator)
    return {"pixel_values": pixels.to(tower.device, tower.dtype)}


@final
class _OneTile:
    """An image processor that gives one tile of each image, which shows all of it.

    Args:
        processor: the image processor of a model of texts and pictures.
    """

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self._whole = cache(self._whole_of)

    def __call__(self, images: Sequence[Any], return_tensors: str = "pt") -> dict[str, Tensor]:
        """The pixels of some images, [image, channel, height, width]."""
        tiles = ((self._tiles(each), self._whole(each.size)) for each in images)
        return {"pixel_values": torch.stack([found[number] for found, number in tiles])}

    def to_dict(self) -> dict[str, Any]:
        """The settings, for the signature of a result."""
        return self.processor.to_dict()

    def _tiles(self, image: Any) -> Tensor:
        found = self.processor([image], return_tensors="pt")["pixel_values"]
        return found.flatten(0, -4)

    def _whole_of(self, size: tuple[int, int]) -> int:
        """Number of the tile with the largest part of an image whose colours say where it is."""
        tiles_TCN = self._tiles(map_of(size)).float().flatten(2)
        blue_TN = tiles_TCN[:, 2]  # as bright everywhere in the image, and dark where tiles go on
        is_inside_T1N = (blue_TN >= (blue_TN.amax() + blue_TN.amin()) / 2)[:, None]
        most_TC = tiles_TCN[:, :2].masked_fill(~is_inside_T1N, -torch.inf).amax(-1)
        least_TC = tiles_TCN[:, :2].masked_fill(~is_inside_T1N, torch.inf).amin(-1)
        return int((most_TC - least_TC).sum(-1).argmax())


@final
class _Square:
    """An image processor that gives the pixels of images as squares, for a tower of patches.

    Args:
        processor: the image processor of a model of texts and pictures, which cuts patches.
        tower: its tower.
    """

    def __init__(self, processor: Any, tower: PreTrainedModel) -> None:
        self.processor, self.tower = processor, tower

    def __call__(self, images: Sequence[Any], return_tensors: str = "pt") -> dict[str, Tensor]:
        """The pixels of some images, [image, channel, height, width]."""
        found = self.processor([each.resize((SIDE, SIDE)) for each in images], return_tensors="pt")
        _, rows, columns = found["image_grid_thw"][0].tolist()
        return {"pixel_values": pixels_of(self.tower, found["pixel_values"], rows, columns)}

    def to_dict(self) -> dict[str, Any]:
        """The settings, for the signature of a result."""
        return self.processor.to_dict() | {"square": SIDE}

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the squares, in pixels."""
        height, width = self([map_of((SIDE, SIDE))])["pixel_values"].shape[2:]
        return height, width


SIDE = 512
"""Pixels of a side of the square that every picture is resized to before a processor reads it."""


def takes_patches(tower: PreTrainedModel) -> bool:
    """Whether a tower takes patches with the shapes of pictures, as those of Qwen do."""
    taken = [*signature(tower.forward).parameters]
    sizes = ("patch_size", "spatial_merge_size", "temporal_patch_size")
    its = [getattr(tower.config, name, None) for name in sizes]
    return taken[1:2] == ["grid_thw"] and all(isinstance(each, int) for each in its)


def as_vit(tower: PreTrainedModel) -> Any:
    """A tower that takes patches, as a model of images."""
    kind: Any = type(tower)
    orders = dict[tuple[int, int], Tensor]()

    class PatchTower(kind):
        """A tower that takes pixels of images of one size."""

        main_input_name = "pixel_values"
        num_pictures = 1
        order_N: Int64[Tensor, " patch"] | None = None

        def forward(self, pixel_values: Tensor) -> Any:
            """What the tower returns of some images."""
            self.num_pictures, (rows, columns) = len(pixel_values), _shape(self, pixel_values)
            self.order_N = orders.get((rows, columns))
            grids = torch.tensor([[1, rows, columns]] * len(pixel_values))
            patches = _patches(self, pixel_values, rows, columns)
            return super().forward(patches, grid_thw=grids.to(patches.device))

        def lay_out(self, height: int, width: int) -> None:
            """Find out which token of images of some size is which patch.

            Raises:
                ModelError: if tokens are not patches, one each.
            """
            pixels = torch.zeros(1, num_channels(self), height, width)
            shape = _shape(self, pixels)
            orders[shape] = _order(self, *shape)

    PatchTower.__name__ = PatchTower.__qualname__ = kind.__name__
    found: Any = copy.copy(tower)
    found.__class__ = PatchTower
    return found


def pixels_of(tower: PreTrainedModel, patches: Tensor, rows: int, columns: int) -> Tensor:
    """The pixels that a processor cut into patches, [image, channel, height, width]."""
    config: Any = tower.config
    side, merged = config.patch_size, config.spatial_merge_size
    cells = patches.view(-1, rows // merged, columns // merged, merged, merged, *_patch(tower))
    cells = cells[:, :, :, :, :, :, 0]  # a picture is a film of equal frames
    cells = cells.permute(0, 5, 1, 3, 6, 2, 4, 7)
    return cells.reshape(len(cells), -1, rows * side, columns * side)


def _patches(tower: Any, pixels: Tensor, rows: int, columns: int) -> Float[Tensor, "patch pixel"]:
    """The patches of some images, as their processor writes them: by squares that are merged."""
    side, merged = tower.config.patch_size, tower.config.spatial_merge_size
    channels, frames, _, _ = _patch(tower)
    pixels = pixels[:, :, : rows * side, : columns * side]
    cells = pixels.reshape(
        -1, channels, rows // merged, merged, side, columns // merged, merged, side
    ).permute(0, 2, 5, 3, 6, 1, 4, 7)
    cells = cells[:, :, :, :, :, :, None].expand(*cells.shape[:6], frames, side, side)
    return cells.reshape(len(pixels) * rows * columns, -1)


def _patch(tower: Any) -> tuple[int, int, int, int]:
    """Colours, frames, height and width of a patch."""
    config = tower.config
    return num_channels(tower), config.temporal_patch_size, config.patch_size, config.patch_size


def _shape(tower: Any, pixels: Tensor) -> tuple[int, int]:
    """Rows and columns of patches in squares that are merged; what is left over is cut off."""
    merged = tower.config.spatial_merge_size
    size = tower.config.patch_size * merged
    return pixels.shape[2] // size * merged, pixels.shape[3] // size * merged


class _EnoughError(Exception):
    """The states that a layer is given are known."""


def _order(tower: Any, rows: int, columns: int) -> Int64[Tensor, " patch"]:
    """Which token each patch is."""
    number, side = rows * columns, tower.config.patch_size
    num_bits = max(1, (number - 1).bit_length())
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(1, num_channels(tower), rows * side, columns * side, generator=generator)
    number_YX = torch.arange(number).view(rows, columns)
    number_YX = number_YX.repeat_interleave(side, 0).repeat_interleave(side, 1)
    sign_BYX = torch.stack([1 - 2 * (number_YX >> bit & 1) for bit in range(num_bits)])
    pixels = torch.cat([pixels, pixels * sign_BYX[:, None]]).to(tower.device, tower.dtype)
    given: list[Tensor] = []

    def hear(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states = (*args, *kwargs.values())[0]
        given.append(states.reshape(num_bits + 1, number, -1).detach().clone())
        raise _EnoughError

    try:
        with evaluating(tower), torch.no_grad(), arguments_heard(packed_modules(tower)[:1], hear):
            tower(pixels)
    except _EnoughError:
        apart_BN = (given[0][1:] - given[0][:1]).abs().amax(-1)
        changed_BN = apart_BN > 1e-4 * given[0].abs().amax()
        patch_N = (changed_BN.long() << torch.arange(num_bits)[:, None].to(tower.device)).sum(0)
        if patch_N.sort().values.equal(torch.arange(number, device=patch_N.device)):
            return patch_N.argsort().cpu()
    raise ModelError(
        f"Expected a tower whose tokens are patches, one each, got {type(tower).__name__}, whose "
        f"{number} tokens on images of {rows} x {columns} patches are something else. Give chats "
        "with pictures for the heads of the language model."
    )
