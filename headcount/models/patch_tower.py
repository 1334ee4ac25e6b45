"""A vision tower that reads rows of patches, as a model of images.

Towers such as Qwen2.5-VL's take the patches of all pictures in one row, merged by squares and
perhaps sorted by windows, with the shape of each picture. Here such a tower takes pixels of images
of one size, as a Vision Transformer does. It shares every module with the tower that it is made of.

Which token is which patch nobody says, so it is tried out: in the n-th of some images, the patches
are negated in whose number the n-th bit is set, and the tokens that change spell their number.
"""

import copy
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.tap import arguments_heard, evaluating, packed_modules

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
            pixels = torch.zeros(1, _channels(self), height, width)
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
    return _channels(tower), config.temporal_patch_size, config.patch_size, config.patch_size


def _channels(tower: Any) -> int:
    names = ("in_channels", "num_channels", "in_chans")
    return next(
        (each for name in names if isinstance(each := getattr(tower.config, name, None), int)), 3
    )


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
    pixels = torch.randn(1, _channels(tower), rows * side, columns * side, generator=generator)
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
