"""Which tokens of a Vision Transformer are patches, found out for many families."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from headcount import Corpus, load
from headcount.core import Grid, ModelError
from headcount.models import Loaded, image_encoder
from tests import pictures

SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": 12,
    "patch_size": 4,
}
MADE: dict[str, tuple[Callable[[], Any], int]] = {
    "deit": (lambda: hf.DeiTForImageClassification(_config("DeiT")), 2),
    "beit": (lambda: hf.BeitForImageClassification(_config("Beit")), 1),
    "dinov2": (lambda: hf.Dinov2Model(_config("Dinov2")), 1),
    "registers": (lambda: hf.Dinov2WithRegistersModel(_config("Dinov2WithRegisters")), 5),
    "dinov3": (lambda: hf.DINOv3ViTModel(_config("DINOv3ViT", num_register_tokens=4)), 5),
    "ijepa": (lambda: hf.IJepaModel(_config("IJepa")), 0),
    "clip": (lambda: hf.CLIPVisionModel(_config("CLIPVision")), 1),
}
"""Makers of models, and the number of special tokens of their images."""


def _config(name: str, **more: Any) -> Any:
    return getattr(hf, f"{name}Config")(**SIZES, **more)


def _loaded(model: Any, size: int = 12) -> Loaded:
    processor = hf.ViTImageProcessorPil(size={"height": size, "width": size})
    return Loaded(model.eval(), None, "model", image_processor=processor)


@pytest.mark.slow
@pytest.mark.parametrize("family", MADE)
def test_patches_are_found(family: str, tmp_path: Path):
    from headcount import measure

    make, special = MADE[family]
    loaded = _loaded(make())
    assert image_encoder(loaded).grid == Grid(3, 3, special)
    table = measure(loaded, Corpus(pictures.write_images(tmp_path, 2))).frame
    numbers = table.set_index("head").select_dtypes("number")
    assert numbers.notna().to_numpy().all() or not special


@pytest.mark.slow
def test_a_model_that_was_looked_at_can_be_trained():
    """BEiT keeps a tensor of its first pass, for all models whose images have as many patches."""
    loaded = _loaded(hf.BeitForImageClassification(_beit()), 20)
    assert image_encoder(loaded).grid == Grid(5, 5, 1)
    output = loaded.model(pixel_values=torch.zeros(1, 3, 20, 20), labels=torch.tensor([0]))
    output.loss.backward()


def _beit() -> Any:
    make: Any = hf.BeitConfig
    return make(**SIZES | {"image_size": 20}, use_relative_position_bias=True)


@pytest.mark.slow
def test_other_models_are_refused():
    windows: Any = hf.SwinConfig
    swin = hf.SwinForImageClassification(
        windows(image_size=16, patch_size=4, embed_dim=8, depths=[1], num_heads=[2], window_size=2)
    )
    message = "Expected a model whose tokens are the 4 x 4 patches of an image, row by row after"
    with pytest.raises(ModelError, match=message):
        image_encoder(_loaded(swin, 16))
    after = hf.YolosModel(_yolos())
    with pytest.raises(ModelError, match="Expected a model whose tokens are the 3 x 3 patches"):
        image_encoder(_loaded(after))
    with pytest.raises(ModelError, match="Expected a model that runs on images of 20 x 20 pixels"):
        image_encoder(_loaded(MADE["deit"][0](), 20))
    with pytest.raises(ModelError, match=r"at least one patch of 4 x 4 pixels, got 2 x 2\."):
        image_encoder(_loaded(MADE["deit"][0](), 2))


def _yolos() -> Any:
    make: Any = hf.YolosConfig
    return make(**SIZES | {"image_size": [12, 12]}, num_detection_tokens=3)


def test_the_image_processor_is_loaded_and_a_damaged_one_is_warned_of(tmp_path: Path):
    pictures.save(pictures.random(), tmp_path)
    assert type(load(tmp_path).image_processor).__name__ == "ViTImageProcessorPil"
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.warns(UserWarning, match="its image processor can't be read and is ignored"):
        assert load(tmp_path).image_processor is None
