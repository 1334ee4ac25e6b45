"""Models that never call transformers' attention function: everything works on them, too."""

import sys
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from headcount.core import Head, LayerId, ModelError
from headcount.tap import AttentionLayer, Block, FunctionListener, Tap, examine, gated, heard
from tests import tiny
from tests.examined import examined

OWN = pytest.mark.parametrize("name", tiny.OWN_SOFTMAX)


@OWN
def test_the_layers_are_known_to_take_a_softmax_of_their_own(name: str) -> None:
    model, anatomy = examined(name)
    # GPT-J dispatches from transformers 5.24 on
    dispatches = hasattr(sys.modules[type(model).__module__], "ALL_ATTENTION_FUNCTIONS")
    assert name == "gptj" or not dispatches
    assert all(layer.by_own_softmax != dispatches for layer in anatomy.layers)
    assert not any(layer.by_own_softmax for layer in examined("bert")[1].layers)
    assert (anatomy.implementation == "eager") == (name == "falcon")


def test_key_value_heads_are_known_to_be_shared() -> None:
    assert {layer.num_key_value_heads for layer in examined("falcon")[1].layers} == {1}
    assert {layer.num_key_value_heads for layer in examined("gptj")[1].layers} == {5}


@OWN
def test_masses_are_weights_times_columns(name: str) -> None:
    model, anatomy = examined(name)
    listener = _WithColumns()
    with torch.no_grad(), Tap(model, anatomy, listener):
        model(**tiny.inputs(model))
    for weights, masses, columns in listener.found:
        torch.testing.assert_close(masses, weights @ columns)
    assert len(listener.found) == len(anatomy.layers)


class _WithColumns:
    """Asks for a column that is 1 at even keys, and one of random numbers."""

    def __init__(self) -> None:
        self.found: list[tuple[Tensor, ...]] = []
        self.columns = torch.zeros(0)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Tensor:
        """Ask for the columns."""
        num_keys = value_BHKD.shape[2]
        assert value_BHKD.shape[1] == layer.num_heads and value_BHKD.shape[3] == layer.head_dim
        is_even = (torch.arange(num_keys) % 2 == 0).float()
        columns = torch.stack([is_even, torch.linspace(-1, 1, num_keys)], -1)
        self.columns = columns.expand(*value_BHKD.shape[:2], -1, -1)
        return self.columns

    def block(self, block: Block) -> None:
        """Keep weights and masses."""
        self.found.append((block.weights_BHQK, block.masses_BHQC, self.columns))

    def end(self, layer: AttentionLayer) -> None:
        """Do nothing."""


@OWN
def test_gates_of_nested_taps_multiply_and_the_inner_listener_hears(name: str) -> None:
    model, anatomy = examined(name)
    batch, place = tiny.inputs(model), anatomy.layers[1].layer_id
    heard_by: list[str] = []
    half = {place: torch.full((5,), 0.5)}
    with torch.no_grad():
        with Tap(model, anatomy, gates={place: torch.full((5,), 0.25)}):
            expected = model(**batch).logits
        with (
            Tap(model, anatomy, FunctionListener(lambda block: heard_by.append("outer")), half),
            Tap(model, anatomy, FunctionListener(lambda block: heard_by.append("inner")), half),
        ):
            found = model(**batch).logits
    torch.testing.assert_close(found, expected)
    assert heard_by == ["inner"] * len(anatomy.layers)


@pytest.mark.once
@OWN
def test_a_head_is_gated_by_its_name(name: str) -> None:
    """A gate of 0 equals zeros in the head's columns of the output projection."""
    model = tiny.OWN_SOFTMAX[name]()
    _, anatomy = examined(name)
    batch, layer = tiny.inputs(model), anatomy.layers[1]
    head = Head(layer.site, layer.layer, 3)
    with torch.no_grad():
        with gated(model, {str(head): 0.0}):
            found = model(**batch).logits
        columns = slice(3 * layer.head_dim, 4 * layer.head_dim)
        model.get_parameter(f"{layer.output}.weight")[:, columns] = 0
        expected = model(**batch).logits
    torch.testing.assert_close(found, expected)


