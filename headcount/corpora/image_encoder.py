"""The image encoder: turns images into the tokens and inputs of a Vision Transformer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import Grid, amount
from headcount.corpora.encoder import EncodedPair, Encoder
from headcount.corpora.images import open_image
from headcount.corpora.picture_encoder import PictureEncoder
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence
from headcount.corpora.sound_encoder import SoundEncoder
from headcount.corpora.spelling import PunctuationTable
from headcount.vocabulary import IMAGES

PATCH, SPECIAL = 0, 1
"""Token ids: all patches count as equally frequent, and none is rare."""


@final
class ImageEncoder:
    """Turns images into pixels and patches, as `Encoder` turns sentences into token ids.

    Args:
        processor: the model's image processor.
        grid: patches of every image.
        channels: number of colours of a pixel: 1 or 3.
        dtype: number format of the model.
    """

    inputs = IMAGES
    token_types = windows = strict = False
    start_id: None = None
    max_length = None
    pad_id, unknown_id, sep_ids = PATCH, None, ()

    def __init__(
        self, processor: Any, grid: Grid, channels: int = 3, dtype: torch.dtype = torch.float32
    ) -> None:
        self.processor, self.grid = processor, grid
        self.channels, self.dtype = channels, dtype
        self.source_punctuation = self.target_punctuation = PunctuationTable(lambda token: "patch")
        special = [True] * grid.special + [False] * grid.num_patches
        ids = [SPECIAL if each else PATCH for each in special]
        self._encoded = Encoded(ids, [NO_WORD] * len(ids), special, len(ids))

    @property
    def about(self) -> str:
        """What the processor and the model make of an image."""
        grid, (height, width) = self.grid, self.pixel_size
        return (
            f"{type(self.processor).__name__}, {height} x {width} pixels: {grid.rows} x "
            f"{grid.columns} patches after {amount(grid.special, 'special token')}"
        )

    @property
    def pixel_size(self) -> tuple[int, int]:
        """Height and width, in pixels, of the images that the processor makes of a large one."""
        from PIL import Image

        blank = Image.new("L" if self.channels == 1 else "RGB", (512, 512))
        height, width = self._processed([blank]).shape[2:]
        return height, width

    def encode(self, sentences: Sequence[Sentence]) -> list[EncodedPair]:
        """The tokens of some images, in order; each is opened, so that a bad one is found early.

        Raises:
            CorpusError: for a text, or an image that can't be read.
        """
        for sentence in sentences:
            open_image(path_of(sentence), self.channels)
        return [EncodedPair(sentence, self._encoded, None) for sentence in sentences]

    def arguments(
        self, sentences: Sequence[Sentence], ids_BN: Tensor, is_token_BN: Tensor
    ) -> dict[str, Tensor]:
        """The arguments of the model's forward for some images; all have the same tokens."""
        return {"pixel_values": self.pixels([path_of(sentence) for sentence in sentences])}

    def pixels(self, paths: Sequence[Path]) -> Float[Tensor, "image channel height width"]:
        """Pixels as the model reads them: resized, cropped and normalised by its processor."""
        return self._processed([open_image(path, self.channels) for path in paths])

    def _processed(self, images: Sequence[Any]) -> Float[Tensor, "image channel height width"]:
        return self.processor(images, return_tensors="pt")["pixel_values"].to(self.dtype)


AnyEncoder = Encoder | ImageEncoder | SoundEncoder | PictureEncoder
"""What reads texts, images, sound, or texts beside pictures."""


def path_of(sentence: Sentence) -> Path:
    """The file of an image.

    Raises:
        CorpusError: for a text.
    """
    sentence.check_is(IMAGES)
    assert sentence.image is not None
    return sentence.image
