"""The tap changes nothing, receives everything, gates every head, and leaves no trace."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast, final

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration

from headcount.core import LayerId, ModelError
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    Block,
    FunctionListener,
    Gates,
    Tap,
    examine,
    gated,
    tapped,
)
from headcount.tap.tap import BLOCK, DEVICE_BLOCK
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined, examined_double, softmax_in_double

NO_PADDING = frozenset({"vit", "whisper"})
"""Inputs without a mask on the encoder's side."""
SIDES = [
    (name, side)
    for name in tiny.MODELS
    for side in ("right", "left")
    if side == "right" or name not in NO_PADDING
]
OWN_SIDES = [(name, side) for name in tiny.OWN_SOFTMAX for side in ("right", "left")]
STOCK_IS_EAGER = frozenset({"gemma2", "falcon"})
DEAF = FunctionListener(lambda block: None)
BLOCK_SIZES = (1, 7, 50, 1000, 2**19)


def _logits(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return model(**batch).logits


def _is_token(batch: dict[str, Tensor], logits: Tensor) -> Tensor:
    """A mask that is True at the positions of the logits that are not padding."""
    mask = batch.get("decoder_attention_mask", batch.get("attention_mask"))
    return torch.ones(logits.shape[:-1]).bool() if mask is None else mask.bool()


def _is_query(site: str, batch: dict[str, Tensor], maps_BHQK: Tensor) -> Tensor:
    """A mask that is True at a site's queries that are not padding, [B, Q]."""
    source = batch.get("attention_mask")
    mask = source if site == "encoder.self" else batch.get("decoder_attention_mask", source)
    return (
        torch.ones(maps_BHQK.shape[0], maps_BHQK.shape[2]).bool() if mask is None else mask.bool()
    )


class _Maps:
    """A listener that reassembles blocks; every weight must arrive exactly once."""

    def __init__(self, batch: dict[str, Tensor], like: dict[str, list[Tensor]]) -> None:
        self.batch, self.like = batch, like
        self.maps: dict[tuple[str, int], Tensor] = {}
        self.largest = 0

    def __call__(self, block: Block) -> None:
        stock = self.like[block.layer.site][block.layer.layer]
        place = block.layer.layer_id
        maps = self.maps.setdefault(place, torch.full_like(stock, torch.nan))
        cut = maps[block.rows, block.heads, block.queries]
        assert cut.isnan().all(), "a weight came twice"
        assert cut.shape == block.weights_BHQK.shape
        maps[block.rows, block.heads, block.queries] = block.weights_BHQK
        self.largest = max(self.largest, block.weights_BHQK.numel())

    def assert_equal_stock(self, atol: float) -> None:
        assert self.maps.keys() == {
            (site, layer) for site, layers in self.like.items() for layer in range(len(layers))
        }
        for (site, layer), maps in self.maps.items():
            stock = self.like[site][layer]
            assert not maps.isnan().any()
            is_query_BQ = _is_query(site, self.batch, stock)
            ours, theirs = (each.transpose(1, 2)[is_query_BQ] for each in (maps, stock))
            torch.testing.assert_close(ours, theirs, atol=atol, rtol=0, msg=f"{site} {layer}")


def _listener(function: Callable[[Block], None]) -> FunctionListener:
    return FunctionListener(function)


# ------------------------------------------------------------------ it changes nothing


@pytest.mark.once
@pytest.mark.parametrize(("name", "side"), [*SIDES, *OWN_SIDES])
def test_outputs_are_those_of_the_stock_model(name: str, side: str):
    model, anatomy = examined(name)
    batch = tiny.inputs(model, side=side)
    stock = _logits(model, batch)
    is_token = _is_token(batch, stock) if name in STOCK_IS_EAGER else ...
    with leaving_no_trace(model, batch):
        for listener in (None, DEAF):
            with Tap(model, anatomy, listener, block=1000):
                logits = _logits(model, batch)
            torch.testing.assert_close(logits[is_token], stock[is_token], atol=1e-5, rtol=0)


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma3_text", "marian", "t5"])
def test_outputs_are_those_of_a_stock_model_that_is_eager(name: str):
    """With padding in front, eager attention's values at padding are reproduced too."""
    model = tiny.MODELS[name]()
    model.set_attn_implementation("eager")
    batch = tiny.inputs(model, side="left")
    stock = _logits(model, batch)
    anatomy = examine(model)
    with Tap(model, anatomy, DEAF):
        heard = _logits(model, batch)
    with Tap(model, anatomy):
        fused = _logits(model, batch)
    ones = {layer.layer_id: torch.ones(layer.num_heads) for layer in anatomy.layers}
    with Tap(model, anatomy, gates=ones):
        open_gates = _logits(model, batch)
    for found in (heard, fused, open_gates):
        torch.testing.assert_close(found, stock, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "marian", "mpnet", "gptj"])
