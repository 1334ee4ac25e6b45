"""Image classification: which class an image belongs to.

Cross-entropy of the correct class, and accuracy, F1 or Matthews' correlation of the predicted ones.
An image is in the folder that is named after its class.
"""

import hashlib
from pathlib import Path
from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headcount.corpora import Columns, Data, image_digests
from headcount.models import Loaded, image_encoder
from headcount.tasks.classification import ClassTask
from headcount.tasks.options import ClassMetric
from headcount.tasks.task import TaskBatch

HELD = 2**30
"""Number of bytes of pixels that are kept in memory; the other images are read again."""


@final
class ImageClassification(ClassTask):
    """Classes of images.

    Args:
        loaded: a `...ForImageClassification` with its image processor.
        data: folders `FOLDER/label/image.png`, tables with paths of images, or
            `{"image": [...], "label": [...]}`.
        columns: `{"image": NAME, "label": NAME}` in tables. Labels are names of the config's
            `label2id` or `id2label`, or numbers of classes.
        metric: `accuracy`, `f1` or `matthews`.
        limit: largest number of images; labels take turns.
    """

    name: ClassVar[str] = "image-classification"

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        metric: ClassMetric = "accuracy",
        limit: int | None = None,
    ) -> None:
        table = self._read(loaded, data, columns, metric, limit)
        self._paths = [Path(cell) for cell in table["image"]]
        cells = "".join(map(str, zip(image_digests(table["image"]), table["label"], strict=True)))
        self.sha256 = hashlib.sha256(cells.encode()).hexdigest()
        self._encoder = image_encoder(loaded)
        self._held: dict[int, Tensor] = {}

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every image."""
        return np.full(self.num_examples, self._encoder.grid.num_tokens)

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of images with their classes."""
        pixels = torch.stack([self._pixels(int(index)) for index in index_E])
        labels = {"class": torch.from_numpy(self.gold_N[index_E])}
        rows = torch.arange(len(index_E))
        return TaskBatch({"pixel_values": pixels}, labels, rows, torch.from_numpy(index_E))

    def _pixels(self, index: int) -> Tensor:
        if index in self._held:
            return self._held[index]
        (pixels,) = self._encoder.pixels([self._paths[index]])
        if (len(self._held) + 1) * pixels.nbytes <= HELD:
            self._held[index] = pixels
        return pixels
