"""The vision tower of a model of texts and pictures, as a model of images.

It reads a picture as the whole model does. Of processors that cut pictures into tiles, it reads the
tile that shows the whole picture; towers of pictures of any shape are given squares.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.corpora import Corpus, map_of
from headcount.models.image_encoding import num_channels
from headcount.models.loaded import Loaded
from headcount.models.patch_tower import SIDE, as_vit, pixels_of, takes_patches
from headcount.models.picture_encoding import picture_encoder, reads_pictures
from headcount.models.sound_tower import hears_beside_text, sound_tower_of
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
