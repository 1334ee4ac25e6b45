"""The self-check: the findings of `examine`, and its refusals with their messages."""

from collections.abc import Iterator
from typing import Any

import peft
import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask, sdpa_mask
from transformers.models.gpt_oss import modeling_gpt_oss

from headcount.compaction import compact
from headcount.compaction.equality import check_equal
from headcount.core import Head, InputError, ModelError, Plan
from headcount.tap import (
    AttentionLayer,
    SampleRun,
    check_is_model,
    exact_products,
    examine,
    gated,
    heard,
    tapped,
    tiny_inputs,
)
from headcount.tap.gating import check_gates
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined
from tests.saved import SIZES


@pytest.mark.parametrize("name", tiny.TAPPED)
def test_finds_the_heads_that_output_attentions_has(name: str):
    model, anatomy = examined(name)
    maps = tiny.attention_maps(model, tiny.inputs(model))
    counts = {site: tuple(each.shape[1] for each in layers) for site, layers in maps.items()}
    assert dict(anatomy.heads.counts) == counts
    assert not anatomy.eager
    assert not any(layer.has_learned_sink for layer in anatomy.layers)
    own = {layer.module for layer in anatomy.layers if layer.by_own_softmax}
    assert {*anatomy.by_outputs} == own
    assert anatomy.differences.keys() == {"outputs"} | (set() if own else {"fused", "weights"})
    assert max(anatomy.differences.values()) <= 1e-5


@pytest.mark.once
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_finds_learned_sinks_layer_by_layer(dtype: torch.dtype):
    model: Any = tiny.gpt_oss()
    model.model.layers[0].self_attn.sinks.data.fill_(-1e4)  # which takes nothing
    found = [layer.has_learned_sink for layer in examine(model.to(dtype)).layers]
    assert found == [False, True]


def test_weights_that_are_no_softmax_are_no_learned_sink(monkeypatch: pytest.MonkeyPatch):
    """Sums above 1 beside sums below 1: nothing takes the rest."""
    model = tiny.gpt_oss()
    stock = vars(modeling_gpt_oss)["eager_attention_forward"]

    def eager(module: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **kwargs: Any):
        output, weights = stock(module, query, key, value, *rest, **kwargs)
        factor_BHQ1 = 2 + query[..., :1].tanh()
        return output * factor_BHQ1.transpose(1, 2), weights * factor_BHQ1

    monkeypatch.setattr(modeling_gpt_oss, "eager_attention_forward", eager)
    assert not any(layer.has_learned_sink for layer in examine(model).layers)


@pytest.mark.parametrize("name", tiny.TAPPED)
def test_finds_every_output_projection(name: str):
    model, anatomy = examined(name)
    for layer in anatomy.layers:
        assert layer.output is not None
        weight = model.get_submodule(layer.output).weight
        assert isinstance(weight, nn.Parameter)
        found = layer.output_weight(model)
        hidden = weight.shape[1] if name == "gpt2" else weight.shape[0]
        assert found.shape == (layer.num_heads, layer.head_dim, hidden)
        rows = weight if name == "gpt2" else weight.T
        assert torch.equal(found[2, 1], rows[2 * layer.head_dim + 1])


@pytest.mark.parametrize("rank", [0, 3, 11])
def test_the_root_of_an_output_projection_is_as_long(rank: int):
    """Also where a head's outputs span fewer dimensions than it has."""
    model, anatomy = tiny.MODELS["bert"](), examined("bert")[1]
    layer = anatomy.layers[1]
    assert layer.output is not None
    weight = model.get_submodule(layer.output).weight
    assert isinstance(weight, nn.Parameter)
    weight.data[:, 2 * layer.head_dim + rank : 3 * layer.head_dim] = 0
    weight_HDM, root_HDD = layer.output_weight(model).double(), layer.output_root(model)
    assert root_HDD is not None and root_HDD.isfinite().all()
    square_HDD = root_HDD.double() @ root_HDD.double().transpose(1, 2)
    torch.testing.assert_close(square_HDD, weight_HDM @ weight_HDM.mT, atol=1e-6, rtol=1e-5)


