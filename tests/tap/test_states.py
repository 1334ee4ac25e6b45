"""States that are heard are the model's own, with their gradients; nothing stays behind."""

import ast
import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

import headcount
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    StateId,
    Tap,
    block_of,
    examine,
    heard,
    intercepted,
    replaced,
    state_ids,
)
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.compaction.plans import compacted
from tests.examined import examined
from tests.turns import slow

PACKAGE = Path(headcount.__file__).parent
EVERY = pytest.mark.parametrize("name", tiny.MODELS)


class Kept(dict[Any, Tensor]):
    """A listener that keeps what it hears, and allows each state once in a forward pass."""

    def __call__(self, state: AttentionLayer | StateId, heard: Tensor) -> None:
        assert state not in self
        self[state] = heard


def run(model: PreTrainedModel, **options: Any) -> Any:
    return model(**tiny.inputs(model), **options)


def stock_states(model: PreTrainedModel, output: Any) -> dict[StateId, Tensor]:
    """What transformers returns as hidden states."""
    if model.config.is_encoder_decoder:
        sides = {side: output[f"{side}_hidden_states"] for side in ("encoder", "decoder")}
    else:
        side = "decoder" if model.config.model_type in tiny.DECODERS else "encoder"
        sides = {side: output.hidden_states}
    return {
        StateId(side, depth): state  # type: ignore[arg-type]
        for side, states in sides.items()
        for depth, state in enumerate(states)
    }


def is_normed(model: PreTrainedModel, state: Tensor, normed: Tensor) -> bool:
    """Whether one of the model's norms maps a state to another."""
    norms = [module for module in model.modules() if "norm" in type(module).__name__.lower()]
    fitting = [norm for norm in norms if norm.weight.shape == state.shape[-1:]]
    return any(torch.equal(norm(state), normed) for norm in fitting)


# ------------------------------------------------------------------ hidden states


@pytest.mark.once
@EVERY
def test_hidden_states_are_those_of_transformers(name: str) -> None:
    model, anatomy = examined(name)
    states = Kept()
    with torch.no_grad(), heard(model, anatomy, hidden_states=states):
        stock = stock_states(model, run(model, output_hidden_states=True))
    assert list(states) == state_ids(model, anatomy)
    assert states.keys() == stock.keys()
    last = {side: max(s.depth for s in stock if s.side == side) for side in {s.side for s in stock}}
    for state, hidden in states.items():
        same = torch.equal(hidden, stock[state])
        assert same or state.depth == last[state.side], state
        with torch.no_grad():
            assert same or is_normed(model, hidden, stock[state]), state


@pytest.mark.once
@pytest.mark.parametrize("dead", [0, *slow(1)])
@pytest.mark.parametrize("name", ["bert", "gpt2", "marian", "t5"])
def test_layers_without_heads_have_hidden_states(name: str, dead: int) -> None:
    model = compacted(name, dead)[1]
    anatomy, states = examine(model), Kept()
    assert anatomy.dead
    with torch.no_grad(), heard(model, anatomy, hidden_states=states):
        stock = stock_states(model, run(model, output_hidden_states=True))
    assert list(states) == state_ids(model, anatomy) and states.keys() == stock.keys()
    last = [max(state.depth for state in stock if state.side == one.side) for one in stock]
    for state, depth in zip(stock, last, strict=True):
        assert state.depth == depth or torch.equal(states[state], stock[state]), state


def test_stages_are_not_blocks() -> None:
    """A list of stages that are lists of layers, as in Swin."""

    def stage() -> nn.Module:
        blocks = (nn.ModuleDict({"attention": nn.Linear(2, 2)}) for _ in range(3))
        return nn.ModuleDict({"blocks": nn.ModuleList(blocks)})

    model = nn.ModuleDict({"stages": nn.ModuleList(stage() for _ in range(2))})
    paths = [path for path, module in model.named_modules() if path.endswith("attention")]
    layers = [
        AttentionLayer("encoder.self", number, path, 0, 1, 1, 2, None)
        for number, path in enumerate(paths)
    ]
    anatomy = Anatomy(tuple(layers))
    assert block_of(model, anatomy, "stages.1.blocks.2.attention") == "stages.1.blocks.2"
    assert block_of(nn.Module(), anatomy, "attention") is None


# ------------------------------------------------------------------ head outputs


