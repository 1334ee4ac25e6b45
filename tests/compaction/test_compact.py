"""The compact model computes what the gated one does, in every family."""

import copy
import json
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount import tap
from headcount.compaction import compact, layout
from headcount.compaction.compaction import layers_of
from headcount.compaction.equality import check_equal
from headcount.compaction.head_plan import set_layer_config
from headcount.core import Head, Heads, InputError, ModelError, Plan
from headcount.models import (
    EncoderConfig,
    EncoderForCausalLM,
    EncoderForMaskedLM,
    random_copy,
    revision,
)
from headcount.models.modeling_headcount import pruned
from headcount.tap import Block, Tap, difference, examine, gated, outputs, tapped
from tests import tiny
from tests.compaction.plans import compacted, some_heads
from tests.examined import examined
from tests.textbook.compaction import kept_heads_output
from tests.tiny_weights import trained_looking
from tests.turns import slow

FAMILIES = sorted(set(tiny.MODELS) - {"albert"})
GENERATING = ("bart", "marian", "m2m_100", "t5", "gpt2", "gpt_neox", "llama", "gemma2")


def run(model: PreTrainedModel, batch: dict[str, Tensor]) -> list[Tensor]:
    with torch.inference_mode():
        return outputs(model(**batch))


def run_gated(model: PreTrainedModel, plan: Plan, batch: dict[str, Tensor]) -> list[Tensor]:
    anatomy = examine(model)
    with Tap(model, anatomy, gates=plan.gates(anatomy.heads)):
        return run(model, batch)


@pytest.mark.once
@pytest.mark.parametrize("dead", [0, *slow(None, 1)])
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_the_gated_model(name: str, dead: int | None) -> None:
    (model, anatomy), (plan, smaller) = examined(name), compacted(name, dead)
    for side in ("right", "left"):
        batch = tiny.inputs(model, side=side)
        with Tap(model, anatomy, gates=plan.gates(anatomy.heads)):
            expected = run(model, batch)
        assert difference(run(smaller, batch), expected) < 1e-5
        assert difference(run(model, batch), expected) > 1e-3, "the heads that went did something"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "marian", "whisper"])
def test_the_encoder_of_a_compact_model_is_a_model(name: str) -> None:
    """Its configuration is that of the model of both sides, whose plan names other paths."""
    plan, smaller = compacted(name, 1)
    encoder: Any = smaller.get_encoder()
    heads = examined(name)[1].heads
    layers = range(len(heads.counts["encoder.self"]))
    expected = tuple(len(plan.of_layer(heads, "encoder.self", layer)) for layer in layers)
    assert 0 in expected and examine(encoder).heads.counts == {"encoder.self": expected}
    stock = type(encoder)(encoder.config)
    with pytest.raises(ModelError, match="whose attention weights are then random"):
        examine(stock.eval())


@pytest.mark.once
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_frozen_stays_frozen(name: str) -> None:
    (model, _), (plan, smaller) = examined(name), compacted(name, None)
    still = {key for key, each in model.named_parameters() if not each.requires_grad}  # positions
    assert {key for key, each in smaller.named_parameters() if not each.requires_grad} == still
    frozen = copy.deepcopy(model).requires_grad_(False)
    assert not any(each.requires_grad for each in compact(frozen, plan).parameters())


@pytest.mark.once
@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_is_lost_where_all_heads_are_kept(name: str) -> None:
    model, _ = examined(name)
    before = copy.deepcopy(model.state_dict())
    same = compact(model, Plan({}))
    assert difference(run(same, tiny.inputs(model)), run(model, tiny.inputs(model))) == 0
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert vars(model.config).get("head_plan") is None, "the model given is left alone"


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "bart", *slow("t5")])
def test_compaction_of_compaction(name: str) -> None:
    """Two plans in a row equal the one plan of the heads that both keep."""
    model, anatomy = examined(name)
    first, once = compacted(name, 1)
    heads = examine(once).heads
    layers = [place for place in _places(heads) if heads.counts[place[0]][place[1]] > 1]
    halved = {place: tuple(range(0, _half(anatomy, place, heads))) for place in layers}
    nested: dict[str, dict[int, tuple[int, ...]]] = {}
    for (site, layer), kept in halved.items():
        nested.setdefault(site, {})[layer] = kept
    second = Plan(nested)
    twice = compact(once, second)
    composed = Plan.keeping(
        anatomy.heads,
        [
            Head(site, layer, first.kept[site][layer][index])
            for site, layer in _places(heads)
            for index in second.of_layer(heads, site, layer)
        ],
    )
    direct = compact(model, composed)
    assert twice.config.head_plan == direct.config.head_plan
    assert all(torch.equal(direct.state_dict()[k], v) for k, v in twice.state_dict().items())
    assert len(examine(twice).heads) < len(heads)


