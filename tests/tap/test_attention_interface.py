"""The attention interface: every configuration is switched, and each gets its own back."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from headcount.tap import Call, dispatching, implementation_of
from headcount.tap.attention_interface import Dispatched, configurations
from tests import tiny


def test_every_configuration_is_switched_and_gets_its_own_back():
    model = tiny.MODELS["bert"]()
    attention = model.get_submodule("bert.encoder.layer.1.attention.self")
    own = copy.deepcopy(model.config)
    own._attn_implementation = "eager"
    vars(attention)["config"] = own
    assert len(configurations(model)) == 2
    with dispatching(model, attend := lambda call: call.query) as name:
        for config in configurations(model):
            assert config._attn_implementation in AttentionInterface._global_mapping
            assert config._attn_implementation in AttentionMaskInterface._global_mapping
        assert implementation_of(model) is name
        active = AttentionInterface._global_mapping[implementation_of(attention) or ""]
        assert isinstance(active, Dispatched) and active.attend is attend
        assert not isinstance(AttentionInterface._global_mapping["sdpa"], Dispatched)
        assert "eager" not in AttentionInterface._global_mapping
    assert implementation_of(attention) == "eager"
    assert implementation_of(model) == "sdpa"
    assert name not in AttentionInterface._global_mapping
    assert name not in AttentionMaskInterface._global_mapping


@pytest.mark.parametrize("own", ["sdpa", "eager", "flex_attention"])
def test_models_that_read_the_name_see_their_own(own: str):
    """Models compare the name with those that they know, and look it up in lists of them."""
    model = tiny.MODELS["bert"]()
    vars(model.config)["_attn_implementation_internal"] = own
    known = "eager" if own == "eager" else "sdpa"
    with dispatching(model, lambda call: call.query) as name:
        assert implementation_of(model) == known and name == known and known == name
        assert name in ("eager", "sdpa") and name in ["eager", "sdpa"]
        assert not name.startswith("flash") and f"{name}" == known
        assert copy.deepcopy(model.config)._attn_implementation is name
    assert implementation_of(model) == own


def test_modules_that_keep_the_name_are_switched():
    model = tiny.MODELS["bert"]()
    layer: Any = model.get_submodule("bert.encoder.layer.1")
    layer._attn_implementation = "sdpa"
    with dispatching(model, attend := lambda call: call.query):
        assert AttentionInterface._global_mapping[layer._attn_implementation].attend is attend
    assert type(layer._attn_implementation) is str


def test_nested_and_after_an_error():
    model = tiny.MODELS["gpt2"]()
    with pytest.raises(ZeroDivisionError), dispatching(model, lambda call: call.query) as outer:
        with dispatching(model, lambda call: call.query) as inner:
            assert inner is not outer
            assert implementation_of(model) is inner
        assert implementation_of(model) is outer
        raise ZeroDivisionError
    assert implementation_of(model) == "sdpa"


@pytest.mark.parametrize("name", ["bert", "gpt2", "gemma3_text", "marian"])
def test_masks_are_boolean_and_causal_ones_are_spelled_out(name: str):
    """Without padding, transformers would leave causal masks to sdpa's `is_causal`."""
    model = tiny.MODELS[name]()
    batch = {key: each for key, each in tiny.inputs(model, (5, 5)).items() if key.endswith("ids")}
    masks = []

    def attend(call: Call) -> Tensor:
        query, key, value = call.query, call.key, call.value
        square = query.shape[2] == key.shape[2]
        causal = name != "bert" and square and (name != "marian" or query.shape[2] != 5)
        masks.append((call.mask, causal, (query.shape[2], key.shape[2])))
        return query.new_zeros(len(query), query.shape[2], query.shape[1], value.shape[3])

    with dispatching(model, attend), torch.no_grad():
        model(**batch)
    assert masks
    for mask, causal, (num_queries, num_keys) in masks:
        if causal:
            assert mask is not None and mask.dtype == torch.bool
            assert mask.shape[-2:] == (num_queries, num_keys)
            assert not mask.triu(1).any() and mask.diagonal(dim1=-2, dim2=-1).all()
        else:
            assert mask is None or mask.all()