def test_outputs_without_a_mask(name: str):
    model, anatomy = examined(name)
    batch = tiny.inputs(model, lengths=(7, 7))
    batch = {key: each for key, each in batch.items() if not key.endswith("attention_mask")}
    stock = _logits(model, batch)
    maps = _Maps({}, tiny.attention_maps(model, batch))
    with Tap(model, anatomy, _listener(maps)):
        torch.testing.assert_close(_logits(model, batch), stock, atol=1e-5, rtol=0)
    maps.assert_equal_stock(atol=1e-5)


def _t5_of_equal_depths() -> PreTrainedModel:
    """The cache that transformers 5.23 makes for T5 has as many layers as the encoder."""
    config = copy.deepcopy(examined("t5")[0].config)
    assert isinstance(config, T5Config)
    config.num_decoder_layers = config.num_layers
    torch.manual_seed(0)
    return T5ForConditionalGeneration(config).eval()


@pytest.mark.once
@pytest.mark.parametrize("name", ["gpt2", "marian", "t5", "bloom", "falcon"])
@pytest.mark.parametrize("listener", [None, DEAF])
def test_generation_is_that_of_the_stock_model(name: str, listener: FunctionListener | None):
    model = _t5_of_equal_depths() if name == "t5" else examined(name)[0]
    anatomy = examine(model)
    batch = {
        key: each
        for key, each in tiny.inputs(model, side="left").items()
        if not key.startswith("decoder")
    }
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "num_beams": 2}
    ones = {each.layer_id: torch.ones(each.num_heads) for each in anatomy.layers}
    zeros = {place: 0 * gate for place, gate in ones.items()}
    generate = cast(Any, model).generate
    stock = generate(**batch, **options)
    with leaving_no_trace(model, tiny.inputs(model)):
        with Tap(model, anatomy, listener, ones):
            assert torch.equal(generate(**batch, **options), stock)
        with Tap(model, anatomy, listener, zeros):
            assert not torch.equal(generate(**batch, **options), stock)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "marian", "t5", "vit"])
def test_the_models_own_eager_function_gives_the_same(name: str):
    """The fallback for models with unknown arithmetic; blocks of rows and queries."""
    model, anatomy = examined_double(name)
    batch = _double(tiny.inputs(model))
    with softmax_in_double():
        stock = _logits(model, batch)
        maps = _Maps(batch, tiny.attention_maps(model, batch))
        with Tap(model, replace(anatomy, eager=True), _listener(maps), block=300):
            logits = _logits(model, batch)
    is_token = _is_token(batch, stock)
    torch.testing.assert_close(logits[is_token], stock[is_token], atol=1e-9, rtol=0)
    maps.assert_equal_stock(atol=1e-9)