def test_key_value_heads_are_known_to_be_shared():
    for name in ("llama", "qwen3", "gemma2", "gemma3_text"):
        for layer in examined(name)[1].layers:
            assert (layer.num_heads, layer.num_key_value_heads, layer.head_dim) == (6, 2, 10)


def test_refuses_models_that_do_not_run_on_what_is_made_up():
    model = hf.BertForMultipleChoice(hf.BertConfig(**tiny.ENCODER)).eval()
    with pytest.raises(ModelError, match="BertForMultipleChoice, which does not: shape"):
        examine(model)


def test_an_encoder_of_images_with_a_decoder_of_text():
    sides = tiny.MODELS["vit"]().config, tiny.MODELS["gpt2"]().config
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(*sides)
    model = hf.VisionEncoderDecoderModel(config).eval()
    assert str(examine(model).heads) == (
        "encoder.self 2 layers x 5 heads, decoder.self 2 layers x 5 heads, "
        "decoder.cross 2 layers x 5 heads"
    )


def test_an_encoder_whose_configuration_has_a_decoder():
    config: Any = tiny.MODELS["whisper"]().config
    model = hf.WhisperForAudioClassification(config).eval()
    assert set(examine(model).heads.counts) == {"encoder.self"}


@pytest.mark.once
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["bert", "albert", "gemma2", "t5"])
def test_examining_leaves_no_trace(name: str, training: bool):
    model = tiny.MODELS[name]().train(training)
    [*model.modules()][-1].train(not training)  # a mode of its own
    with leaving_no_trace(model, tiny.inputs(model)):
        examine(model)


