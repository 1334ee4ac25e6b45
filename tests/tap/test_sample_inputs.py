"""Inputs that are made up for models of text, images and sound, and inputs of one's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import InputError, ModelError
from headcount.tap import examine, gated, tapped, tiny_inputs
from headcount.tap.sample_inputs import check_given, check_inputs
from tests import tiny

LAYERS: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
}
WAVES: dict[str, Any] = {
    "conv_dim": (8, 8),
    "conv_stride": (3, 2),
    "conv_kernel": (4, 3),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
PICTURE: dict[str, Any] = {"image_size": 8, "patch_size": 4}


def _clip(kind: Any, config: Any) -> PreTrainedModel:
    text = LAYERS | {"vocab_size": 61, "max_position_embeddings": 40}
    text |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return kind(config(text_config=text, vision_config=LAYERS | PICTURE, projection_dim=8))


def _segformer() -> PreTrainedModel:
    """Two stages with 1 and 3 heads; keys of the first have half the height and width."""
    config = hf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        hidden_sizes=[8, 12],
        num_attention_heads=[1, 3],
        sr_ratios=[2, 1],
        patch_sizes=[7, 3],
        strides=[4, 2],
        mlp_ratios=[2, 2],
    )
    return hf.SegformerModel(config)


MODELS: dict[str, tuple[Callable[[], PreTrainedModel], set[str], str]] = {
    "wav2vec2": (
        lambda: hf.Wav2Vec2Model(hf.Wav2Vec2Config(**LAYERS, **WAVES)),
        {"input_values"},
        "encoder.self 2 layers x 3 heads",
    ),
    "hubert": (
        lambda: hf.HubertModel(hf.HubertConfig(**LAYERS, **WAVES)),
        {"input_values"},
        "encoder.self 2 layers x 3 heads",
    ),
    "spectrogram": (
        lambda: hf.ASTModel(hf.ASTConfig(**LAYERS, max_length=32, num_mel_bins=16)),
        {"input_values"},
        "encoder.self 2 layers x 3 heads",
    ),
    "video": (
        lambda: hf.VideoMAEModel(hf.VideoMAEConfig(**LAYERS, **PICTURE, num_frames=4)),
        {"pixel_values"},
        "encoder.self 2 layers x 3 heads",
    ),
    "film": (
        lambda: hf.VJEPA2Model(
            hf.VJEPA2Config(
                **LAYERS,
                patch_size=4,
                crop_size=8,
                frames_per_clip=4,
                pred_hidden_size=24,
                pred_num_attention_heads=3,
                pred_num_hidden_layers=2,
            )
        ),
        {"pixel_values_videos"},
        "encoder.self 4 layers x 3 heads",
    ),
    "segformer": (_segformer, {"pixel_values"}, "encoder.self 2 layers x 1/3 heads"),
    "clip": (
        lambda: _clip(hf.CLIPModel, hf.CLIPConfig),
        {"input_ids", "attention_mask", "pixel_values"},
        "decoder.self 2 layers x 3 heads, vision.self 2 layers x 3 heads",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_images_and_sound_are_examined(name: str) -> None:
    make, names, heads = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make().eval()
    assert tiny_inputs(model).keys() == names
    anatomy = examine(model)
    assert str(anatomy.heads) == heads
    assert not anatomy.unseen and max(anatomy.differences.values()) <= 1e-5


def test_pooling_heads_that_cannot_be_seen_are_named() -> None:
    """The layers of SigLIP are measured; its pooling head calls torch's fused attention."""
    model = hf.SiglipVisionModel(hf.SiglipVisionConfig(**LAYERS, **PICTURE)).eval()
    with pytest.warns(UserWarning, match=r"the attention of head\.attention can't be seen"):
        anatomy = examine(model)
    assert anatomy.unseen == ("head.attention",)
    assert str(anatomy.heads) == "encoder.self 2 layers x 3 heads"


def test_several_end_tokens() -> None:
    """Newer Llamas end a text with any of several tokens."""
    sizes: dict[str, Any] = tiny.GROUPED | {"eos_token_id": [2, 3, 4], "vocab_size": 8}
    config = hf.LlamaConfig(**sizes)
    model = tiny.seeded(hf.LlamaForCausalLM(config))
    ids = tiny_inputs(model)["input_ids"]
    assert not torch.isin(ids[0], torch.tensor([0, 1, 2, 3, 4])).any()
    assert len(examine(model).layers) == 2