def _places(heads: Heads) -> list[tuple[str, int]]:
    return [(site, layer) for site, each in heads.counts.items() for layer in range(len(each))]


def _half(anatomy, place: tuple[str, int], heads: Heads) -> int:
    """One head, or the kept part of one group."""
    count = heads.counts[place[0]][place[1]]
    layer = next(each for each in anatomy.layers if each.layer_id == place)
    return 1 if layer.num_heads == layer.num_key_value_heads else max(1, count // 2)


@pytest.mark.once
@pytest.mark.parametrize("dead", [0, *slow(1)])
@pytest.mark.parametrize("name", GENERATING)
def test_generation(name: str, dead: int) -> None:
    """Beam search with a cache gives the same, also without heads in the first layer."""
    if name == "t5":
        model = tiny.even_t5()
        _generates_the_same(model, some_heads(examine(model), dead))
    else:
        _generates_the_same(examined(name)[0], *compacted(name, dead))


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (hf.MistralForCausalLM, hf.MistralConfig(**tiny.GROUPED, sliding_window=3)),
        (hf.Qwen2ForCausalLM, hf.Qwen2Config(**tiny.GROUPED)),
    ],
)
def test_generation_of_more_decoders(kind: Any, config: Any) -> None:
    """A sliding window; biases for queries, keys and values, none for the output."""
    torch.manual_seed(2)
    model = kind(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # they start as zeros
            torch.nn.init.normal_(parameter)
    _generates_the_same(model, some_heads(examine(model), 0))


@pytest.mark.slow
@pytest.mark.parametrize("dead", [0, 1])
def test_generation_where_heads_are_counted_by_the_configuration(dead: int) -> None:
    """Phi-3 asks the first layer's cache for the length, and cuts its fused map by the config."""
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 60}
    config = hf.Phi3Config(**sizes)
    model = tiny.seeded(hf.Phi3ForCausalLM(config))
    _generates_the_same(model, Plan({"decoder.self": {dead: ()}}))
    with pytest.raises(ModelError, match="can be gated but not made smaller"):
        compact(model, Plan({"decoder.self": {dead: (0, 1, 2)}}))


@pytest.mark.once
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("broken", [False, True])
def test_rounding_is_no_difference(
    broken: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deep models amplify it beyond any tolerance; in float64 only a fault is left."""
    tight = dict.fromkeys(tap.TOLERANCE, -1.0) | {torch.float64: 1e-10}
    for limits in ("TOLERANCE", "ROOM"):
        monkeypatch.setattr(f"headcount.compaction.equality.{limits}", tight)
    model = tiny.MODELS["llama"]()
    nn.Module.to(model, dtype)
    anatomy = examine(model)
    plan = Plan.keeping(anatomy.heads, [Head("decoder.self", 1, index) for index in range(3)])
    if not broken:
        assert len(examine(compact(model, plan)).heads) == 3
        return
    wrong = Plan.keeping(anatomy.heads, [Head("decoder.self", 1, index) for index in range(3, 6)])
    with pytest.raises(ModelError, match="at most 1e-10 of .* computed in float64"):
        check_equal(model, anatomy, wrong, compact(model, plan))


def test_a_head_that_adds_little_is_compared_like_any_other() -> None:
    """It is off by 1e-4 of its norm, of which the outputs show nothing."""
    model: Any = tiny.MODELS["bert"]()
    anatomy = examine(model)
    layer = anatomy.layers[0]
    projection = model.get_submodule(layer.output or "")
    with torch.no_grad():
        projection.weight[:, layer.head_dim : 2 * layer.head_dim] *= 1e-7
    plan = Plan.keeping(anatomy.heads, [head for head in anatomy.heads if head.index != 0])
    smaller = compact(model, plan)
    batch = tiny.inputs(model)
    with torch.no_grad():
        value: Any = smaller.get_submodule(layer.module).value
        value.weight[: layer.head_dim] *= 1 + 1e-4
        value.bias[: layer.head_dim] *= 1 + 1e-4
    assert difference(run(smaller, batch), run_gated(model, plan, batch)) < 1e-6
    expected = r"Expected head enc\.0\.1 of the compact .* to differ .* at most 1e-06 of its norm"
    with pytest.raises(ModelError, match=f"{expected}, got 0.0001.*float64"):
        check_equal(model, anatomy, plan, smaller)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FAMILIES)
def test_rounding_refuses_no_compact_model(name: str, seed: int, dtype: torch.dtype) -> None:
    """Weights look trained: large dimensions, and heads of very different sizes."""
    model: Any = trained_looking(tiny.MODELS[name](), seed)
    model = model.to(dtype)
    compact(model, some_heads(examine(model), None, seed))


def test_a_model_that_runs_in_no_wider_format_is_judged_in_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Grouped products of experts take no float64."""
    tight = dict.fromkeys(tap.TOLERANCE, -1.0)
    monkeypatch.setattr("headcount.compaction.equality.ROOM", tight)
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 48, "intermediate_size": 32}
    model = tiny.seeded(hf.MixtralForCausalLM(hf.MixtralConfig(**sizes)))
    with pytest.raises(ModelError, match="computed in float32"):
        check_equal(model, examine(model), Plan({}), copy.deepcopy(model))