def test_attention_sinks_are_left_to_the_models_own_function():
    """GPT-OSS adds a learned logit to every softmax, unknown to the attention function."""
    model = tiny.gpt_oss()
    anatomy, batch = examine(model), tiny.inputs(model)
    assert anatomy.eager
    stock, seen = _logits(model, batch), []
    with leaving_no_trace(model, batch):
        with Tap(model, anatomy, _listener(lambda block: seen.append(block.weights_BHQK))):
            torch.testing.assert_close(_logits(model, batch), stock, atol=1e-5, rtol=0)
    assert (torch.cat(seen).sum(-1) < 0.99).any()
    maps = tiny.attention_maps(model, batch)["encoder.self"]
    torch.testing.assert_close(torch.cat(seen), torch.cat(maps), atol=5e-6, rtol=0)


# ------------------------------------------------------------------ it receives everything


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_weights_are_those_of_the_stock_model(name: str, side: str):
    model, anatomy = examined_double(name)
    batch = _double(tiny.inputs(model, side=side))
    with softmax_in_double():
        maps = _Maps(batch, tiny.attention_maps(model, batch))
    with Tap(model, anatomy, _listener(maps), block=300):
        _logits(model, batch)
    maps.assert_equal_stock(atol=1e-9)


@pytest.mark.parametrize("name", tiny.TAPPED)
@pytest.mark.parametrize("sharpened", [False, True])
def test_weights_in_float32(name: str, sharpened: bool):
    """Sharpened models have scores so large that float32 itself rounds by more than 1e-6."""
    model, anatomy = examined(name)
    if not sharpened:
        torch.manual_seed(5)
        model = type(model)(model.config).eval()
    batch = tiny.inputs(model)
    maps = _Maps(batch, tiny.attention_maps(model, batch))
    with Tap(model, anatomy, _listener(maps)):
        _logits(model, batch)
    maps.assert_equal_stock(atol=1e-5 if sharpened else 1e-6)


@pytest.mark.once
@pytest.mark.parametrize("name", tiny.MODELS)
def test_blocks_of_any_size_give_the_same(name: str):
    model, anatomy = examined_double(name)
    batch = _double(tiny.inputs(model, lengths=(3, 2)))
    like, results = tiny.attention_maps(model, batch), []
    for size in BLOCK_SIZES:
        maps = _Maps(batch, like)
        with Tap(model, anatomy, _listener(maps), block=size):
            results.append((maps.maps, _logits(model, batch)))
        longest = max(each.shape[-1] for layers in like.values() for each in layers)
        assert maps.largest <= max(size, longest), "a block is larger than asked for"
    for maps, logits in results[:-1]:
        torch.testing.assert_close(logits, results[-1][1], atol=1e-12, rtol=0)
        for place, each in maps.items():
            torch.testing.assert_close(each, results[-1][0][place], atol=1e-12, rtol=0)


@pytest.mark.parametrize("size", BLOCK_SIZES)
def test_columns_beside_the_values_are_multiplied_with_the_weights(size: int):
    """Grouped queries: columns are per query head, and every block has its own part of the sums."""

    class Columns:
        def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Tensor:
            assert (value_BHKD.shape[1], value_BHKD.shape[3]) == (layer.num_heads, layer.head_dim)
            shape = (*value_BHKD.shape[:3], 3)
            self.columns_BHKC = torch.rand(shape, generator=generator, dtype=value_BHKD.dtype)
            self.num_blocks, self.num_queries = 0, num_queries
            return self.columns_BHKC

        def block(self, block: Block) -> None:
            masses = block.weights_BHQK @ self.columns_BHKC[block.rows, block.heads]
            torch.testing.assert_close(block.masses_BHQC, masses, atol=1e-12, rtol=0)
            self.num_blocks += 1

        def end(self, layer: AttentionLayer) -> None:
            assert self.num_blocks and self.num_queries == 7

    generator = torch.Generator().manual_seed(0)
    model, anatomy = examined_double("llama")
    batch = tiny.inputs(model)
    stock = _logits(model, batch)
    with Tap(model, anatomy, Columns(), block=size):
        torch.testing.assert_close(_logits(model, batch), stock, atol=1e-12, rtol=0)


