"""Image classification against the textbook, one image at a time, and what is refused."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from headcount.core import CorpusError, InputError, ModelError
from headcount.models import Loaded
from headcount.tasks import ImageClassification, TaskSplits, build, evaluate, fitting
from tests import pictures

NUM_IMAGES = 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures.write_images(tmp_path_factory.mktemp("images"), NUM_IMAGES, pictures.LABELS)


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return pictures.loaded(pictures.random())


def test_losses_and_classes_are_the_textbook(folder: Path, loaded: Loaded):
    task = build("image-classification", loaded, folder)
    assert isinstance(task, ImageClassification)
    found = evaluate(loaded.model, task)
    slow = {}
    for label, name in enumerate(pictures.LABELS):
        for path in sorted((folder / name).iterdir()):
            image = Image.open(path).convert("RGB")
            pixels = loaded.image_processor(image, return_tensors="pt")["pixel_values"]
            with torch.no_grad():
                logits = loaded.model(pixels).logits[0].tolist()
            loss = math.log(sum(math.exp(each) for each in logits)) - logits[label]
            slow[path.name] = (loss, label, max(range(3), key=logits.__getitem__))
    names = [f"{n:03}.png" for n in range(NUM_IMAGES)]  # labels take turns, as when written
    loss_N, gold_N, predicted_N = zip(*(slow[name] for name in names), strict=True)
    np.testing.assert_allclose(found.loss_N, loss_N, rtol=1e-4, atol=1e-5)
    assert task.gold_N.tolist() == list(gold_N)
    assert found.outcome_N.tolist() == list(predicted_N)
    right = [gold == each for gold, each in zip(gold_N, predicted_N, strict=True)]
    assert task.score(found) == pytest.approx(sum(right) / NUM_IMAGES)
    assert 0 < sum(right) < NUM_IMAGES


def test_images_do_not_depend_on_their_batch(folder: Path, loaded: Loaded, monkeypatch):
    from headcount.importance.lrp.relevance import start_of

    task = build("image-classification", loaded, folder)
    whole, single = (evaluate(loaded.model, task, size) for size in (10_000, 1))
    np.testing.assert_allclose(whole.loss_N, single.loss_N, rtol=1e-5)
    monkeypatch.setattr("headcount.tasks.classification.HELD", 0)  # read again every time
    again = build("image-classification", loaded, folder)
    assert evaluate(loaded.model, again, 10_000).loss_N.tolist() == whole.loss_N.tolist()
    batch = next(task.batches(21 * 4))
    assert batch.inputs["pixel_values"].shape == (4, 3, 12, 15)
    assert batch.is_query("encoder.self", (4, 21)).all()
    assert start_of(task)(loaded.model, batch) is not None


def test_the_hash_is_of_pixels_and_labels(folder: Path, loaded: Loaded, tmp_path: Path):
    whole = build("image-classification", loaded, folder)
    table = tmp_path / "images.csv"
    rows = [
        f"{path},{pictures.LABELS.index(path.parent.name)}"
        for path in sorted(folder.rglob("*.png"))
    ]
    table.write_text("\n".join(["file_name,label", *rows]))
    by_number = build("image-classification", loaded, table)
    assert isinstance(whole, ImageClassification) and isinstance(by_number, ImageClassification)
    assert sorted(by_number.gold_N.tolist()) == sorted(whole.gold_N.tolist())
    moved = pictures.write_images(tmp_path / "moved", NUM_IMAGES, pictures.LABELS)
    assert build("image-classification", loaded, moved).sha256 == whole.sha256
    (moved / "cat" / "000.png").rename(moved / "dog" / "000.png")
    assert build("image-classification", loaded, moved).sha256 != whole.sha256


def test_images_that_two_data_sets_share_are_reported(folder: Path, loaded: Loaded, tmp_path: Path):
    copy = pictures.write_images(tmp_path, 3, pictures.LABELS)
    splits = TaskSplits.build("image-classification", loaded, train=folder, dev=copy)
    assert splits.warnings[0].startswith("3 of 3 examples of dev are in train too")


def test_what_can_not_be_classified_is_refused(folder: Path, loaded: Loaded, tmp_path: Path):
    def make(data: Path, **options: Any) -> None:
        build("image-classification", loaded, data, **options)

    with pytest.raises(CorpusError, match=r"000\.png: expected images in folders named after"):
        make(pictures.write_images(tmp_path / "flat", 2))
    pictures.write_images(tmp_path / "other" / "cat", 2)
    strange = pictures.write_images(tmp_path / "other" / "fox", 1) / "000.png"
    message = f"{strange}: expected one of the model's 3 classes (0 cat, 1 dog, 2 owl), got 'fox'."
    with pytest.raises(CorpusError, match=re.escape(message)):
        make(tmp_path / "other")
    with pytest.raises(InputError, match="Expected a limit of at least 1 example, got 0"):
        make(folder, limit=0)
    with pytest.raises(CorpusError, match="Expected examples of at least two classes for f1"):
        make(folder, limit=1, metric="f1")
    with pytest.raises(CorpusError, match="Expected columns of a table, got image for a folder of"):
        build("image-classification", loaded, folder, {"image": "1"})
    with pytest.raises(CorpusError, match="Expected folders of images only, got the file"):
        build("image-classification", loaded, [folder, strange])
    bare = Loaded(loaded.model, None, "bare")
    with pytest.raises(ModelError, match="Expected an image processor beside the weights of bare"):
        build("image-classification", bare, folder)
    inner: Any = loaded.model.base_model
    body = Loaded(inner, None, "body")
    with pytest.raises(ModelError, match=r"Expected a \.\.\.ForImageClassification for image-"):
        build("image-classification", body, folder)
    assert fitting(loaded.model) == ["image-classification"]