def test_refuses_a_model_that_differs_with_a_cache_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compact model's uncached outputs are exact; its cache of layer 0 would have length 0."""
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 60}
    config = hf.Phi3Config(**sizes)
    model = tiny.seeded(hf.Phi3ForCausalLM(config))
    monkeypatch.setattr(layout, "counts_by_config", lambda module: False)
    with pytest.raises(ModelError, match="does not run with fewer heads with a cache, so it can"):
        compact(model, Plan({"decoder.self": {0: ()}}))


def _generates_the_same(
    model: PreTrainedModel, plan: Plan, smaller: PreTrainedModel | None = None
) -> None:
    anatomy = examine(model)
    smaller = smaller or compact(model, plan)
    batch = {k: v for k, v in tiny.inputs(model, side="left").items() if "decoder" not in k}
    options = {
        "num_beams": 3,
        "max_new_tokens": 9,
        "use_cache": True,
        "do_sample": False,
        "output_scores": True,
        "return_dict_in_generate": True,
    }
    with torch.inference_mode():
        with Tap(model, anatomy, gates=plan.gates(anatomy.heads)):
            expected = model.generate(**batch, **options)  # type: ignore[operator]
        found = smaller.generate(**batch, **options)  # type: ignore[operator]
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(found.sequences_scores, expected.sequences_scores)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_textbook(name: str) -> None:
    """Summed head by head: separate maps, and a fused one of another layout."""
    (model, _), (plan, smaller) = examined(name), compacted(name, 1)
    states = torch.randn(1, 7, 55, generator=torch.Generator().manual_seed(1))
    site = "encoder.self" if name == "bert" else "decoder.self"
    with torch.no_grad():
        if name == "bert":
            ours = smaller.get_submodule("bert.encoder.layer.0.attention")
            found = ours.output.dense(ours.self(states)[0])[0]  # type: ignore[operator, union-attr]
        else:
            found = smaller.get_submodule("transformer.h.0.attn")(states)[0][0]
        kept = plan.kept[site][0]
        expected = kept_heads_output(states[0], _maps(model, name), 11, kept, name == "gpt2")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def _maps(model: PreTrainedModel, name: str) -> list[tuple[Tensor, Tensor]]:
    if name == "bert":
        layer = "bert.encoder.layer.0.attention"
        paths = ("self.query", "self.key", "self.value", "output.dense")
        maps = [model.get_submodule(f"{layer}.{path}") for path in paths]
        return [(each.weight, each.bias) for each in maps]  # type: ignore[misc]
    fused, output = (model.get_submodule(f"transformer.h.0.attn.{x}") for x in ("c_attn", "c_proj"))
    rows = zip(fused.weight.T.split(55), fused.bias.split(55), strict=True)  # type: ignore[union-attr, operator]
    return [*rows, (output.weight.T, output.bias)]  # type: ignore[list-item, union-attr]