@pytest.mark.once
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_weights_of_a_half_precision_model_are_float32(name: str, dtype: torch.dtype):
    model = tiny.MODELS[name]()
    nn.Module.to(model, dtype)
    anatomy = examine(model)
    batch = tiny.inputs(model)
    stock, seen = _logits(model, batch), []
    with Tap(model, anatomy, _listener(lambda block: seen.append(block.weights_BHQK.dtype))):
        heard = _logits(model, batch)
    assert heard.dtype == dtype and set(seen) == {torch.float32}
    is_token = _is_token(batch, stock)
    torch.testing.assert_close(heard[is_token], stock[is_token], atol=0.3, rtol=0)


def _double(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: each.double() if each.is_floating_point() else each for key, each in batch.items()}


@pytest.mark.slow
def test_albert_calls_one_module_and_has_three_layers():
    model, anatomy = examined("albert")
    assert [(layer.layer, layer.call) for layer in anatomy.layers] == [(0, 0), (1, 1), (2, 2)]
    assert len({layer.module for layer in anatomy.layers}) == 1
    batch = tiny.inputs(model)
    stock = _logits(model, batch)
    changed = []
    for layer in range(3):
        with gated(model, {f"enc.{layer}.2": 0.0}):
            changed.append(_logits(model, batch))
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        assert (changed[one] - changed[other]).abs().max() > 1e-3
    assert all((each - stock).abs().max() > 1e-3 for each in changed)


@pytest.mark.parametrize("body", [False, True])
def test_a_forward_that_was_interrupted_does_not_shift_the_layers(body: bool):
    model, anatomy = examined("albert")
    batch = tiny.inputs(model)
    run = model.base_model if body else model
    seen: list[int] = []

    def stop(block: Block) -> None:
        seen.append(block.layer.layer)
        if len(seen) == 2:
            raise InterruptedError

    with Tap(model, anatomy, _listener(stop)), torch.no_grad():
        with pytest.raises(InterruptedError):
            run(**batch)
        run(**batch)
    assert seen == [0, 1, 0, 1, 2]


# ------------------------------------------------------------------ it gates every head


@contextmanager
def _hooked(model: PreTrainedModel, anatomy: Anatomy, gates: Gates) -> Iterator[None]:
    """The slow way: multiply each head's slice of its output projection's input."""
    by_projection: dict[str, list[AttentionLayer]] = {}
    for layer in anatomy.layers:
        assert layer.output is not None
        by_projection.setdefault(layer.output, []).append(layer)
    handles = []
    for path, layers in by_projection.items():
        calls = iter(layers * 2)

        def multiply(
            module: nn.Module, args: tuple[Tensor, ...], calls=calls
        ) -> tuple[Tensor, ...]:
            layer = next(calls)
            gate = gates.get(layer.layer_id)
            if gate is None:
                return args
            given_BQD = args[0]
            shape = (given_BQD.shape[0], -1, layer.num_heads, layer.head_dim)
            gate = gate[:, None, :, None] if gate.dim() == 2 else gate[None, None, :, None]
            return ((given_BQD.view(shape) * gate).view_as(given_BQD), *args[1:])

        handles.append(model.get_submodule(path).register_forward_pre_hook(multiply))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.once
@pytest.mark.parametrize("name", tiny.TAPPED)
def test_a_gate_of_0_takes_the_head_from_the_output_projection(name: str):
    model, anatomy = examined(name)
    batch = tiny.inputs(model)
    stock = _logits(model, batch)
    for number, layer in enumerate(anatomy.layers):
        gate = torch.ones(layer.num_heads)
        gate[(3 + number) % layer.num_heads] = 0
        gates = {layer.layer_id: gate}
        with _hooked(model, anatomy, gates):
            expected = _logits(model, batch)
        assert (expected - stock).abs().max() > 1e-3, layer
        for listener in (None, DEAF):
            with Tap(model, anatomy, listener, gates):
                logits = _logits(model, batch)
            is_token = _is_token(batch, logits)
            ours, theirs = logits[is_token], expected[is_token]
            torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0, msg=str(layer))


