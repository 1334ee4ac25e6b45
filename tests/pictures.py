"""Images and Vision Transformers for tests: random ones, and one whose heads are known."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image
from transformers import PreTrainedModel

from headcount.models import Loaded
from tests import tiny

ROWS, COLUMNS, PATCH = 4, 5, 3
LABELS = ("cat", "dog", "owl")
LEFT, CLASS, ROW, EVEN, SPOT = range(5)
"""Heads of the planted model: what each looks at."""
NUM_PLANTED, SPOT_PLACE = 5, (1, 3)


def write_images(folder: Path, number: int, labels: tuple[str, ...] = (), seed: int = 0) -> Path:
    """Random images, in a folder for each label, if there are labels."""
    rng = np.random.default_rng(seed)
    for n in range(number):
        place = folder / labels[n % len(labels)] if labels else folder
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (ROWS * PATCH, COLUMNS * PATCH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{n:03}.png")
    return folder


def processor() -> Any:
    """The image processor of both models."""
    return hf.ViTImageProcessorPil(size={"height": ROWS * PATCH, "width": COLUMNS * PATCH})


def _config(**sizes: Any) -> Any:
    make: Any = hf.ViTConfig
    return make(
        image_size=(ROWS * PATCH, COLUMNS * PATCH),
        patch_size=PATCH,
        num_hidden_layers=1,
        intermediate_size=8,
        id2label=dict(enumerate(LABELS)),
        label2id={name: number for number, name in enumerate(LABELS)},
        **sizes,
    )


def planted() -> PreTrainedModel:
    """One layer: heads look left, at the class token, at their row, nowhere, and at one patch.

    Position embeddings hold row, column and class as indicators. Queries of the first head hold
    the column one to the left.
    """
    dim = ROWS + COLUMNS + 1
    make: Any = hf.ViTForImageClassification
    model = make(_config(hidden_size=NUM_PLANTED * dim, num_attention_heads=NUM_PLANTED))
    where = torch.zeros(1, ROWS * COLUMNS + 1, NUM_PLANTED * dim)
    where[0, 0, ROWS + COLUMNS] = 1
    for row in range(ROWS):
        for column in range(COLUMNS):
            where[0, 1 + row * COLUMNS + column, [row, ROWS + column]] = 1
    attention = model.vit.layers[0].attention
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.01)
        embeddings = model.vit.embeddings
        embeddings.position_embeddings.copy_(where)
        embeddings.cls_token.zero_()
        query, key = (torch.zeros(NUM_PLANTED, dim, NUM_PLANTED * dim) for _ in range(2))
        key[:, range(dim), range(dim)] = 1
        rows, columns = range(ROWS), range(ROWS, ROWS + COLUMNS)
        query[LEFT, rows, rows] = query[ROW, rows, rows] = 4
        query[LEFT, columns[:-1], columns[1:]] = 4
        query[CLASS, ROWS + COLUMNS, :dim] = 4
        query[SPOT, [SPOT_PLACE[0], ROWS + SPOT_PLACE[1]], :dim] = 4
        for projection, weight in ((attention.q_proj, query), (attention.k_proj, key)):
            projection.weight.copy_(weight.flatten(0, 1))
            projection.bias.zero_()
    return model.eval()


def loaded(model: PreTrainedModel) -> Loaded:
    """A model with its image processor."""
    return Loaded(model, None, "vit", image_processor=processor())


def save(model: PreTrainedModel, folder: Path) -> Path:
    """A model's folder."""
    model.save_pretrained(folder)
    processor().save_pretrained(folder)
    return folder


def random(seed: int = 7) -> PreTrainedModel:
    """A random model of one layer, whose answers differ between images."""
    model = hf.ViTForImageClassification(_config(hidden_size=40, num_attention_heads=4))
    return tiny.seeded(model, seed=seed)