@pytest.mark.once
@pytest.mark.parametrize("dead", [None, 0])
def test_a_bias_that_was_added(dead: int | None) -> None:
    """An output bias that the stock class lacks is kept, with and without heads in the layer."""
    model = tiny.MODELS["llama"]()
    for layer in range(2):
        projection = model.get_submodule(f"model.layers.{layer}.self_attn.o_proj")
        projection.bias = nn.Parameter(torch.randn(18))
    plan = some_heads(examine(model), dead)
    smaller = compact(model, plan)
    batch = tiny.inputs(model)
    assert difference(run(smaller, batch), run_gated(model, plan, batch)) < 1e-5
    assert "model.layers.0.self_attn.o_proj.bias" in smaller.state_dict()


@pytest.mark.parametrize("make", [EncoderForMaskedLM, EncoderForCausalLM])
def test_our_own_classes(make: type[PreTrainedModel]) -> None:
    model = make(EncoderConfig(**own_sizes())).eval()  # type: ignore[arg-type]
    plan = some_heads(examine(model), 1)
    batch = tiny.inputs(model)
    assert difference(run(compact(model, plan), batch), run_gated(model, plan, batch)) < 1e-5


def own_sizes() -> dict[str, Any]:
    return tiny.UNEQUAL_SIDES | {"encoder_layerdrop": 0.0}


def test_the_compact_model_can_be_looked_at() -> None:
    """A layer without heads keeps its number, is never tapped, and can't be gated."""
    plan, smaller = compacted("bert", 0)
    anatomy = examine(smaller)
    assert anatomy.heads.counts == {"encoder.self": (0, len(plan.kept["encoder.self"][1]))}
    assert anatomy.dead == {("encoder.self", 0): "bert.encoder.layer.0.attention.self"}
    heard: list[Block] = []
    with tapped(smaller, heard.append, anatomy=anatomy):
        run(smaller, tiny.inputs(smaller))
    assert {block.layer.layer for block in heard} == {1}
    stock = run(smaller, tiny.inputs(smaller))
    with gated(smaller, {"enc.1.0": 0.0}):
        assert difference(run(smaller, tiny.inputs(smaller)), stock) > 0
    with (
        pytest.raises(ModelError, match=r"got enc\.0\.0"),
        gated(smaller, {"enc.0.0": 0}),
    ):
        pass


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "t5"])
def test_without_any_heads(name: str) -> None:
    model, anatomy = examined(name)
    plan = Plan.keeping(anatomy.heads, [])
    smaller = compact(model, plan)
    batch = tiny.inputs(model)
    assert difference(run(smaller, batch), run_gated(model, plan, batch)) < 1e-5
    assert len(examine(smaller).heads) == 0


