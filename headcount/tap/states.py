r"""States: hear, change or replace what flows through a model, with no trace afterwards.

$$x_l \;\to\; a_l = \text{what attention reads}, \qquad
o_{l,h} = A_h V_h, \qquad x_{l+1} = \text{what block } l \text{ returns}$$

`heard` passes three kinds of states of any layer to listeners, whatever the architecture: head
outputs (what enters the output projection, by head), attention inputs and hidden states. A listener
receives the tensor that the model goes on to use, so gradients with respect to it exist wherever
the model's graph does. What a listener returns, unless None, takes its place.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, final

from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import LayerId, ModelError
from headcount.tap.anatomy import Anatomy, AttentionLayer, CallOrder
from headcount.tap.changes import intercepted
from headcount.tap.placement import head_group
from headcount.tap.tap import Tap, tap_on


@final
@dataclass(frozen=True)
class StateId:
    """Where a hidden state is: the side of the model, and the number of blocks before it."""

    side: Literal["encoder", "decoder", "vision"]
    depth: int
    """0 for what enters the first block, n for what block n returns, as in transformers'
    `hidden_states`. The last state is the one before the model's final norm."""


HeadOutputListener = Callable[
    [AttentionLayer, Float[Tensor, "batch query head dim"]],
    Float[Tensor, "batch query head dim"] | None,
]
"""Receives the outputs of a layer's heads, after gates."""

AttentionInputListener = Callable[
    [AttentionLayer, Float[Tensor, "batch query width"]],
    Float[Tensor, "batch query width"] | None,
]
"""Receives the hidden states that enter an attention module: in cross-attention the queries'."""

HiddenStateListener = Callable[
    [StateId, Float[Tensor, "batch token width"]],
    Float[Tensor, "batch token width"] | None,
]
"""Receives the hidden states between blocks."""


@contextmanager
def heard(
    model: PreTrainedModel,
    anatomy: Anatomy,
    head_outputs: HeadOutputListener | None = None,
    attention_inputs: AttentionInputListener | None = None,
    hidden_states: HiddenStateListener | None = None,
) -> Iterator[None]:
    """Inside, every forward pass sends the states of its layers to listeners, in call order.

    Listeners are called while the model runs, so a corpus can be streamed batch by batch; whatever
    a listener does not keep is freed. Under gradient checkpointing they are called again in the
    backward pass. A model that runs all tokens as one row (some image models) has batch size 1.

    Args:
        model: any model that `examine` accepts.
        anatomy: the result of `examine(model)`.
        head_outputs: listener for what enters the output projection W_O, by head. Where no
            projection was found, it hears what the attention function returned.
        attention_inputs: listener for the hidden states that enter the attention modules.
        hidden_states: listener for the hidden states between blocks.

    Raises:
        ModelError: if hidden states are to be heard and attention lies outside any list of blocks.
    """
    with ExitStack() as stack:
        if head_outputs is not None:
            stack.enter_context(_head_outputs(model, anatomy, head_outputs))
        if attention_inputs is not None:
            stack.enter_context(_attention_inputs(model, anatomy, attention_inputs))
        if hidden_states is not None:
            stack.enter_context(_hidden_states(model, anatomy, hidden_states))
        yield


def block_of(model: nn.Module, anatomy: Anatomy, path: str) -> str | None:
    """Path of the block that an attention module belongs to; None if it is outside any block.

    A block is the outermost entry of a list of modules with no other attention of the same site.
    So a stage of several layers is not a block, but a decoder layer with cross-attention is.
    """
    names = path.split(".")
    for end in range(1, len(names)):
        if isinstance(model.get_submodule(".".join(names[:end])), nn.ModuleList | nn.Sequential):
            block = ".".join(names[: end + 1])
            inside = {
                (layer.site, layer.module)
                for layer in anatomy.layers
                if f"{layer.module}.".startswith(f"{block}.")
            }
            if len(inside) == len({site for site, _ in inside}):
                return block
    return None


def state_ids(model: PreTrainedModel, anatomy: Anatomy) -> list[StateId]:
    """Every hidden state that `heard` reports, in call order.

    Raises:
        ModelError: if attention lies outside any list of blocks.
    """
    returned = [state for ids in _blocks(model, anatomy).values() for state in ids]
    entering = {StateId(state.side, 0) for state in returned}
    return sorted({*returned, *entering}, key=lambda state: (state.side == "decoder", state.depth))


