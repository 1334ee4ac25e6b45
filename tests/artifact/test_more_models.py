"""Models of other kinds than the tiny ones: compact, saved and loaded again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

import headcount
from headcount.artifact import save_compact
from headcount.artifact.saving import auto_class_of
from headcount.compaction import compact
from headcount.core import ModelError, Plan
from headcount.models import Loaded
from headcount.tap import Tap, difference, examine, sample_runs
from tests import tiny
from tests.compaction.plans import some_heads
from tests.turns import slow

PICTURE: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 9,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 8,
    "patch_size": 4,
}


def umt5() -> PreTrainedModel:
    """Every layer makes its own position bias."""
    config = transformers.UMT5Config(
        vocab_size=tiny.VOCAB,
        d_model=17,
        d_kv=11,
        num_heads=5,
        num_layers=2,
        num_decoder_layers=2,
        d_ff=23,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=19,
        **tiny.SPECIAL | {"decoder_start_token_id": tiny.SPECIAL["pad_token_id"]},
    )
    return tiny.seeded(transformers.UMT5ForConditionalGeneration(config))


def llava_next() -> PreTrainedModel:
    """A parameter at the root of the body, `image_newline`."""
    config = transformers.LlavaNextConfig(
        text_config=transformers.LlamaConfig(**tiny.GROUPED),
        vision_config=transformers.CLIPVisionConfig(**PICTURE),
        image_token_index=tiny.VOCAB - 1,
        image_grid_pinpoints=[[8, 8]],
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return tiny.seeded(transformers.LlavaNextForConditionalGeneration(config))


def tipsv2() -> PreTrainedModel:
    """A parameter at the root of the model, `temperature`."""
    text = {key: PICTURE[key] for key in PICTURE if key not in ("image_size", "patch_size")}
    config = transformers.Tipsv2Config(
        text_config=text | {"vocab_size": tiny.VOCAB, "max_position_embeddings": 40},
        vision_config=PICTURE,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return tiny.seeded(transformers.Tipsv2Model(config))


def segformer() -> PreTrainedModel:
    """The configuration has numbers of heads by stage, not by layer, and checks their type."""
    config = transformers.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        hidden_sizes=[16, 24],
        num_attention_heads=[2, 3],
        sr_ratios=[2, 1],
        patch_sizes=[3, 3],
        strides=[2, 2],
        mlp_ratios=[2, 2],
    )
    return tiny.seeded(transformers.SegformerForImageClassification(config))


def falcon_h1() -> PreTrainedModel:
    """Layers have a constant that no file holds, and that the body makes for all of them."""
    sizes: dict[str, Any] = tiny.GROUPED | {"num_key_value_heads": 2, "num_attention_heads": 4}
    sizes |= {"head_dim": 8}
    config = transformers.FalconH1Config(
        **sizes,
        mamba_d_ssm=32,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_n_groups=1,
        mamba_d_state=8,
    )
    return tiny.seeded(transformers.FalconH1ForCausalLM(config))


def mllama() -> PreTrainedModel:
    """No auto class knows the configuration of the text model alone."""
    kind: Any = transformers.MllamaForCausalLM
    rope = {"rope_type": "default", "rope_theta": 1e4}
    sizes = tiny.GROUPED | {"hidden_size": 60, "rope_parameters": rope}
    config = kind.config_class(**sizes, cross_attention_layers=[])
    return tiny.seeded(kind(config))


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "falcon_h1": falcon_h1,
    "mllama": mllama,
    "segformer": segformer,
    "umt5": umt5,
    "llava_next": llava_next,
    "tipsv2": tipsv2,
}
pytestmark = pytest.mark.filterwarnings("ignore:.* saw no image")
ROOT = {"llava_next": "model.image_newline", "tipsv2": "temperature"}


@pytest.mark.slow
@pytest.mark.parametrize("dead", [None, *slow(0, 1)])
@pytest.mark.parametrize("name", MODELS)
def test_saved_and_loaded(name: str, dead: int | None, tmp_path: Path) -> None:
    """By headcount, by transformers, and by transformers once it is saved again."""
    model = MODELS[name]()
    loaded = Loaded(model, None, name)
    plan = some_heads(loaded.anatomy, dead)
    save_compact(loaded, plan, tmp_path / "small")
    auto = getattr(transformers, auto_class_of(model))
    plain = auto.from_pretrained(tmp_path / "small", trust_remote_code=True)
    plain.save_pretrained(tmp_path / "again")
    again = auto.from_pretrained(tmp_path / "again", trust_remote_code=True)
    found = [headcount.load(tmp_path / "small").model, plain.eval(), again.eval()]
    for run in sample_runs(model).values():
        with torch.inference_mode():
            with Tap(model, loaded.anatomy, gates=plan.gates(loaded.heads)):
                gated = run.outputs(model)
            assert difference(run.outputs(model), gated) > 1e-4, "the pruned heads did something"
            for each in found:
                assert difference(run.outputs(each), gated) < 1e-5
    if name in ROOT:
        expected = model.get_parameter(ROOT[name])
        assert all(torch.equal(each.get_parameter(ROOT[name]), expected) for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOT)
def test_a_frozen_parameter_at_the_root(name: str) -> None:
    model = MODELS[name]()
    parameter = model.get_parameter(ROOT[name])
    parameter.requires_grad_(False)
    smaller = compact(model, some_heads(examine(model), None))
    assert [key for key, each in smaller.named_parameters() if not each.requires_grad] == [
        ROOT[name]
    ]


def _llava() -> tuple[PreTrainedModel, dict[str, torch.Tensor]]:
    """A tiny LLaVA, and two texts with an image each."""
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**tiny.GROUPED),
        vision_config=transformers.CLIPVisionConfig(**PICTURE),
        image_token_index=tiny.VOCAB - 1,
        vision_feature_layer=-1,
    )
    model = tiny.seeded(transformers.LlavaForConditionalGeneration(config))
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(tiny.FIRST_ID, tiny.VOCAB - 1, (2, 9), generator=generator)
    ids[:, 2:6] = tiny.VOCAB - 1  # four patches
    images = torch.randn(2, 3, 8, 8, generator=generator)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": images}
    return model, batch


@pytest.mark.slow
def test_inputs_of_one_s_own(tmp_path: Path) -> None:
    """Text beside an image: the heads of both are cut, and compared on these inputs."""
    model, batch = _llava()
    loaded = Loaded(model, None, "llava", batch)
    assert set(loaded.heads.counts) == {"vision.self", "decoder.self"}
    certificate = save_compact(loaded, some_heads(loaded.anatomy, 1), tmp_path / "small")
    assert {each.runs for each in certificate.comparisons} == {("on the given inputs",)}
    _check_made_smaller_again(tmp_path / "small", batch)
    found = headcount.load(tmp_path / "small", inputs=batch)
    assert found.heads.counts["vision.self"][1] == found.heads.counts["decoder.self"][1] == 0


def _check_made_smaller_again(folder: Path, batch: dict[str, torch.Tensor]) -> None:
    """Heads have the original's numbers; a model from before vision had a site is refused."""
    found = headcount.load(folder, inputs=batch)
    again = compact(found, Plan({"vision.self": {0: (0,)}}))
    names = found.model.config.head_plan["kept"]
    assert again.config.head_plan["kept"]["vision.self"]["0"] == names["vision.self"]["0"][:1]
    assert again.config.head_plan["kept"]["decoder.self"] == names["decoder.self"]
    for part in ("kept", "heads", "layers"):
        old = found.model.config.head_plan[part]
        found.model.config.head_plan[part] = {
            {"vision.self": "encoder.self"}.get(site, site): each for site, each in old.items()
        }
    with pytest.raises(ModelError, match="is at vision.self, and its config.json has it at enco"):
        compact(found, Plan({"vision.self": {0: (0,)}}))


@pytest.mark.slow
def test_an_image_is_passed_only_the_second_time(tmp_path: Path) -> None:
    """Heads that the first plan did not see keep their own numbers."""
    model, batch = _llava()
    text = {name: each for name, each in batch.items() if name != "pixel_values"}
    text["input_ids"] = text["input_ids"].clamp(max=tiny.VOCAB - 2)
    smaller = compact(Loaded(model, None, "llava", text), Plan({"decoder.self": {0: (0, 3)}}))
    again = compact(Loaded(smaller, None, "llava", batch), Plan({"vision.self": {0: (1, 3)}}))
    assert again.config.head_plan["heads"] == {"decoder.self": [6, 6], "vision.self": [4, 4]}
    assert again.config.head_plan["kept"]["vision.self"]["0"] == [1, 3]
    headcount.save(again, tmp_path / "small")
    assert headcount.load(tmp_path / "small", inputs=batch).heads.counts == {
        "decoder.self": (2, 6),
        "vision.self": (2, 4),
    }