def test_copies_share_the_plan() -> None:
    """The configuration is copied in every forward that makes a cache."""
    config = compacted("marian", None)[1].config
    assert copy.deepcopy(config).head_plan is config.head_plan
    assert json.loads(config.to_json_string())["head_plan"] == config.head_plan


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* saw no image")
def test_a_decoder_of_text_and_images() -> None:
    """Gemma 3 as published: a text model, its language model head, and a vision model."""
    text = examined("gemma3_text")[0].config.to_dict()
    sight = {
        "hidden_size": 8,
        "intermediate_size": 9,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    config = hf.Gemma3Config(text_config=text, vision_config=sight, mm_tokens_per_image=4)
    torch.manual_seed(0)
    model = hf.Gemma3ForConditionalGeneration(config).eval()
    anatomy = examine(model)
    assert anatomy.heads == examined("gemma3_text")[1].heads
    plan = some_heads(anatomy, 1)
    batch = tiny.inputs(examined("gemma3_text")[0])
    assert difference(run(compact(model, plan), batch), run_gated(model, plan, batch)) < 1e-5


def test_projections_that_are_changed_in_place() -> None:
    config = hf.OlmoConfig(**tiny.GROUPED, clip_qkv=0.1)
    torch.manual_seed(0)
    model = hf.OlmoForCausalLM(config).eval()
    plan = some_heads(examine(model), 1)
    batch = tiny.inputs(model)
    assert difference(run(compact(model, plan), batch), run_gated(model, plan, batch)) < 1e-5


def test_a_part_of_a_compact_model_made_smaller_again() -> None:
    """A T5 encoder loaded without its decoder: the decoder's part of the plan is kept."""
    _, smaller = compacted("t5", 1)
    config = copy.deepcopy(smaller.config)
    config.head_plan = dict(config.head_plan)
    encoder = pruned(hf.T5EncoderModel)(config).eval()
    encoder.load_state_dict(smaller.state_dict(), strict=False)
    again = compact(encoder, Plan({"encoder.self": {0: (0,), 1: ()}}))
    before, after = config.head_plan["kept"], again.config.head_plan["kept"]
    assert after["decoder.cross"] == before["decoder.cross"]
    assert after["encoder.self"] == {"0": before["encoder.self"]["0"][:1], "1": []}
    assert examine(again).heads.counts == {"encoder.self": (1, 0)}


@pytest.mark.slow
def test_positions_that_grew_with_a_text() -> None:
    """M2M100 extends its position table for a longer text."""
    model = tiny.MODELS["m2m_100"]()
    longer = torch.full((1, model.config.max_position_embeddings + 9), tiny.FIRST_ID)
    rows = {"input_ids": longer, "decoder_input_ids": longer[:, :3]}
    run(model, rows)
    plan = some_heads(examine(model), None)
    assert difference(run(compact(model, plan), rows), run_gated(model, plan, rows)) < 1e-5


def test_random_copy_keeps_tables_in_their_own_format() -> None:
    """Position angles are not bfloat16, even in a model loaded in bfloat16."""
    model = tiny.MODELS["llama"]()
    half = hf.LlamaForCausalLM._from_config(model.config, dtype=torch.bfloat16)
    fresh = random_copy(half)
    assert fresh.dtype == torch.bfloat16
    for name, buffer in half.named_buffers():
        assert torch.equal(fresh.get_buffer(name), buffer) and buffer.dtype == torch.float32, name


def test_random_copy_has_the_same_heads() -> None:
    _, smaller = compacted("llama", 1)
    assert examine(random_copy(smaller)).heads == examine(smaller).heads


def test_random_copy_generates_in_the_same_way() -> None:
    model = tiny.MODELS["marian"]()
    model.generation_config.bad_words_ids = [[7]]
    assert random_copy(model).generation_config.bad_words_ids == [[7]]


def test_another_dtype_and_mode() -> None:
    model = tiny.MODELS["bert"]().bfloat16().train()
    smaller = compact(model, Plan({"encoder.self": {0: (1, 3)}}))
    assert smaller.dtype == torch.bfloat16 and smaller.training and model.training


@pytest.mark.slow
def test_weights_of_other_formats_keep_them() -> None:
    """An example is T5's `wo`, which transformers leaves in single precision."""
    model = tiny.MODELS["t5"]().bfloat16()
    for name, weight in model.named_parameters():
        if name.endswith("wo.weight"):
            weight.data = weight.data.float()
    smaller = compact(model, Plan({"encoder.self": {0: (1, 3)}}))
    formats = {name: weight.dtype for name, weight in smaller.named_parameters()}
    whole = {name: weight.dtype for name, weight in model.named_parameters()}
    assert {*whole.values()} == {torch.bfloat16, torch.float32}
    assert {name: formats[name] for name in whole} == whole


def test_the_model_that_was_pruned_is_named() -> None:
    """A model whose weights were trained since is refused."""
    model, _ = examined("bert")
    plan = Plan({"encoder.self": {0: (1, 3)}})
    assert compact(model, plan).config.head_plan["model"] == revision(model)
    assert compact(model, plan, "0123").config.head_plan["model"] == "0123"


@pytest.mark.parametrize("config", [hf.Gemma3Config(), hf.LlamaConfig(num_hidden_layers=9)])
def test_a_configuration_without_a_row_for_each_layer_gets_none(config: Any) -> None:
    """One inside another, and a model with attention in only some layers."""
    model, anatomy = examined("llama")
    plan = Plan({"decoder.self": {0: ()}})
    cut = layers_of(model, anatomy, plan)
    set_layer_config(config, anatomy, cut, is_ours=False)
    assert not config.is_heterogeneous
    usual = copy.deepcopy(model.config)
    set_layer_config(usual, anatomy, cut, is_ours=False)
    assert usual.is_heterogeneous
    before, other = usual.to_dict(), layers_of(model, anatomy, Plan({"decoder.self": {1: ()}}))
    set_layer_config(usual, anatomy, other, is_ours=False)
    assert usual.to_dict() == before, "rows of a stock model are left as they are"
    set_layer_config(usual, anatomy, other, is_ours=True)
    assert usual.to_dict()["per_layer_config"] != before["per_layer_config"]


def test_refuses_another_model() -> None:
    model, _ = examined("bert")
    with pytest.raises(InputError, match="Expected the model with revision 0123"):
        compact(model, Plan({"encoder.self": {0: (1,)}}, model="0123"))
    with pytest.raises(InputError, match="names layer 7 of encoder.self"):
        compact(model, Plan({"encoder.self": {7: ()}}))
    with pytest.raises(InputError, match=r"names enc\.0\.5"):
        compact(model, Plan({"encoder.self": {0: (5,)}}))
    with pytest.raises(InputError, match="Expected heads of size 12, as in the plan, got 11"):
        compact(tiny.MODELS["bert"](), Plan({}, head_dim=12))
    with pytest.raises(InputError, match="layers of a plan as integers, got '-0'"):
        Plan.from_json({"version": 1, "kept": {"encoder.self": {"0": [0], "-0": [1]}}})
    wrongs: list[tuple[dict[str, dict[int, Any]], str]] = [
        ({"encoder.self": {-1: ()}}, "layers of a plan as numbers from 0, got -1"),
        ({"encoder.self": {0: (2, -3)}}, "heads of a plan as numbers from 0, got -3"),
        ({"encoder.self": {0: (2, 2)}}, r"heads of a plan to be named once, got \[2, 2\]"),
        ({"encoder.self": {0: (1.0,)}}, r"heads of a plan as integers, got \[1.0\]"),
        ({"encoder.self": {0: (True,)}}, r"heads of a plan as integers, got \[True\]"),
        ({"encoder": {0: (1,)}}, "Expected sites of a plan out of encoder.self, .*, got encoder"),
    ]
    for wrong, reported in wrongs:
        kept = {site: {str(k): list(v) for k, v in each.items()} for site, each in wrong.items()}
        with pytest.raises(InputError, match=reported):
            Plan.from_json({"version": 1, "kept": kept})
        if "integers" not in reported:  # the tests' own check of types comes first
            with pytest.raises(InputError, match=reported):
                Plan(wrong)


def test_heads_of_a_plan_may_come_in_any_order() -> None:
    """Tensors such as `topk` returns work too."""
    plan = Plan({"encoder.self": {0: (3, 1), 1: (4, 0, 2)}})
    assert plan == Plan({"encoder.self": {0: (1, 3), 1: (0, 2, 4)}})
    model = tiny.MODELS["bert"]()
    assert compact(model, plan).config.head_plan["kept"] == plan.kept_json


def test_the_body_of_a_compact_model_is_one_too() -> None:
    model = compact(tiny.MODELS["bert"](), Plan({"encoder.self": {0: (1, 3), 1: ()}}))
    body = model.base_model
    assert isinstance(body, PreTrainedModel)
    assert isinstance(body.config, hf.BertConfig)
    random = hf.BertModel(body.config)
    with pytest.raises(ModelError, match="whose attention weights are then random"):
        examine(random)
    assert examine(body).heads.counts == {"encoder.self": (2, 0)}


def test_refuses_shared_layers() -> None:
    with pytest.raises(ModelError, match="share the attention module"):
        compact(tiny.MODELS["albert"](), Plan({"encoder.self": {0: (1,)}}))


def test_refuses_a_norm_over_all_heads() -> None:
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 60}
    del sizes["head_dim"]
    model = hf.Olmo2ForCausalLM(hf.Olmo2Config(**sizes)).eval()
    with pytest.raises(ModelError, match=r"feed several heads' query states \(a norm over all"):
        compact(model, Plan({"decoder.self": {0: (0, 1, 2)}}))


def test_refuses_attention_off_the_interface() -> None:
    with pytest.raises(ModelError, match="DebertaV2ForMaskedLM takes a softmax of its own, so it"):
        compact(tiny.OWN_SOFTMAX["deberta-v2"](), Plan({}))


def test_refuses_uneven_groups() -> None:
    model, _ = examined("llama")
    with pytest.raises(InputError, match=r"kept group, got 3, 1\. The nearest.*dec\.1\.0, dec"):
        compact(model, Plan({"decoder.self": {1: (0, 1, 2, 4)}}))