REFUSALS = {
    "xlnet": "rel_attn of XLNetLMHeadModel takes a softmax that no product with values follows",
    "diffllama": "self_attn of DiffLlamaForCausalLM calls attention more than once",
    "longt5": "an encoder .* but that of LongT5ForConditionalGeneration never called it",
    "wavlm": "attention of WavLMModel calls a fused attention function of torch by itself",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_attention_that_cannot_be_attributed(name: str):
    assert REFUSALS.keys() == tiny.REFUSED.keys()
    model = tiny.REFUSED[name]()
    given = {"input_values": torch.randn(2, 200)} if name == "wavlm" else None
    with leaving_no_trace(model, given or tiny.inputs(model)):
        with pytest.raises(ModelError, match=REFUSALS[name]):
            examine(model, given)
    if given is None:
        with pytest.raises(ModelError, match=REFUSALS[name]):
            with gated(model, {"enc.0.0": 0.0}):
                pytest.fail("a gate that does nothing was let in")


def test_refuses_a_model_without_attention():
    model = hf.MambaForCausalLM(hf.MambaConfig(vocab_size=61, hidden_size=8, num_hidden_layers=1))
    with pytest.raises(ModelError, match="MambaForCausalLM has no attention site"):
        examine(model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sdpa", "eager"])
def test_models_that_compare_the_name_stay_sparse(name: str):
    """With a name that it does not know, the model would attend to all keys."""
    model = tiny.sparse(name)
    batch = tiny.inputs(model, (17, 12))
    with torch.no_grad():
        stock = model(**batch).logits
        weights = []
        with tapped(model, lambda block: weights.append(block.weights_BHQK)):
            heard = model(**batch).logits
        with gated(model, {"dec.0.0": 1.0}):
            gates_of_1 = model(**batch).logits
    torch.testing.assert_close(heard, stock, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gates_of_1, stock, atol=1e-5, rtol=1e-5)
    assert all(((each > 0).sum(-1) <= 5).all() for each in weights)


def test_refuses_self_attention_and_cross_attention_in_one():
    sizes: dict[str, Any] = tiny.GROUPED | {"layer_types": ["full_attention"] * 2}
    image = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "intermediate_size": 8}
    vision = image | {"num_hidden_layers": 1, "num_attention_heads": 2}
    encoder = {"text_config": sizes, "vision_config": vision, "image_token_index": 60}
    config = hf.T5Gemma2Config(encoder=encoder, decoder=sizes, image_token_index=60)
    with pytest.raises(ModelError, match="attends to encoder and decoder at once"):
        examine(tiny.seeded(hf.T5Gemma2ForConditionalGeneration(config)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("llama", {"target_modules": ["q_proj", "o_proj"]}),
        ("llama", {"target_modules": ["q_proj", "o_proj"], "use_dora": True}),
        ("gpt2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
        ("bert", {"target_modules": ["value", "dense"], "lora_bias": True}),
    ],
)
def test_an_adapter_around_the_output_projection_is_part_of_it(name: str, options: dict[str, Any]):
    """Gates, norms and W_O of a model with adapters are those of the model they are merged into."""
    config = peft.LoraConfig(r=2, init_lora_weights=False, **options)
    peft_model: Any = peft.get_peft_model(tiny.MODELS[name](), config)
    model = peft_model.get_base_model().eval()
    batch, anatomy = tiny.inputs(model), examine(model)
    apart = [layer.output_weight(model) for layer in anatomy.layers]
    norms, outputs = _norms_and_gated(model, batch)
    stock = tiny.MODELS[name]()
    plain = [layer.output_weight(stock) for layer in examine(stock).layers]
    merged = peft_model.merge_and_unload().eval()
    for layer, ours, without in zip(examine(merged).layers, apart, plain, strict=True):
        torch.testing.assert_close(ours, layer.output_weight(merged), atol=1e-5, rtol=1e-5)
        assert (ours - without).abs().max() > 0.01
    norms_of_merged, outputs_of_merged = _norms_and_gated(merged, batch)
    assert norms == pytest.approx(norms_of_merged, rel=1e-4)
    torch.testing.assert_close(outputs, outputs_of_merged, atol=1e-4, rtol=1e-4)
    with pytest.raises(InputError, match=r"a PeftModel.*Pass `.get_base_model\(\)`, or the merged"):
        check_is_model(peft_model)


def _norms_and_gated(
    model: PreTrainedModel, batch: dict[str, Tensor]
) -> tuple[dict[str, float], Tensor]:
    """The norm of every head's part of the output, and the model's output without one head."""
    anatomy = examine(model)
    norms: dict[str, float] = {}
    maps = {layer.layer_id: layer.output_weight(model) for layer in anatomy.layers}

    def listener(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        parts = torch.einsum("bqhd,hdm->bqhm", output_BQHD, maps[layer.layer_id])
        for head, norm in enumerate(parts.norm(dim=-1).mean((0, 1)).tolist()):
            norms[f"{layer.site} {layer.layer} {head}"] = norm

    with torch.no_grad():
        with heard(model, anatomy, listener):
            model(**batch)
        with gated(model, {str(next(iter(anatomy.heads))): 0.0}):
            return norms, model(**batch)[0]


LORA = peft.LoraConfig(r=2, target_modules=["q_proj", "o_proj"], init_lora_weights=False)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_an_adapter_must_be_merged_before_heads_are_cut_out():
    peft_model: Any = peft.get_peft_model(tiny.MODELS["llama"](), LORA)
    model = peft_model.get_base_model().eval()
    with pytest.raises(ModelError, match=r"wrapped by a peft\..*Merge them first \(`merge_and_unl"):
        compact(model, Plan({"decoder.self": {0: (0, 1, 2)}}))


@pytest.mark.once
@pytest.mark.parametrize(
    "config",
    [
        peft.IA3Config(target_modules=["v_proj"], feedforward_modules=[]),
        peft.OFTConfig(target_modules=["o_proj"], r=0, oft_block_size=2),
        peft.HRAConfig(target_modules=["q_proj"], r=2),
        peft.TrainableTokensConfig(token_indices=[0], target_modules=["embed_tokens"]),
    ],
    ids=lambda config: type(config).__name__,
)
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_adapters_of_other_kinds_are_named_too(config: peft.PeftConfig):
    peft_model: Any = peft.get_peft_model(tiny.MODELS["llama"](), config)
    model = peft_model.get_base_model().eval()
    with pytest.raises(ModelError, match="Expected a model without adapters, got model"):
        compact(model, Plan({"decoder.self": {0: (0, 1, 2)}}))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_a_rotation_in_front_of_the_output_projection_is_gated_but_has_no_norms():
    """OFT rotates what enters W_O: gates are those of the merged model, W_O is refused."""
    config = peft.OFTConfig(target_modules=["o_proj"], r=0, oft_block_size=2, init_weights=False)
    peft_model: Any = peft.get_peft_model(tiny.MODELS["llama"](), config)
    model = peft_model.get_base_model().eval()
    batch, anatomy = tiny.inputs(model), examine(model)
    with pytest.raises(ModelError, match="Expected an output projection after model.layers.0.self"):
        anatomy.layers[0].output_weight(model)
    outputs = []
    for each in (model, peft_model.merge_and_unload().eval()):
        with torch.no_grad(), gated(each, {"dec.0.1": 0.0}):
            outputs.append(each(**batch)[0])
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
@pytest.mark.parametrize("kind", [peft.PrefixTuningConfig, peft.PromptTuningConfig])
def test_virtual_tokens_are_not_merged(kind: Any):
    wrapped = peft.get_peft_model(
        tiny.MODELS["llama"](), kind(task_type="CAUSAL_LM", num_virtual_tokens=3)
    )
    with pytest.raises(InputError, match=r"Its virtual tokens are added outside.* without them\.$"):
        check_is_model(wrapped)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ("bert-base-uncased", r"got a str. Pass the result of headcount.load\(...\)"),
        (None, "got a NoneType. Pass a PreTrainedModel"),
        (nn.DataParallel(nn.Linear(2, 2)), r"got a DataParallel. Pass the model inside"),
        (
            torch.compile(nn.Linear(2, 2), backend="eager"),
            "got an OptimizedModule. What torch.compile returns has",
        ),
    ],
)
def test_what_is_no_transformers_model(wrong: Any, reported: str):
    with pytest.raises(InputError, match=reported):
        check_is_model(wrong)


def test_refuses_a_model_that_does_more_than_its_attention_function_is_given():
    model = tiny.MODELS["bert"]()
    AttentionInterface.register("test_doubled", _doubled)
    try:
        model.set_attn_implementation("test_doubled")
        with pytest.raises(ModelError, match="tapped BertForMaskedLM to equal the stock model"):
            examine(model)
    finally:
        AttentionInterface._global_mapping.pop("test_doubled")


def _doubled(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs,
) -> tuple[Tensor, None]:
    eager = AttentionInterface._global_mapping["sdpa"]
    output, _ = eager(module, query, key, value, None, **kwargs)
    return 2 * output, None


def test_a_model_that_draws_in_evaluation_is_refused_with_that_reason():
    config = hf.ViTMAEConfig(
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=20,
        image_size=16,
        patch_size=4,
        mask_ratio=0.5,
    )
    with pytest.raises(ModelError, match="outputs of two runs on the same inputs differ by"):
        examine(tiny.seeded(hf.ViTMAEModel(config)))


@pytest.mark.slow
def test_rounding_that_a_deep_model_amplifies_is_no_difference():
    """At each call, attention is equal; the model's outputs are not."""
    config = hf.LlamaConfig(**tiny.GROUPED)
    config.num_hidden_layers = 30
    model = tiny.seeded(hf.LlamaForCausalLM(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "layers" in name:
                parameter.mul_(1.5)
    found = examine(model).differences
    assert found["weights"] < 1e-5 < found["outputs"]


def test_refuses_a_shallow_model_that_differs_by_more_than_rounding():
    model = tiny.MODELS["bert"]()
    AttentionInterface.register("test_larger", _larger)
    AttentionMaskInterface.register("test_larger", sdpa_mask)
    try:
        model.set_attn_implementation("test_larger")
        with pytest.raises(
            ModelError, match=r"stock attention function differs from .* by 0\.0001"
        ):
            examine(model)
    finally:
        AttentionInterface._global_mapping.pop("test_larger")
        AttentionMaskInterface._global_mapping.pop("test_larger")


def test_masks_of_another_form_are_compared_by_outputs_alone():
    """A function that takes the masks of eager attention can't be given those of sdpa."""
    model = tiny.MODELS["bert"]()
    AttentionInterface.register("test_added", _larger)
    AttentionMaskInterface.register("test_added", eager_mask)
    try:
        model.set_attn_implementation("test_added")
        with pytest.raises(ModelError, match=r"but its outputs differ by .* \(limit 1e-05\)"):
            examine(model)
    finally:
        AttentionInterface._global_mapping.pop("test_added")
        AttentionMaskInterface._global_mapping.pop("test_added")


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_refuses_a_stock_model_that_is_causal_where_there_is_no_mask(name: str) -> None:
    """As sdpa is in a module whose mark says so, unless it gets a mask: a trap of encoders."""
    model = tiny.MODELS[name]()
    for layer in examined(name)[1].layers:
        module: Any = model.get_submodule(layer.module)
        module.is_causal = True
    with pytest.raises(ModelError, match="by .* of the norm of head .* without a mask"):
        examine(model)


def test_a_model_that_reads_a_mask_of_ones_in_its_own_way_is_compared_with_itself() -> None:
    """It does not return what it returns without a mask, so the stock model runs there, too."""
    model = tiny.MODELS["bert"]()
    plain, batches = examine(model), list[bool]()

    def shifted(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        mask = kwargs.get("attention_mask")
        is_ones = mask is not None and bool((mask == 1).all())
        batches.append(is_ones)
        return type(output)({**output, "last_hidden_state": output[0] + 0.5 * is_ones})

    model.register_forward_hook(shifted, with_kwargs=True)
    found = examine(model)
    assert found.layers == plain.layers
    assert sum(batches) == 3  # the tapped model, the stock model, gates


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cache_that_the_stock_model_fails_with_is_not_compared(dtype: torch.dtype) -> None:
    """What the tapped model makes of it has nothing beside it, so it is left out."""
    model: Any = tiny.MODELS["llama"]()
    model.to(dtype)
    whole = examine(model)

    def fail(module: Any, args: Any, kwargs: Any) -> None:
        is_tapped = "_Name" in type(module.config._attn_implementation).__name__
        if kwargs.get("past_key_values") is not None and not is_tapped:
            raise ValueError("no cache")

    def shift(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if kwargs.get("past_key_values") is not None:
            output.logits.add_(1)

    model.register_forward_pre_hook(fail, with_kwargs=True)
    model.register_forward_hook(shift, with_kwargs=True)
    assert examine(model).layers == whole.layers


@pytest.mark.parametrize(("name", "num_passes"), [("bert", 7), ("llama", 10), ("t5", 12)])
def test_a_check_costs_few_passes(name: str, num_passes: int) -> None:
    model, num_seen = tiny.MODELS[name](), 0

    def count(*_: Any) -> None:
        nonlocal num_seen
        num_seen += 1

    model.register_forward_pre_hook(count)
    examine(model)
    assert num_seen == num_passes


def _larger(module: nn.Module, *states: Any, **kwargs: Any) -> tuple[Tensor, None]:
    output, _ = AttentionInterface._global_mapping["sdpa"](module, *states, **kwargs)
    return output * (1 + 1e-4), None


def test_refuses_a_model_that_does_not_use_what_its_attention_returns():
    model = tiny.MODELS["gpt2"]()
    for block in model.get_submodule("transformer.h").children():
        projection = block.get_submodule("attn.c_proj")
        assert isinstance(projection.weight, nn.Parameter)
        nn.init.zeros_(projection.weight)
    with pytest.raises(ModelError, match=r"every head of decoder\.self to change"):
        examine(model)


# ------------------------------------------------------------------ numbers that are not finite

QUERIES = {
    "bert": "bert.encoder.layer.1.attention.self.query.weight",
    "llama": "model.layers.1.self_attn.q_proj.weight",
    "marian": "model.encoder.layers.1.self_attn.q_proj.weight",
}


def _rows(model: PreTrainedModel, path: str, head: int, size: int) -> Tensor:
    return model.get_parameter(path).data[head * size : (head + 1) * size]


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", QUERIES)
def test_names_the_head_whose_queries_are_not_finite(name: str, number: float):
    model, anatomy = tiny.MODELS[name](), examined(name)[1]
    _rows(model, QUERIES[name], 3, anatomy.layers[1].head_dim)[:, 2] = number
    site = "dec" if name == "llama" else "enc"
    with leaving_no_trace(model, tiny.inputs(model)):
        with pytest.raises(ModelError) as refusal:
            examine(model)
    message = str(refusal.value)
    assert f"{type(model).__name__} on a short random batch" in message
    assert f"head {site}.1.3 is the first" in message
    assert f"(1 of the layer's {anatomy.layers[1].num_heads} heads" in message
    assert f"{QUERIES[name]} is the first parameter" in message


def test_names_the_head_whose_values_are_not_finite():
    model = tiny.MODELS["bert"]()
    _rows(model, "bert.encoder.layer.0.attention.self.value.weight", 4, 11)[1] = torch.nan
    with pytest.raises(
        ModelError, match=r"head enc\.0\.4 is the first .*\(1 of the layer's 5 heads"
    ):
        examine(model)


def test_names_the_parameter_when_no_head_is_to_blame():
    model = tiny.MODELS["bert"]()
    model.get_parameter("cls.predictions.transform.dense.weight").data[5] = torch.nan
    with pytest.raises(
        ModelError, match="batch: cls.predictions.transform.dense.weight is the first"
    ):
        examine(model)


def test_numbers_that_overflow_are_no_ones_fault():
    model = tiny.MODELS["gpt2"]()
    model.get_parameter("transformer.ln_f.weight").data.fill_(3e38)
    with pytest.raises(
        ModelError, match="no head and no parameter has any.*load the model in float32"
    ):
        examine(model)


# ------------------------------------------------------------------ gates and taps by name


@pytest.mark.parametrize("name", ["enc.2.0", "enc.0.5", "dec.0.0", "cross.0.0"])
def test_a_head_that_the_model_does_not_have(name: str):
    model = examined("bert")[0]
    with leaving_no_trace(model, tiny.inputs(model)), pytest.raises(ModelError) as refusal:
        with gated(model, {"enc.0.0": 1.0, name: 0.0}):
            pass
    assert str(refusal.value) == (
        f"Expected a head of this model (encoder.self 2 layers x 5 heads), got {name}."
    )


def test_a_name_that_is_no_head_name():
    model = examined("bert")[0]
    with pytest.raises(InputError, match="Expected a head such as enc.3.7.*got 'encoder.0.0'"):
        with gated(model, {"encoder.0.0": 0.0}):
            pass


@pytest.mark.parametrize(
    ("gates", "sentence"),
    [
        (["enc.0.0"], "Expected gates by head, such as {'enc.0.0': 0.0}, got a list"),
        ({"enc.0.0": "off"}, "Expected a number as the gate of enc.0.0, got 'off'"),
        ({"enc.0.0": None}, "got None"),
    ],
)
def test_gates_are_numbers_by_head(gates: object, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        check_gates(gates)
    assert sentence in str(caught.value)
    check_gates({"enc.0.0": 0, "enc.0.1": 0.5})


@pytest.mark.slow
def test_gated_multiplies_the_named_heads_only():
    model, anatomy = examined("marian")
    batch = tiny.inputs(model)
    gates = {"enc.1.4": 0.0, "cross.2.10": -0.5, "cross.2.3": 2.0, "dec.0.0": 0.25}
    with tapped(model, gates=gates, anatomy=anatomy) as tap:
        found = {place: gate.tolist() for place, gate in tap.gates.items()}
    expected = {("encoder.self", 1): [1.0] * 5}
    expected |= {
        (site, layer): [1.0] * 11 for site, layer in [("decoder.cross", 2), ("decoder.self", 0)]
    }
    expected["encoder.self", 1][4] = 0.0
    expected["decoder.cross", 2][10], expected["decoder.cross", 2][3] = -0.5, 2.0
    expected["decoder.self", 0][0] = 0.25
    assert found == expected
    with torch.no_grad():
        stock = model(**batch).logits
        with gated(model, {}):
            assert torch.equal(model(**batch).logits, stock)
        with gated(model, gates):
            assert (model(**batch).logits - stock).abs().max() > 1e-3


def test_takes_a_function_for_a_listener():
    model, anatomy = examined("gpt2")
    heard = []
    with torch.no_grad(), tapped(model, heard.append, anatomy=anatomy):
        model(**tiny.inputs(model))
    assert [block.layer.layer for block in heard] == [0, 1]
    assert heard[0].weights_BHQK.shape == (3, 5, 7, 7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_a_classifier_with_a_decoder_is_examined_through_its_body(kind: str) -> None:
    """BART's classifier needs ends of sentences and makes the decoder's inputs from the source."""
    config = tiny.MODELS[kind]().config
    config.update({"eos_token_id": 2, "num_labels": 3})
    name = {"bart": "BartForSequenceClassification", "t5": "T5ForSequenceClassification"}[kind]
    model = getattr(hf, name)(config).eval()
    anatomy = examine(model)
    assert set(anatomy.heads.counts) == {"encoder.self", "decoder.self", "decoder.cross"}
    ids = torch.tensor([[5, 6, 7, 2], [8, 9, 2, config.pad_token_id]])
    inputs = {"input_ids": ids, "attention_mask": (ids != config.pad_token_id).long()}
    stock = model(**inputs).logits
    with gated(model, {"cross.0.0": 0}):
        assert not torch.equal(model(**inputs).logits, stock)
    assert torch.equal(model(**inputs).logits, stock)


def test_attention_that_depends_on_the_length_is_refused() -> None:
    """BigBird on a short text replaces its modules for good."""
    config: Any = hf.BigBirdConfig(
        vocab_size=60, block_size=4, num_random_blocks=1, max_position_embeddings=128, **SIZES
    )
    model: Any = tiny.seeded(hf.BigBirdModel(config))
    with pytest.raises(ModelError, match="block-sparse on long texts.*original_full"):
        examine(model)
    assert model.attention_type == "block_sparse"
    model.set_attention_type("original_full")
    assert len(examine(model).heads) == 6


class Fickle(hf.BertModel):
    def forward(self, *given: Any, **more: Any) -> Any:
        layer: Any = self.encoder.layer[0]
        layer.intermediate.intermediate_act_fn = nn.GELU()
        return super().forward(*given, **more)


def test_a_model_that_replaces_its_modules_is_refused() -> None:
    config: Any = hf.BertConfig(vocab_size=60, **SIZES)
    with pytest.raises(ModelError, match="replaced encoder.layer.0.intermediate.intermediate_act"):
        examine(tiny.seeded(Fickle(config)))


@pytest.fixture
def fast_products() -> Iterator[None]:
    """Products of float32 that GPUs round to TF32, as Lightning advises."""
    torch.set_float32_matmul_precision("high")
    yield
    assert torch.get_float32_matmul_precision() == "high", "the user's setting is kept"
    torch.set_float32_matmul_precision("highest")


def test_exact_products_leave_torch_s_own_flags_usable() -> None:
    """Sound models of transformers (PE Audio) set them; torch raises where precisions differ."""
    with exact_products():
        assert not torch.backends.cudnn.allow_tf32
        with torch.backends.cudnn.flags(enabled=False):
            assert not torch.backends.cudnn.enabled
    cudnn: Any = torch.backends.cudnn
    assert cudnn.allow_tf32 and cudnn.conv.fp32_precision == "tf32"


def test_a_setting_that_the_older_flag_contradicts_stays() -> None:
    cudnn: Any = torch.backends.cudnn
    before = cudnn.conv.fp32_precision
    cudnn.conv.fp32_precision = "ieee"
    try:
        with pytest.raises(RuntimeError):
            assert cudnn.allow_tf32 is None
        with exact_products():
            pass
        assert cudnn.conv.fp32_precision == "ieee"
    finally:
        cudnn.conv.fp32_precision = before


@pytest.mark.slow
@pytest.mark.usefixtures("fast_products")
def test_checks_compute_in_float32_where_faster_products_are_set() -> None:
    """Rounding to TF32 would look like a model that the tap changes."""
    from headcount.artifact.comparing import runner

    model: Any = tiny.seeded(hf.BertModel(hf.BertConfig(vocab_size=60, **SIZES)))
    kept = Plan.keeping(examine(model).heads, [Head("encoder.self", 0, 1)])
    smaller, seen = compact(model, kept), list[str]()
    model.register_forward_pre_hook(
        lambda *_: seen.append(str(torch.backends.cuda.matmul.fp32_precision))
    )
    check_equal(model, examine(model), kept, smaller)
    runner(model)(SampleRun(tiny_inputs(model)))
    assert len(seen) > 8 and set(seen) == {"ieee"}
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
