"""A parameter of several names stays one; what the stock class can't hold is refused."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from transformers import PreTrainedModel

from headcount.compaction import compact
from headcount.compaction.stock import sources
from headcount.core import ModelError, Plan
from headcount.models import load
from headcount.tap import difference, examine
from tests import tiny
from tests.compaction.plans import some_heads
from tests.compaction.test_compact import run, run_gated

Change = Callable[[Any], object]


def tied_head(model: Any) -> None:
    """Tied by hand; the configuration says that it is not."""
    assert not model.config.tie_word_embeddings
    model.lm_head.weight = model.model.embed_tokens.weight


def tied_memory(model: Any) -> None:
    model.lm_head.weight.data = model.model.embed_tokens.weight.data


def untied_head(model: Any) -> None:
    """A head of its own; the configuration says that it is tied."""
    decoder = model.cls.predictions.decoder
    assert model.config.tie_word_embeddings
    decoder.weight = nn.Parameter(decoder.weight.detach().flip(0))


def one_norm(model: Any) -> None:
    first, second = model.model.layers
    second.input_layernorm = first.input_layernorm


def one_feed_forward(model: Any) -> None:
    first, second = model.model.layers
    second.mlp = first.mlp


def one_of_both_sides(model: Any) -> None:
    for encoder, decoder in zip(model.encoder.block, model.decoder.block, strict=False):
        encoder.layer[1].DenseReluDense = decoder.layer[2].DenseReluDense


def one_query_map(model: Any) -> None:
    first, second = model.model.layers
    second.self_attn.q_proj = first.self_attn.q_proj


def one_key_weight(model: Any) -> None:
    first, second = model.model.layers
    second.self_attn.k_proj.weight = first.self_attn.k_proj.weight


def one_position_table(model: Any) -> None:
    encoder, decoder = (
        side.block[0].layer[0].SelfAttention for side in (model.encoder, model.decoder)
    )
    encoder.relative_attention_bias = decoder.relative_attention_bias


def same_heads(model: PreTrainedModel) -> Plan:
    """Keep the same heads of every layer, so that shared maps can stay shared."""
    kept = {layer: (1, 4) for layer in range(3)}
    counts = examine(model).heads.counts
    return Plan({site: {n: kept[n] for n in range(len(counts[site]))} for site in counts})


SHARED: dict[str, tuple[str, Change]] = {
    "head": ("llama", tied_head),
    "memory": ("llama", tied_memory),
    "untied": ("bert", untied_head),
    "norm": ("llama", one_norm),
    "feed-forward": ("llama", one_feed_forward),
    "sides": ("t5", one_of_both_sides),
    "queries": ("llama", one_query_map),
    "keys": ("llama", one_key_weight),
    "table": ("t5", one_position_table),
}


def changed(name: str) -> PreTrainedModel:
    """A tiny model whose parameters are shared in another way than its class shares them."""
    kind, change = SHARED[name]
    model = tiny.even_t5() if kind == "t5" else tiny.MODELS[kind]()
    change(model)
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_what_is_one_parameter_stays_one(name: str) -> None:
    model = changed(name)
    plan, batch = same_heads(model), tiny.inputs(model)
    smaller = compact(model, plan)
    assert difference(run(smaller, batch), run_gated(model, plan, batch)) < 1e-5
    assert sources(smaller) == sources(model)
    assert sources(compact(smaller, Plan({}))) == sources(model)


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "kind", "named"),
    [
        (one_query_map, "llama", r"layers.1.self_attn.q_proj.weight and .*layers.0.*q_proj"),
        (one_key_weight, "llama", r"layers.1.self_attn.k_proj.weight and .*layers.0.*k_proj"),
        (one_position_table, "t5", r"decoder.*relative_attention_bias.weight and encoder"),
    ],
)
def test_one_parameter_can_not_keep_different_heads(change: Change, kind: str, named: str) -> None:
    model = tiny.even_t5() if kind == "t5" else tiny.MODELS[kind]()
    change(model)
    site = "encoder.self" if kind == "t5" else "decoder.self"
    with pytest.raises(ModelError, match=f"{named}.* are one parameter, but the plan keeps diff"):
        compact(model.eval(), Plan({site: {0: (0, 1)}}))


def test_layers_of_one_output_projection() -> None:
    model: Any = tiny.MODELS["llama"]()
    first, second = model.model.layers
    second.self_attn.o_proj = first.self_attn.o_proj
    with pytest.raises(ModelError, match=r"layers.0.self_attn and .* share the output projection"):
        compact(model, Plan({"decoder.self": {0: (0, 3)}}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_sides_of_one_attention(kind: str) -> None:
    """An encoder and a decoder that share layers are refused before anything is cut."""
    if kind == "t5":
        model: Any = tiny.even_t5()
        for encoder, decoder in zip(model.encoder.block, model.decoder.block, strict=True):
            encoder.layer[0].SelfAttention = decoder.layer[0].SelfAttention
    else:
        sizes: dict[str, Any] = tiny.UNEQUAL_SIDES | {
            "decoder_layers": 2,
            "decoder_attention_heads": 5,
        }
        model = tiny.seeded(hf.BartForConditionalGeneration(hf.BartConfig(**sizes)))
        model.model.encoder.layers = model.model.decoder.layers
    with pytest.raises(
        ModelError, match=r"an encoder and a decoder with attention of their own.* share "
    ):
        compact(model, Plan({"encoder.self": {0: (1,)}}))


MAPS = {
    "queries": "bert.encoder.layer.0.attention.self.query",
    "output": "bert.encoder.layer.1.attention.output.dense",
    "feed-forward": "bert.encoder.layer.0.intermediate.dense",
    "embedding": "bert.embeddings.word_embeddings",
    "norm": "bert.encoder.layer.0.output.LayerNorm",
}


def masked(module: nn.Module) -> None:
    prune.l1_unstructured(module, "weight", 0.5)


def old_weight_norm(module: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        torch.nn.utils.weight_norm(module)


def old_spectral_norm(module: nn.Module) -> None:
    torch.nn.utils.spectral_norm(module)


WAYS: dict[str, tuple[Change, Change]] = {
    "prune.remove": (masked, lambda module: prune.remove(module, "weight")),
    "parametrize.remove_parametrizations": (
        parametrizations.weight_norm,
        lambda module: parametrize.remove_parametrizations(module, "weight"),
    ),
    "remove_weight_norm": (old_weight_norm, lambda module: nn.utils.remove_weight_norm(module)),
    "remove_spectral_norm": (
        old_spectral_norm,
        lambda module: nn.utils.remove_spectral_norm(module),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", MAPS)
@pytest.mark.parametrize("remover", WAYS)
def test_computed_weights(remover: str, place: str) -> None:
    """They are refused with the function that makes plain weights, and with these all is well."""
    if place == "norm" and remover != "prune.remove":
        pytest.skip("these norms are of matrices")
    model, path = tiny.MODELS["bert"](), MAPS[place]
    module = model.get_submodule(path)
    add, remove = WAYS[remover]
    if place == "embedding":  # tied to the head, which a mask of one of them unties
        model.get_submodule("cls.predictions.decoder").weight = nn.Parameter(torch.randn(61, 55))
    add(module)
    model.eval()
    plan, batch = Plan({"encoder.self": {0: (1, 3), 1: (2,)}}), tiny.inputs(model)
    gated = run_gated(model, plan, batch)
    advice = rf"torch.nn.utils.{remover}\(model.get_submodule\('{path}'\), 'weight'\)"
    with pytest.raises(ModelError, match=f"{path}.weight is computed from other .*{advice}"):
        compact(model, plan)
    remove(module)
    assert difference(run(compact(model, plan), batch), gated) < 1e-5


def test_a_masked_bias() -> None:
    model = tiny.MODELS["bert"]()
    prune.l1_unstructured(model.get_submodule(MAPS["queries"]), "bias", 0.5)
    with pytest.raises(ModelError, match=r"query.bias is computed .*query'\), 'bias'\)"):
        compact(model, Plan({"encoder.self": {0: (1, 3)}}))


@pytest.mark.slow
def test_weights_that_the_class_itself_computes() -> None:
    """The convolution of positions in wav2vec2 has a weight norm by design."""
    config = hf.Wav2Vec2Config(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=23,
        conv_dim=(8, 8),
        conv_stride=(3, 2),
        conv_kernel=(4, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )
    torch.manual_seed(0)
    model = hf.Wav2Vec2Model(config).eval()
    plan = some_heads(examine(model), 1)
    batch = {"input_values": torch.randn(2, 200, generator=torch.Generator().manual_seed(1))}
    assert difference(run(compact(model, plan), batch), run_gated(model, plan, batch)) < 1e-5


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda model: model.add_module("more", nn.Linear(3, 3)), "got more.bias besides"),
        (lambda model: setattr(model, "first", model.base_model.encoder), "got first.* besides"),
        (lambda model: delattr(model.pooler, "dense"), "got a BertModel, which does not"),
        (
            lambda model: setattr(
                model.encoder.layer[0].intermediate, "intermediate_act_fn", nn.Tanh()
            ),
            "differs from a new BertModel with the same weights",
        ),
        (
            lambda model: model.encoder.layer[1].register_forward_hook(lambda *given: given[2] * 2),
            "differs from a new BertModel with the same weights",
        ),
    ],
)
def test_a_model_that_was_changed(change: Change, said: str) -> None:
    """The reason is what was changed, not the heads."""
    model = tiny.seeded(hf.BertModel(hf.BertConfig(**tiny.ENCODER)))
    change(model)
    with pytest.raises(ModelError, match=said):
        compact(model.eval(), Plan({"encoder.self": {0: (1, 3)}}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["body", "bias"])
def test_what_the_model_lacks_is_lacking(kind: str, tmp_path: Path) -> None:
    """The body of a model with a head has no pooler; a bias may be taken away."""
    from headcount.artifact import save

    model: Any = tiny.MODELS["bert"]().base_model
    assert model.pooler is None and hf.BertModel(model.config).pooler is not None
    if kind == "bias":
        model.encoder.layer[0].intermediate.dense.bias = None
    plan, batch = some_heads(examine(model), 1), tiny.inputs(model)
    smaller = compact(model, plan)
    gated = run_gated(model, plan, batch)
    assert difference(run(smaller, batch), gated) < 1e-5
    assert smaller.pooler is None
    assert set(compact(smaller, Plan({})).state_dict()) == set(smaller.state_dict())
    save(smaller, tmp_path / "small")
    plain = hf.AutoModel.from_pretrained(tmp_path / "small", trust_remote_code=True)
    for found in (load(tmp_path / "small").model, plain.eval()):
        assert difference(run(found, batch), gated) < 1e-5
    assert len(load(tmp_path / "small").heads) == len(examine(smaller).heads)
    headed = hf.AutoModelForMaskedLM.from_pretrained(tmp_path / "small", trust_remote_code=True)
    assert examine(headed.base_model).heads == examine(smaller).heads
