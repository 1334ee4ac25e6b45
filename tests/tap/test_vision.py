"""In models that read images and text, vision layers have a site of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

import headcount as hc
from headcount.core import Head, InputError, ModelError, Plan
from headcount.corpora import Corpus
from headcount.models import Loaded, encoder_of
from headcount.tap import Anatomy, StateId, examine, state_ids
from tests import tiny

LAYERS: dict[str, Any] = {
    "hidden_size": 24,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
}
PICTURE: dict[str, Any] = LAYERS | {"image_size": 8, "patch_size": 4}
IMAGE = tiny.VOCAB - 1
"""Token that stands for a patch."""


def _batch(patches: int) -> dict[str, Tensor]:
    """Rows of a picture, a prompt that may be read in both directions, and an answer."""
    ids = torch.randint(tiny.FIRST_ID, IMAGE, (2, 9), generator=torch.Generator().manual_seed(1))
    ids[:, :patches] = IMAGE
    kinds = torch.zeros_like(ids)
    kinds[:, 6:] = 1
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
    return inputs | ({"pixel_values": images} if patches else {})


def _paligemma() -> PreTrainedModel:
    config = hf.PaliGemmaConfig(
        text_config=hf.GemmaConfig(**tiny.GROUPED),
        vision_config=hf.SiglipVisionConfig(**PICTURE, vision_use_head=False),
        projection_dim=18,
        image_token_index=IMAGE,
    )
    return tiny.seeded(hf.PaliGemmaForConditionalGeneration(config))


def _modules(anatomy: Anatomy) -> dict[str, list[str]]:
    """The first part of the modules' paths at each site."""
    found: dict[str, list[str]] = {}
    for layer in anatomy.layers:
        found.setdefault(layer.site, []).append(layer.module.partition(".layers")[0])
    return found


@pytest.mark.slow
def test_text_that_is_read_in_both_directions_is_the_decoder_s() -> None:
    """PaliGemma attends in both directions within its prompt."""
    model = _paligemma()
    anatomy = examine(model, _batch(patches=4))
    assert _modules(anatomy) == {
        "vision.self": ["model.vision_tower.encoder"] * 2,
        "decoder.self": ["model.language_model"] * 2,
    }
    assert [str(head) for head in anatomy.heads][-1] == "vision.1.2"
    assert StateId("vision", 2) in state_ids(model, anatomy)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* saw no image")
def test_names_do_not_depend_on_the_batch() -> None:
    """Without an image, text has the same names, and vision layers are left out."""
    model = _paligemma()
    whole, text = examine(model, _batch(patches=4)), examine(model, _batch(patches=0))
    assert [layer for layer in whole.layers if layer.site != "vision.self"] == [*text.layers]
    assert text.not_run == ("model.vision_tower",)


def test_text_that_only_an_encoder_reads_stays_the_encoder_s() -> None:
    """AltCLIP has two encoders; its numbers of text layers begin at 0."""
    text = hf.AltCLIPTextConfig(**LAYERS, vocab_size=tiny.VOCAB, project_dim=24, pad_token_id=0)
    vision = hf.AltCLIPVisionConfig(**PICTURE)
    config = hf.AltCLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=8
    )
    model = tiny.seeded(hf.AltCLIPModel(config))
    anatomy = examine(model)
    assert str(anatomy.heads) == "encoder.self 2 layers x 3 heads, vision.self 2 layers x 3 heads"
    with pytest.raises(InputError, match="got one that names layer 2 of encoder.self"):
        Plan({"encoder.self": {0: (0,), 2: (1,)}}).check_heads(anatomy.heads)


@pytest.mark.parametrize(
    "model",
    [
        hf.ViTModel(hf.ViTConfig(**PICTURE), add_pooling_layer=False),
        hf.SiglipForImageClassification(
            hf.SiglipConfig(
                text_config=LAYERS,
                vision_config=PICTURE | {"vision_use_head": False},
            )
        ),
    ],
    ids=["vit", "siglip"],
)
def test_a_model_of_images_alone_keeps_its_encoder(model: PreTrainedModel) -> None:
    assert str(examine(model.eval()).heads) == "encoder.self 2 layers x 3 heads"


def test_parts_may_have_no_configuration_of_their_own() -> None:
    config = hf.HieraConfig(
        image_size=[32, 32],
        patch_size=[8, 8],
        embed_dim=24,
        depths=[1, 1, 1, 1],
        num_heads=[3, 3, 3, 3],
    )
    assert len(examine(hf.HieraModel(config).eval()).heads) == 12


def test_a_corpus_is_refused_where_heads_were_found_with_an_image(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("The old dog\n")
    loaded = Loaded(_paligemma(), None, "paligemma", _batch(patches=4))
    with pytest.raises(InputError, match="whose vision heads see nothing of a corpus"):
        encoder_of(loaded, Corpus([tmp_path / "texts.txt"]))


def _protect(loaded: Loaded) -> object:

    from headcount.pruning.context import protected_heads

    return protected_heads(["vision.0.1"], loaded, {})


def _sites(loaded: Loaded) -> object:
    from headcount.pruning.budget import Units

    return Units.of(loaded.anatomy, ["vision.self"])


VISION = Plan({"vision.self": {0: (0,)}})
UNSEEN: dict[str, Callable[[Loaded], object]] = {
    "compact": lambda loaded: hc.compact(loaded, VISION),
    "ceiling": lambda loaded: hc.speed.ceiling(loaded, VISION),
    "gated": lambda loaded: hc.gated(loaded, {"vision.0.1": 0.0}).__enter__(),
    "protect": _protect,
    "sites": _sites,
}


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:.* saw no image")
@pytest.mark.parametrize("name", UNSEEN)
def test_vision_heads_of_a_model_that_saw_text_alone(name: str) -> None:
    loaded = Loaded(_paligemma(), None, "paligemma", _batch(patches=0))
    said = r"examined with an image, .*vision_tower.* did not run. Load .*inputs=processor"
    with pytest.raises(ModelError, match=said):
        UNSEEN[name](loaded)


def test_names_of_heads() -> None:
    assert Head.parse("vision.2.4") == Head("vision.self", 2, 4)
    assert str(Head("vision.self", 2, 4)) == "vision.2.4"