@contextmanager
def _head_outputs(
    model: PreTrainedModel, anatomy: Anatomy, listener: HeadOutputListener
) -> Iterator[None]:
    order, projected = CallOrder(model), dict[nn.Module, list[AttentionLayer]]()
    group = head_group(model)
    without: dict[LayerId, AttentionLayer] = {}
    for layer in anatomy.layers:
        if layer.output is None:
            without[layer.layer_id] = layer
        else:
            projected.setdefault(model.get_submodule(layer.output), []).append(layer)

    def before(projection: nn.Module, given: Tensor) -> Tensor | None:
        layer = order.next(projection, projected[projection])
        rows = _in_rows(given).unflatten(-1, (-1, layer.head_dim))
        if group is None:
            return _answer(given, rows, listener(layer, rows))
        rows = group.all(rows, 2)
        answer = _answer(rows, rows, listener(layer, rows))
        return None if answer is None else group.own(answer, 2).reshape(given.shape)

    def returned(layer: AttentionLayer, output: Tensor) -> Tensor | None:
        unprojected = without.get(layer.layer_id)
        return None if unprojected is None else listener(unprojected, output)

    with ExitStack() as stack:
        stack.enter_context(order.counting())
        stack.enter_context(intercepted(projected, before))
        if without:
            tap = tap_on(model) or stack.enter_context(Tap(model, anatomy))
            stack.enter_context(tap.returning(returned))
        yield


@contextmanager
def _attention_inputs(
    model: PreTrainedModel, anatomy: Anatomy, listener: AttentionInputListener
) -> Iterator[None]:
    order = CallOrder(model)
    layers = {model.get_submodule(path): each for path, each in anatomy.by_module().items()}

    def before(module: nn.Module, given: Tensor) -> Tensor | None:
        rows = _in_rows(given)
        return _answer(given, rows, listener(order.next(module, layers[module]), rows))

    with order.counting(), intercepted(layers, before):
        yield


@contextmanager
def _hidden_states(
    model: PreTrainedModel, anatomy: Anatomy, listener: HiddenStateListener
) -> Iterator[None]:
    blocks = {model.get_submodule(path): ids for path, ids in _blocks(model, anatomy).items()}
    order, current = CallOrder(model), dict[nn.Module, StateId]()

    def before(block: nn.Module, given: Tensor) -> Tensor | None:
        current[block] = state = order.next(block, blocks[block])
        if state.depth > 1:
            return None
        rows = _in_rows(given)
        return _answer(given, rows, listener(StateId(state.side, 0), rows))

    def after(block: nn.Module, output: Any) -> Any:
        is_tuple = isinstance(output, tuple | list)
        given = output[0] if is_tuple else output
        rows = _in_rows(given)
        new = _answer(given, rows, listener(current[block], rows))
        return type(output)([new, *output[1:]]) if is_tuple and new is not None else new

    with order.counting(), intercepted(blocks, before, after):
        yield


def _blocks(model: PreTrainedModel, anatomy: Anatomy) -> dict[str, list[StateId]]:
    """The hidden states that every block returns, in the order of its calls."""
    calls = [(layer.site, layer.module, layer.call) for layer in anatomy.layers]
    if anatomy.dead:  # in a compact model no layers share a module
        position = {path: number for number, (path, _) in enumerate(model.named_modules())}
        calls += [(site, path, 0) for (site, _), path in anatomy.dead.items()]
        calls.sort(key=lambda call: position[call[1]])
    found: dict[str, list[StateId]] = {}
    depths = {"encoder": 0, "decoder": 0, "vision": 0}
    seen: set[tuple[str, int]] = set()
    for site, path, call in calls:
        block = block_of(model, anatomy, path)
        if block is None:
            raise ModelError(
                f"Expected attention inside a list of layers, but {path} of "
                f"{type(model).__name__} is in none, so it is unknown which hidden states are its "
                "layer's."
            )
        if (block, call) not in seen:
            seen.add((block, call))
            side: Any = site.partition(".")[0] if site != "decoder.cross" else "decoder"
            depths[side] += 1
            found.setdefault(block, []).append(StateId(side, depths[side]))
    return found


def _in_rows(given: Tensor) -> Float[Tensor, "batch token width"]:
    """A state with one axis of rows and one of tokens."""
    if given.ndim == 3:
        return given
    return given[None] if given.ndim == 2 else given.flatten(1, -2)


def _answer(given: Tensor, heard: Tensor, new: Tensor | None) -> Tensor | None:
    """The tensor that the model continues with; None if nothing changes.

    Where there is a graph, it is the one that was heard, so that it has a gradient.
    """
    if new is None and (heard is given or not heard.requires_grad):
        return None
    return (heard if new is None else new).reshape(given.shape)