@EVERY
def test_head_outputs_are_weights_times_values(name: str) -> None:
    """Against products of the stock model's maps and the values that enter attention."""
    model, anatomy = examined(name)
    outputs, values = Kept(), dict[AttentionLayer, Tensor]()

    class Values:
        def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
            values[layer] = value_BHKD

        def block(self, block: Any) -> None:
            pass

        def end(self, layer: AttentionLayer) -> None:
            pass

    with torch.no_grad():
        with heard(model, anatomy, head_outputs=outputs):
            run(model)
        with Tap(model, anatomy, Values()):
            run(model)
        maps = tiny.attention_maps(model, tiny.inputs(model))
    assert list(outputs) == list(anatomy.layers)
    for layer, output_BQHD in outputs.items():
        expected = (maps[layer.site][layer.layer] @ values[layer]).transpose(1, 2)
        assert output_BQHD.shape[2:] == (layer.num_heads, layer.head_dim)
        # Padding that sees no key gets zeros under sdpa, and a mean of all values under eager
        side = "decoder_" if model.config.is_encoder_decoder and "decoder" in layer.site else ""
        mask = tiny.inputs(model).get(f"{side}attention_mask")
        rows = slice(None) if mask is None else mask.bool()
        torch.testing.assert_close(output_BQHD[rows], expected[rows], rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("name", ["bert", "albert", "marian"])
@pytest.mark.parametrize("outer", [False, True])
def test_head_outputs_without_a_projection(name: str, outer: bool) -> None:
    """Where no projection is known, the attention function is heard; inside a tap, after gates."""
    model, anatomy = examined(name)
    unknown = replace(anatomy, layers=tuple(replace(each, output=None) for each in anatomy.layers))
    gates = {each.layer_id: torch.rand(each.num_heads) for each in anatomy.layers}
    expected, outputs = Kept(), Kept()
    with torch.no_grad(), Tap(model, anatomy, gates=gates if outer else None):
        with heard(model, anatomy, head_outputs=expected):
            run(model)
        with heard(model, unknown, head_outputs=outputs), Tap(model, anatomy):
            run(model)
    for layer, output in expected.items():
        assert torch.equal(outputs[replace(layer, output=None)], output)


# ------------------------------------------------------------------ attention inputs


@EVERY
def test_attention_inputs_are_what_the_module_is_called_with(name: str) -> None:
    model, anatomy = examined(name)
    inputs, given = Kept(), dict[str, list[Tensor]]()
    stack = [
        model.get_submodule(path).register_forward_pre_hook(
            lambda module, args, kwargs, path=path: given.setdefault(path, []).append(
                args[0] if args else kwargs["hidden_states"]
            ),
            with_kwargs=True,
        )
        for path in anatomy.by_module()
    ]
    try:
        with heard(model, anatomy, attention_inputs=inputs):
            loss = total(run(model))
    finally:
        for handle in stack:
            handle.remove()
    assert list(inputs) == list(anatomy.layers)
    stock = [given[layer.module][layer.call] for layer in inputs]
    gradients = torch.autograd.grad(loss, [*inputs.values(), *stock])
    for states, same in zip(
        [*inputs.values(), *gradients], [*stock, *gradients[len(stock) :]], strict=False
    ):
        assert states.ndim == 3 and torch.equal(states, same)


# ------------------------------------------------------------------ gradients, replacements


KINDS = ("head_outputs", "attention_inputs", "hidden_states")


def total(output: Any) -> Tensor:
    logits = output["logits"]
    return (
        logits * torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)
    ).sum()


@EVERY
def test_gradients_of_hidden_states_are_those_of_the_stock_model(name: str) -> None:
    model, anatomy = examined(name)
    states = Kept()
    with heard(model, anatomy, hidden_states=states):
        output = run(model, output_hidden_states=True)
    stock = stock_states(model, output)
    same = [state for state, hidden in states.items() if torch.equal(hidden, stock[state])]
    assert len(same) >= len(stock) - 2
    gradients = torch.autograd.grad(
        total(output), [each[state] for each in (states, stock) for state in same]
    )
    for ours, theirs in zip(gradients, gradients[len(same) :], strict=False):
        assert torch.equal(ours, theirs)