def _random_gates(anatomy: Anatomy, batch_size: int | None, dtype: torch.dtype) -> dict:
    generator = torch.Generator().manual_seed(0)
    gates = {}
    for layer in anatomy.layers:
        shape = (layer.num_heads,) if batch_size is None else (batch_size, layer.num_heads)
        gates[layer.layer_id] = torch.randn(shape, generator=generator, dtype=dtype)
    return gates


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("name", sorted(tiny.TAPPED.keys() - {"xglm"}))
def test_gates_and_their_gradients_are_those_of_the_slow_way(name: str, batch_size: int | None):
    """One gate per head, or per sample and head, for every layer at once.

    The stock XGLM does not run in float64.
    """
    model, anatomy = examined_double(name)
    batch = _double(tiny.inputs(model))
    gates = _random_gates(anatomy, batch_size, torch.float64)
    leaves = [gate.requires_grad_() for gate in gates.values()]

    def logits_and_gradients() -> tuple[Tensor, ...]:
        logits = model(**batch).logits
        is_token = _is_token(batch, logits)
        return logits[is_token], *torch.autograd.grad(logits[is_token].square().sum(), leaves)

    with softmax_in_double(), _hooked(model, anatomy, gates):
        expected = logits_and_gradients()
    assert all((gradient != 0).any() for gradient in expected)
    for listener in (None, DEAF):
        with Tap(model, anatomy, listener, gates):
            found = logits_and_gradients()
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(
                ours, theirs, rtol=1e-5, atol=5e-6 * float(theirs.detach().abs().max())
            )


def test_the_gradient_of_a_gate_is_its_finite_difference():
    model, anatomy = examined_double("marian")
    batch, step = tiny.inputs(model), 1e-6
    gate = torch.ones(11, dtype=torch.float64, requires_grad=True)

    def loss() -> Tensor:
        with Tap(model, anatomy, gates={LayerId("decoder.cross", 1): gate}):
            return model(**batch).logits.square().mean()

    (gradient,) = torch.autograd.grad(loss(), gate)
    for head in (0, 7):
        values = []
        for sign in (1, -1):
            gate.data[head] = 1 + sign * step
            values.append(float(loss().detach()))
        gate.data[head] = 1
        assert float(gradient[head]) == pytest.approx(
            (values[0] - values[1]) / (2 * step), rel=1e-5
        )


def test_a_sample_has_its_own_gate():
    model, anatomy = examined("bert")
    batch = tiny.inputs(model)
    stock = _logits(model, batch)
    gate = torch.ones(3, 5)
    gate[1, 4] = 0
    with Tap(model, anatomy, gates={LayerId("encoder.self", 1): gate}):
        logits = _logits(model, batch)
    assert torch.equal(logits[[0, 2]], stock[[0, 2]])
    assert (logits[1] - stock[1]).abs().max() > 1e-3


def test_gates_of_nested_taps_multiply_and_the_inner_listener_hears():
    model, anatomy = examined("bert")
    batch = tiny.inputs(model, side="left")
    outside, inside = [], []
    with gated(model, {"enc.0.1": 0.5, "enc.1.2": 0.0}):
        expected_outer = _logits(model, batch)
    with gated(model, {"enc.0.1": 0.25, "enc.0.3": 0.0, "enc.1.2": 0.0}):
        expected_both = _logits(model, batch)
    outer_gates = {"enc.0.1": 0.5, "enc.1.2": 0.0}
    with leaving_no_trace(model, batch):
        with tapped(model, outside.append, outer_gates, anatomy):
            heard = len(outside)
            with tapped(model, inside.append, {"enc.0.1": 0.5, "enc.0.3": 0.0}, anatomy):
                both = _logits(model, batch)
                assert len(outside) == heard and len(inside) > 0
            outer = _logits(model, batch)
            assert len(outside) > heard
    torch.testing.assert_close(both, expected_both, atol=1e-5, rtol=0)
    torch.testing.assert_close(outer, expected_outer, atol=1e-5, rtol=0)