@pytest.mark.parametrize("name", ["bert", "llama", "marian", "t5"])
def test_checked_batches_have_every_kind_of_padding(name: str) -> None:
    batches = check_inputs(tiny.MODELS[name]())
    padded, plain, bare = batches.values()
    for side in ("", "decoder_") if name in ("marian", "t5") else ("",):
        mask = padded[f"{side}attention_mask"]
        right, left, full = mask.bool()
        assert right[0] and not right[-1] and not left[0] and left[-1] and full.all()
        assert plain[f"{side}attention_mask"].all()
        assert f"{side}attention_mask" not in bare
        ids: Tensor = padded[f"{side}input_ids"]
        assert (ids[~mask.bool()] == 0).all() and (ids[mask.bool()] >= 3).all()
        assert len(full) >= 18


def test_inputs_of_ones_own() -> None:
    """A model of text and images is measured with images, whose heads text alone does not show."""
    model, inputs = _image_text()
    both = examine(model, inputs)
    with pytest.warns(UserWarning, match=r"model\.vision_tower saw no image, since only text"):
        alone = examine(model)
    assert set(both.heads.counts) == {"vision.self", "decoder.self"}
    assert alone.not_run == ("model.vision_tower",) and not both.not_run
    assert set(alone.heads.counts) == {"decoder.self"}
    with torch.no_grad():
        stock = model(**inputs).logits
        heard: list[str] = []
        with tapped(model, lambda block: heard.append(block.layer.site), anatomy=both):
            found = model(**inputs).logits
        with gated(model, {"vision.0.1": 0.0}, both):
            changed = model(**inputs).logits
    torch.testing.assert_close(found, stock, atol=1e-5, rtol=1e-5)
    assert set(heard) == {"vision.self", "decoder.self"}
    assert (changed - stock).abs().max() > 1e-4


def _image_text() -> tuple[PreTrainedModel, dict[str, Tensor]]:
    """A tiny LLaVA: four patches stand in for four image tokens."""
    vision = hf.CLIPVisionConfig(**LAYERS, **PICTURE)
    text = hf.LlamaConfig(**tiny.GROUPED)
    config = hf.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=60, vision_feature_layer=-1
    )
    model = tiny.seeded(hf.LlavaForConditionalGeneration(config))
    ids = torch.tensor([[60, 60, 60, 60, 7, 8, 9, 10]])
    pixels = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return model, {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": pixels,
    }


def test_what_cannot_be_made_up() -> None:
    model = hf.TimesFmModel(hf.TimesFmConfig(hidden_size=8, num_hidden_layers=1, head_dim=4))
    with pytest.raises(ModelError, match=r"'past_values', which headcount can't make up\. Pass"):
        examine(model)


@pytest.mark.filterwarnings("ignore:.* saw no image")
def test_gates_take_the_models_own_inputs_only_by_an_anatomy() -> None:
    model, _ = _image_text()
    with pytest.raises(
        ModelError, match=r"examined with an image, .* of vision\.self .* did not run"
    ):
        with gated(model, {"vision.0.1": 0.0}):
            pytest.fail("text alone does not show the heads of the vision tower")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (torch.zeros(2, 3, 8, 8), r"by name, since ViT\w+ takes pixel_values .*got one Tensor"),
        ({"images": torch.zeros(2, 3, 8, 8)}, r"such as pixel_values, got 'images'\. Pass a map"),
        ({}, r"such as pixel_values, got none\."),
        ({"pixel_values": [[0.0]]}, r"a tensor for 'pixel_values', got one list\. Pass a mapping"),
    ],
)
def test_wrong_inputs_of_ones_own(given: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_given(tiny.MODELS["vit"](), given)


def test_a_picture_of_another_size() -> None:
    model = tiny.MODELS["vit"]()
    picture = torch.zeros(2, 2, 25, 25)
    with pytest.raises(
        ModelError, match=r"runs on, got pixel_values of 2 x 2 x 25 x 25: Input ima"
    ):
        examine(model, {"pixel_values": picture})
    with pytest.raises(InputError, match="such as pixel_values, got 'images'"):
        examine(model, {"images": picture})