@EVERY
def test_head_outputs_times_their_gradients_are_gradients_of_gates(name: str) -> None:
    model, anatomy = examined(name)
    ones = {each.layer_id: torch.ones(each.num_heads).requires_grad_() for each in anatomy.layers}
    outputs = Kept()
    with Tap(model, anatomy, gates=ones), heard(model, anatomy, head_outputs=outputs):
        loss = total(run(model))
    of_gates = torch.autograd.grad(loss, list(ones.values()), retain_graph=True)
    of_outputs = torch.autograd.grad(loss, list(outputs.values()))
    for gate_H, (output, gradient) in zip(
        of_gates, zip(outputs.values(), of_outputs, strict=True), strict=True
    ):
        torch.testing.assert_close((output * gradient).sum((0, 1, 3)), gate_H, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "albert", "llama", "marian", "t5"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_gradients_exist_and_none_changes_the_model(name: str, kind: str) -> None:
    model, anatomy = examined(name)
    plain = run(model)["logits"]
    states = Kept()
    with heard(model, anatomy, **{kind: states}):
        output = run(model)
    assert torch.equal(output["logits"], plain)
    gradients = torch.autograd.grad(total(output), list(states.values()))
    assert all(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", ["bert", "t5"])
@pytest.mark.parametrize("kind", KINDS)
def test_frozen_models_get_leaves_from_the_listener(name: str, kind: str) -> None:
    model, anatomy = copy.deepcopy(examined(name)[0]).requires_grad_(False), examined(name)[1]
    leaves: list[Tensor] = []

    def leaf(state: Any, heard: Tensor) -> Tensor:
        leaves.append(heard.detach().requires_grad_())
        return leaves[-1]

    with heard(model, anatomy, **{kind: leaf}):
        output = total(run(model))
    gradients = torch.autograd.grad(output, leaves[-1:])
    assert gradients[0].any()


# ------------------------------------------------------------------ no trace


@EVERY
def test_leaves_no_trace(name: str) -> None:
    model, anatomy = examined(name)
    batch = tiny.inputs(model)
    for kind in KINDS:
        with (
            leaving_no_trace(model, batch),
            torch.no_grad(),
            heard(model, anatomy, **{kind: Kept()}),
        ):
            model(**batch)


def _broken(*_: Any) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["bert", "albert", "marian"])
def test_leaves_no_trace_after_an_error(name: str, kind: str) -> None:
    model, anatomy = examined(name)
    batch = tiny.inputs(model)
    unknown = replace(anatomy, layers=tuple(replace(each, output=None) for each in anatomy.layers))
    for known in (anatomy, unknown):
        with (
            leaving_no_trace(model, batch),
            pytest.raises(RuntimeError, match="broken"),
            heard(model, known, **{kind: _broken}),
        ):
            model(**batch)
    states = Kept()
    with torch.no_grad(), heard(model, anatomy, **{kind: states}):
        model(**batch)  # an interrupted forward pass does not shift the count of calls
    assert len(states) == len(state_ids(model, anatomy) if "hidden" in kind else anatomy.layers)


def test_leaves_no_trace_if_it_cannot_begin() -> None:
    model, anatomy = examined("bert")
    outside = replace(anatomy.layers[0], module="bert.embeddings")
    with (
        leaving_no_trace(model, tiny.inputs(model)),
        pytest.raises(
            headcount.ModelError, match=r"bert\.embeddings of BertForMaskedLM is in none"
        ),
        heard(model, Anatomy((*anatomy.layers, outside)), Kept(), Kept(), Kept()),
    ):
        pass


# ------------------------------------------------------------------ any module


def test_a_forward_that_was_hung_on_a_module_is_there_again() -> None:
    """Accelerate wraps it like this if a model is spread over devices."""
    module: Any = nn.Linear(2, 2)
    with replaced(module, "kept"):
        assert module(torch.ones(2)) == "kept"
    assert "forward" not in vars(module)
    module.forward = own = lambda input: -input
    with replaced(module, "kept"):
        assert module(torch.ones(2)) == "kept"
    assert module.forward is own


class Halved(nn.Module):
    def forward(self, states: Tensor, fails: bool = False) -> Tensor:
        if fails:
            raise RuntimeError("broken")
        return states / 2


@pytest.mark.parametrize("call", [lambda module, x: module(x), lambda module, x: module(states=x)])
def test_inputs_and_outputs_are_replaced(call: Callable[[nn.Module, Tensor], Tensor]) -> None:
    module = Halved()
    with intercepted([module], lambda _, given: given + 4, lambda _, output: output * 10):
        assert call(module, torch.tensor(2.0)) == 30
    with intercepted([module], lambda *_: None, lambda *_: None):
        assert call(module, torch.tensor(2.0)) == 1
    assert call(module, torch.tensor(2.0)) == 1


@pytest.mark.parametrize("after_errors", [False, True])
def test_an_error_is_heard_if_wanted(after_errors: bool) -> None:
    module, ends = Halved(), list[Any]()
    with intercepted([module], after=lambda _, out: ends.append(out), after_errors=after_errors):
        with pytest.raises(RuntimeError, match="broken"):
            module(torch.ones(1), fails=True)
    assert ends == [None] * after_errors


# ------------------------------------------------------------------ the one place of hooks


def _registrations(path: Path) -> list[str]:
    """Calls of torch's functions that register hooks, in the code of a file."""
    return [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.attr}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("register_")
        and node.attr.endswith("_hook")
    ]


@pytest.mark.slow
def test_only_the_tap_registers_hooks() -> None:
    """`modeling_headcount.py` is a compact model's own code, which lies in its folder."""
    shipped = (PACKAGE / "data").rglob("modeling_headcount.py")
    allowed = {
        PACKAGE / "models" / "modeling_headcount.py",
        *shipped,
        *(PACKAGE / "tap").rglob("*"),
    }
    found = {path: _registrations(path) for path in PACKAGE.rglob("*.py")}
    assert not [line for path, lines in found.items() if path not in allowed for line in lines]
    assert sum(map(len, found.values())) >= 4
