"""Ceilings against published numbers, models cut by hand, and compact models."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from transformers import (
    BartForSequenceClassification,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from headcount.compaction import compact
from headcount.core import Head, InputError, LayerId, Plan
from headcount.speed import ceiling, flops, model_flops
from headcount.speed.inputs import forward
from headcount.tap import Anatomy, AttentionLayer, examine
from tests import tiny
from tests.examined import examined

LENGTH = 13


def counted(model: PreTrainedModel, length: int = LENGTH) -> int:
    with torch.inference_mode():
        return flops(forward(model.eval(), torch.full((1, length), tiny.FIRST_ID), 0))


def keeping(anatomy: Anatomy, kept: Callable[[AttentionLayer], Sequence[int]]) -> Plan:
    heads = [
        Head(layer.site, layer.layer, index) for layer in anatomy.layers for index in kept(layer)
    ]
    return Plan.keeping(anatomy.heads, heads)


def first(share: float) -> Callable[[AttentionLayer], Sequence[int]]:
    return lambda layer: range(round(share * layer.num_heads))


@pytest.mark.slow
def test_published_ceilings_of_bert_base() -> None:
    """At 128 tokens, 1.21, 1.36 and 1.54 without half, three quarters and all of the heads."""
    with torch.device("meta"):
        model = BertModel(BertConfig(), add_pooling_layer=False)
    layers = [
        _layer(
            "encoder.self",
            number,
            f"encoder.layer.{number}.attention.self",
            f"encoder.layer.{number}.attention.output.dense",
            12,
        )
        for number in range(12)
    ]
    anatomy = Anatomy(tuple(layers))
    found = model_flops(model, anatomy, 128)
    ceilings = [found.ceiling(keeping(anatomy, first(share))) for share in (0.5, 0.25, 0)]
    assert [round(each, 2) for each in ceilings] == [1.21, 1.36, 1.54]


@pytest.mark.slow
def test_published_ceilings_of_transformer_base() -> None:
    """Ceilings of 1.27 and 1.47 without half and three quarters of the heads.

    These ignore the vocabulary and almost all attention products: at 30 tokens they are higher.
    """
    with torch.device("meta"):
        model = MarianModel(
            MarianConfig(
                vocab_size=60,
                pad_token_id=1,
                d_model=512,
                encoder_layers=6,
                decoder_layers=6,
                encoder_attention_heads=8,
                decoder_attention_heads=8,
                encoder_ffn_dim=2048,
                decoder_ffn_dim=2048,
                decoder_start_token_id=1,
                eos_token_id=0,
                bos_token_id=None,
            )
        )
    sites = {
        "encoder.self": "encoder.layers.{}.self_attn",
        "decoder.self": "decoder.layers.{}.self_attn",
        "decoder.cross": "decoder.layers.{}.encoder_attn",
    }
    layers = [
        _layer(site, number, path.format(number), f"{path.format(number)}.out_proj", 8)
        for site, path in sites.items()
        for number in range(6)
    ]
    anatomy = Anatomy(tuple(layers))
    for length, expected in ((2, [1.27, 1.47, 1.75]), (30, [1.28, 1.49, 1.77])):
        found = model_flops(model, anatomy, length)
        ceilings = [found.ceiling(keeping(anatomy, first(share))) for share in (0.5, 0.25, 0)]
        assert [round(each, 2) for each in ceilings] == expected


def _layer(site: str, number: int, module: str, output: str, heads: int) -> AttentionLayer:
    return AttentionLayer(site, number, module, 0, heads, heads, 64, output)


def llama(heads: int, groups: int) -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=tiny.VOCAB,
            hidden_size=12,
            num_attention_heads=heads,
            head_dim=10,
            num_key_value_heads=groups,
            intermediate_size=23,
            num_hidden_layers=2,
            pad_token_id=None,
        )
    )


def t5(heads: int) -> PreTrainedModel:
    start: dict[str, Any] = {"decoder_start_token_id": 0}
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=tiny.VOCAB,
            d_model=17,
            d_kv=11,
            num_heads=heads,
            num_layers=2,
            d_ff=23,
            num_decoder_layers=3,
            **start,
        )
    )


@pytest.mark.once
@pytest.mark.parametrize(
    "make, make_smaller, kept",
    [
        (lambda: llama(6, 3), lambda: llama(4, 2), range(4)),  # a whole group of two
        (lambda: llama(6, 2), lambda: llama(4, 2), [0, 2, 3, 5]),  # all keys and values are kept
        (lambda: t5(5), lambda: t5(2), [1, 4]),
    ],
)
def test_models_made_with_fewer_heads(
    make: Callable[[], PreTrainedModel],
    make_smaller: Callable[[], PreTrainedModel],
    kept: Sequence[int],
) -> None:
    dense, smaller = make(), make_smaller()
    anatomy = examine(dense)
    plan = keeping(anatomy, lambda layer: kept)
    expected = counted(dense) / counted(smaller)
    assert ceiling(dense, plan, LENGTH, anatomy) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "modernbert", "marian", "gemma2"])
def test_compact_models(name: str) -> None:
    """Every layer keeps another share of its groups, at least one group."""
    model, anatomy = examined(name)

    def kept(layer: AttentionLayer) -> Sequence[int]:
        size = layer.num_heads // layer.num_key_value_heads
        return range(size * (1 + layer.layer % layer.num_key_value_heads))

    plan = keeping(anatomy, kept)
    expected = counted(model) / counted(compact(model, plan))
    assert ceiling(model, plan, LENGTH, anatomy) == pytest.approx(expected, rel=1e-12)


def test_shared_modules_are_counted_by_their_calls() -> None:
    """ALBERT calls one module three times: a head of one call is a third of a full head."""
    model, anatomy = examined("albert")
    found = model_flops(model, anatomy, LENGTH)
    costs = {
        costs.of(tuple(range(layer.num_heads)))
        for layer in anatomy.layers
        for costs in [found.layers[layer.layer_id]]
    }
    alone = model_flops(*examined("bert"), LENGTH).layers[LayerId("encoder.self", 0)]
    assert len(anatomy.layers) == 3 and costs == {alone.of(tuple(range(5)))}


@pytest.mark.slow
def test_classifiers_of_encoder_decoders_are_counted_without_their_head() -> None:
    config: Any = examined("bart")[0].config
    classifier = BartForSequenceClassification(config)
    anatomy = examine(classifier)
    body, body_anatomy = examined("bart")
    found, expected = (
        model_flops(each, one, LENGTH)
        for each, one in ((classifier, anatomy), (body, body_anatomy))
    )
    assert found.layers == expected.layers


def test_a_whole_plan_gains_nothing_and_longer_texts_more() -> None:
    model, anatomy = examined("bert")
    nothing = Plan({})
    assert ceiling(model, nothing, LENGTH, anatomy) == 1
    half = keeping(anatomy, first(0.5))
    ceilings = [ceiling(model, half, length, anatomy) for length in (2, 11, 23)]
    assert ceilings == sorted(set(ceilings)) and ceilings[0] > 1


def test_refusals() -> None:
    model, anatomy = examined("bert")
    with pytest.raises(InputError, match="at least 1 token and at most .*, got 0"):
        ceiling(model, Plan({}), 0, anatomy)
    with pytest.raises(InputError, match="got 100000"):
        ceiling(model, Plan({}), 100_000, anatomy)
    with pytest.raises(InputError, match="Expected a plan for this model"):
        ceiling(model, Plan({"encoder.self": {0: (77,)}}), LENGTH, anatomy)