# ------------------------------------------------------------------ it leaves no trace


@pytest.mark.parametrize("name", tiny.TAPPED)
def test_leaves_no_trace(name: str):
    model, anatomy = tiny.TAPPED[name](), examined(name)[1]
    batch = tiny.inputs(model)
    gates = _random_gates(anatomy, None, torch.float32)

    def fail(block: Block) -> None:
        raise InterruptedError

    with leaving_no_trace(model, batch):
        for listener in (None, DEAF):
            with Tap(model, anatomy, listener, gates):
                _logits(model, batch)
    with leaving_no_trace(model, batch), pytest.raises(InterruptedError):
        with Tap(model, anatomy, _listener(fail)):
            _logits(model, batch)
    with leaving_no_trace(model, batch), pytest.raises(ZeroDivisionError):
        with Tap(model, anatomy, gates=gates):
            _logits(model, batch)
            raise ZeroDivisionError


def test_a_tap_may_be_entered_again():
    model, anatomy = examined("gpt2")
    batch = tiny.inputs(model)
    seen = []
    tap = Tap(model, anatomy, _listener(lambda block: seen.append(block.layer.layer)))
    with leaving_no_trace(model, batch):
        for _ in range(2):
            with tap:
                _logits(model, batch)
    assert seen == [0, 1, 0, 1]


# ------------------------------------------------------------------ what it refuses


def test_weights_are_not_heard_under_dropout_and_gates_work():
    model = tiny.MODELS["bert"]()
    anatomy = examine(model)
    batch = tiny.inputs(model)
    model.train()
    with leaving_no_trace(model, batch):
        with Tap(model, anatomy, DEAF), pytest.raises(ModelError, match=r"Call model\.eval\(\)"):
            _logits(model, batch)
        with Tap(model, anatomy, gates={LayerId("encoder.self", 0): torch.ones(5)}):
            torch.manual_seed(5)
            tapped_logits = _logits(model, batch)
        torch.manual_seed(5)
        assert torch.equal(tapped_logits, _logits(model, batch))


def test_a_module_that_was_not_there_is_refused():
    model, anatomy = examined("bert")
    half = Anatomy(anatomy.layers[:1])
    batch = tiny.inputs(model)
    with leaving_no_trace(model, batch), Tap(model, half):
        with pytest.raises(ModelError, match="BertSelfAttention called attention, but did not"):
            _logits(model, batch)


def test_a_block_is_larger_on_a_device_where_calls_cost_more() -> None:
    model = tiny.MODELS["bert"]()
    anatomy = examine(model)
    assert Tap(model, anatomy).block == BLOCK
    assert Tap(model, anatomy, block=7).block == 7
    nn.Module.to(model, "meta")
    assert Tap(model, anatomy).block == DEVICE_BLOCK


@final
class _Named(TorchDispatchMode):
    """Number of operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        self.found[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "marian"])
def test_fused_attention_stays_in_use_for_outputs_and_for_gradients_of_gates(name: str) -> None:
    model, anatomy = examined(name)
    batch, counts = tiny.inputs(model), []
    ones = {layer.layer_id: torch.ones(layer.num_heads) for layer in anatomy.layers}
    for gates in (
        None,
        ones,
        {place: each.clone().requires_grad_() for place, each in ones.items()},
    ):
        with _Named() as named, Tap(model, anatomy, gates=gates):
            logits = model(**batch).logits
        assert logits.isfinite().all() and not any("softmax" in each for each in named.found)
        fused = [named.found[each] for each in named.found if "scaled_dot_product" in each]
        counts.append(sum(fused))
    assert counts == [len(anatomy.layers)] * 3