@OWN
def test_head_outputs_are_heard_after_gates(name: str) -> None:
    model, anatomy = examined(name)
    batch, outputs = tiny.inputs(model), dict[LayerId, Tensor]()
    gates = {anatomy.layers[0].layer_id: torch.tensor([1.0, 0, 1, 1, 1])}

    def listener(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        outputs[layer.layer_id] = output_BQHD

    with torch.no_grad(), Tap(model, anatomy, gates=gates), heard(model, anatomy, listener):
        model(**batch)
    assert outputs.keys() == {layer.layer_id for layer in anatomy.layers}
    norms = outputs[anatomy.layers[0].layer_id].norm(dim=-1).mean((0, 1))
    assert norms[1] == 0 and (norms[[0, 2, 3, 4]] > 0).all()


def test_refuses_weights_that_are_mixed_after_the_softmax() -> None:
    """What DeBERTa's talking heads return as attention is not what their softmax returned."""
    sizes: dict[str, Any] = tiny.ENCODER | {"talking_head": True, "relative_attention": True}
    config = hf.DebertaConfig(**sizes, pos_att_type=["c2p"])
    with pytest.raises(ModelError, match="attention.self of Deb.* changes its weights after the"):
        examine(tiny.seeded(hf.DebertaModel(config)))


def test_heads_are_not_replaced_by_a_mean_over_unknown_keys() -> None:
    model, anatomy = examined("bloom")
    with pytest.raises(ModelError, match="can't be replaced by a mean. Replace it by zero"):
        Tap(model, anatomy, replacement=lambda layer, value, mask: value.mean(2)[:, None])


def test_a_softmax_that_is_not_taken_any_more_is_missed() -> None:
    """What a listener does not hear must not pass for attention."""
    model, anatomy = examined("bloom")
    projection = model.get_submodule(anatomy.layers[0].output or "")
    with torch.no_grad(), Tap(model, anatomy, FunctionListener(lambda block: None)):
        with pytest.raises(ModelError, match="to take a softmax, as it did when"):
            projection(torch.zeros(1, 2, 55))


def test_two_ways_of_transformers_that_differ_are_the_reason() -> None:
    """Falcon's eager attention adds its biases twice, sdpa once; sdpa has no weights to show."""
    sizes: dict[str, Any] = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "alibi": True,
    }
    kinds: dict[str, Any] = {
        "multi_query": False,
        "parallel_attn": False,
        "new_decoder_architecture": False,
    }
    made = {}
    for name in ("sdpa", "eager"):
        config = hf.FalconConfig(vocab_size=tiny.VOCAB, **sizes, **kinds, **tiny.SPECIAL)
        stock = hf.FalconForCausalLM._from_config(config, attn_implementation=name)
        made[name] = tiny.seeded(stock)
    with pytest.raises(ModelError, match="own sdpa and eager attention .* differ .*'eager'"):
        examine(made["sdpa"])
    assert str(examine(made["eager"]).heads) == "decoder.self 2 layers x 3 heads"


def test_a_softmax_that_is_a_module_is_that_of_the_module_around_it() -> None:
    sizes: dict[str, Any] = {
        "hidden_size": 24,
        "num_attention_heads": 3,
        "dim_head": 8,
        "dim_ff": 20,
    }
    config = hf.CpmAntConfig(vocab_size=tiny.VOCAB, num_hidden_layers=2, **sizes)
    anatomy = examine(tiny.seeded(hf.CpmAntForCausalLM(config)))
    assert [layer.num_heads for layer in anatomy.layers] == [3, 3]
    assert all(layer.by_own_softmax for layer in anatomy.layers)
    assert anatomy.layers[0].module.endswith("self_attention")
