"""Blocked scores: against a stock eager model with patched masks, and against gates."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.gpt_oss import modeling_gpt_oss

from headcount.core import InputError, LayerId, ModelError
from headcount.tap import Anatomy, Block, FunctionListener, Tap, examine
from headcount.tap.blocking import narrowed
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined
from tests.textbook import blocking

DEAF = FunctionListener(lambda block: None)
NAMES = ("bert", "gpt2", "llama", "gemma2", "gemma3_text", "marian", "t5")
SIDES = ("right", "left")


def _logits(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return model(**batch).logits


def _at_tokens(batch: dict[str, Tensor], logits: Tensor) -> Tensor:
    mask = batch.get("decoder_attention_mask", batch["attention_mask"])
    return logits[mask.bool()]


def _scores(anatomy: Anatomy, maps: dict[str, list[Tensor]]) -> dict[LayerId, Tensor]:
    """Scores to block in every layer, drawn so that every query keeps its best key."""
    generator, found = torch.Generator().manual_seed(3), {}
    for layer in anatomy.layers:
        weights_BHQK = maps[layer.site][layer.layer]
        drawn = torch.rand(weights_BHQK.shape, generator=generator) < 0.3
        best = weights_BHQK.argmax(-1, keepdim=True)
        found[layer.layer_id] = drawn.scatter(-1, best, False)
    return found


@pytest.mark.once
@pytest.mark.parametrize(("name", "side"), [(name, side) for name in NAMES for side in SIDES])
def test_weights_and_outputs_are_those_of_a_stock_model_with_patched_masks(name: str, side: str):
    """Grouped queries, soft caps, sliding windows, position biases, cross-attention, padding."""
    model, anatomy = examined(name)
    batch = tiny.inputs(model, side=side)
    blocked = _scores(anatomy, tiny.attention_maps(model, batch))
    places = {
        layer.module: (layer.num_heads, blocked[layer.layer_id].nonzero().tolist())
        for layer in anatomy.layers
    }
    expected = blocking.run(model, batch, places)
    seen: dict[LayerId, Tensor] = {}

    def see(block: Block) -> None:
        place = block.layer.layer_id
        maps = seen.setdefault(place, torch.zeros(blocked[place].shape))
        maps[block.rows, block.heads, block.queries] = block.weights_BHQK

    found = []
    with leaving_no_trace(model, batch):
        for listener, size in ((None, None), (FunctionListener(see), 50), (DEAF, None)):
            with Tap(model, anatomy, listener, block=size, blocked=blocked):
                found.append(_at_tokens(batch, _logits(model, batch)))
    stock = _at_tokens(batch, _logits(model, batch))
    for each in found:
        torch.testing.assert_close(each, _at_tokens(batch, expected.logits), atol=2e-5, rtol=0)
        assert (each - stock).abs().max() > 1e-2
    sites = tiny.maps_by_site(model, expected)
    for place, maps in seen.items():
        side_mask = "attention_mask" if place.site == "encoder.self" else "decoder_attention_mask"
        is_query_BQ = batch.get(side_mask, batch["attention_mask"]).bool()
        ours, theirs = (
            each.transpose(1, 2)[is_query_BQ] for each in (maps, sites[place.site][place.layer])
        )
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0, msg=str(place))
        assert not (maps * blocked[place]).any(), "a blocked score has weight"


@pytest.mark.parametrize("listener", [None, DEAF])
@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "marian", "t5", "gpt_oss"])
def test_a_query_without_keys_is_gated_to_0(name: str, listener: FunctionListener | None):
    """Gates of single queries say the same; the batch has padding, whose queries see nothing."""
    model = tiny.gpt_oss() if name == "gpt_oss" else examined(name)[0]
    anatomy = examine(model) if name == "gpt_oss" else examined(name)[1]
    batch = tiny.inputs(model, side="left")
    layer = anatomy.layers[-1]
    queries = 13 if layer.site.startswith("decoder") and "decoder_input_ids" in batch else 7
    gates = torch.ones(3, queries, layer.num_heads)
    gates[1, 4:, 2] = 0
    blocked = {layer.layer_id: (gates == 0).transpose(1, 2)[..., None]}
    with Tap(model, anatomy, listener, gates={layer.layer_id: gates}):
        expected = _at_tokens(batch, _logits(model, batch))
    with Tap(model, anatomy, listener, blocked=blocked):
        found = _at_tokens(batch, _logits(model, batch))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert (found - _at_tokens(batch, _logits(model, batch))).abs().max() > 1e-3


@pytest.mark.parametrize("listener", [None, DEAF])
def test_a_head_stays_blocked_while_tokens_are_generated(listener: FunctionListener | None):
    model, anatomy = examined("llama")
    batch: Any = tiny.inputs(model, side="left")
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    gate = torch.ones(6)
    gate[[1, 4]] = 0
    place, generate = anatomy.layers[0].layer_id, vars(type(model)).get("generate")
    assert generate is None  # inherited
    runner: Any = model
    with Tap(model, anatomy, listener, gates={place: gate}):
        expected = runner.generate(**batch, **options)
    with Tap(model, anatomy, listener, blocked={place: (gate == 0)[None, :, None, None]}):
        assert torch.equal(runner.generate(**batch, **options), expected)
    assert not torch.equal(runner.generate(**batch, **options), expected)


def test_gates_and_taps_around_it_add_up():
    model, anatomy = examined("bert")
    batch, place = tiny.inputs(model), LayerId("encoder.self", 1)
    one, other = (torch.zeros(1, 5, 1, 7, dtype=torch.bool) for _ in range(2))
    one[:, 2, :, :4], other[:, 2, :, 4:], other[:, 1, :, 3] = True, True, True
    gates = {place: torch.tensor([0.5, 1, 1, 1, 1])}
    with Tap(model, anatomy, gates=gates, blocked={place: one | other}):
        both = _logits(model, batch)
    with Tap(model, anatomy, gates=gates, blocked={place: one}):
        with Tap(model, anatomy, DEAF, blocked={place: other}):
            torch.testing.assert_close(_logits(model, batch), both, atol=1e-5, rtol=0)
    gates = {place: torch.tensor([0.5, 1, 0, 1, 1])}
    only_1 = other.clone()
    only_1[:, 2] = False
    with Tap(model, anatomy, gates=gates, blocked={place: only_1}):
        torch.testing.assert_close(_logits(model, batch), both, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["bert", "vit"])
@pytest.mark.parametrize("listener", [None, DEAF])
def test_without_a_mask(name: str, listener: FunctionListener | None):
    """The output of a head that sees one key is that key's value, whatever the query."""
    model, anatomy = examined(name)
    batch = {key: each for key, each in tiny.inputs(model).items() if key != "attention_mask"}
    layer, values, outputs = anatomy.layers[0], [], []

    class Values:
        def begin(self, layer: Any, value_BHKD: Tensor, num_queries: int) -> None:
            values.append(value_BHKD)

        def block(self, block: Block) -> None: ...

        def end(self, layer: Any) -> None: ...

    with Tap(model, anatomy, Values()):
        _logits(model, batch)
    keys = values[0].shape[2]
    blocked = torch.zeros(1, layer.num_heads, 1, keys, dtype=torch.bool)
    blocked[:, 1] = True
    blocked[:, 1, :, 3] = False
    with Tap(model, anatomy, listener, blocked={layer.layer_id: blocked}) as tap:
        with tap.returning(lambda layer, output: outputs.append(output)):
            _logits(model, batch)
    expected = values[0][:, 1, 3, None].expand(-1, keys, -1)
    torch.testing.assert_close(outputs[0][:, :, 1], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("listener", [None, DEAF])
def test_gradients_are_finite(listener: FunctionListener | None):
    """Also where a query is left without keys."""
    model, anatomy = examined("t5")
    batch = tiny.inputs(model, side="left")
    blocked = {
        layer.layer_id: torch.ones(1, layer.num_heads, 1, 1, dtype=torch.bool)
        for layer in anatomy.layers
    }
    parameter = next(model.parameters())
    with Tap(model, anatomy, listener, blocked=blocked):
        (gradient,) = torch.autograd.grad(model(**batch).logits.square().sum(), parameter)
    assert gradient.isfinite().all() and gradient.any()


@pytest.mark.parametrize("number", [False, True])
def test_masks_of_queries_without_keys_stay_as_they_were(number: bool):
    """A softmax over nothing is not a number in half precision."""
    mask = torch.tensor([[True, False, True], [True, True, True]])[None, None]
    added = torch.zeros(1, 1, 2, 3).masked_fill(~mask, torch.finfo(torch.float32).min)
    blocked = torch.tensor([[True, False, True], [False, True, False]])[None, None]
    query, key = torch.zeros(1, 2, 2, 5), torch.zeros(1, 1, 3, 5)
    found, empty = narrowed(added if number else mask, blocked, query, key)
    visible = found == 0 if number else found
    assert visible.tolist() == [[[[True, False, True], [True, False, True]]]]
    assert empty.tolist() == [[[[True], [False]]]]


ANYWHERE = torch.ones(1, 1, 1, 1, dtype=torch.bool)


@pytest.mark.parametrize(
    ("place", "blocked", "error", "message"),
    [
        ((0,), ANYWHERE.int(), InputError, r"as booleans .* got torch.int32 \[1, 1, 1, 1\]"),
        ((0,), ANYWHERE[0], InputError, r"got torch.bool \[1, 1, 1\] for encoder.self 0"),
        ((7,), ANYWHERE, ModelError, "Expected layers of this model .*, got encoder.self 7"),
        ((1,), ANYWHERE.expand(1, 4, 1, 1), InputError, r"sizes \[3, 5, 7, 7\], or 1 for all, got"),
    ],
)
def test_what_can_not_be_blocked(place: Any, blocked: Any, error: Any, message: str):
    model, anatomy = examined("bert")
    batch = tiny.inputs(model)
    with leaving_no_trace(model, batch), pytest.raises(error, match=message):
        with Tap(model, anatomy, blocked={LayerId("encoder.self", *place): blocked}):
            _logits(model, batch)


def test_modules_with_a_softmax_of_their_own_are_refused():
    model, anatomy = examined("mpnet")
    with pytest.raises(ModelError, match="MPNetForMaskedLM takes a softmax of its own, whose"):
        Tap(model, anatomy, blocked={anatomy.layers[0].layer_id: ANYWHERE})


@pytest.mark.slow
def test_a_model_that_disobeys_masks_of_heads_is_refused(monkeypatch: pytest.MonkeyPatch):
    model = tiny.gpt_oss()
    assert examine(model).can_block
    stock = vars(modeling_gpt_oss)["eager_attention_forward"]

    def eager(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any):
        return stock(module, query, key, value, None if mask is None else mask[:, -1:], **kwargs)

    monkeypatch.setattr(modeling_gpt_oss, "eager_attention_forward", eager)
    anatomy = examine(model)
    assert not anatomy.can_block
    with pytest.raises(ModelError, match="self-check of GptOssForCausalLM some got weight"):
        Tap(model, anatomy, blocked={anatomy.layers[0].layer_id: ANYWHERE})
