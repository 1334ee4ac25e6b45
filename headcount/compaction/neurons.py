r"""Neurons: where a model's feed-forward networks are, and which rows and columns are a neuron's.

$$y = \sum_i g_i \, a_i(x) \, W_{\mathrm{down}}^i + b$$

A neuron i is a column of the second map, `down`, and whatever rows of earlier maps its activation
a_i is made of: one row of `up`, and one of `gate` in gated networks (SwiGLU). Its gate g_i is 1 by
default; a neuron whose gate is 0 adds nothing, so its rows and its column can be cut out.

There is no table of architectures. In one tiny forward, the graph is cut behind every linear map of
a block outside attention. A map is a `down` if each of its inputs depends on rows that no other
input depends on. Every column has a binary code, and one gradient for each bit and its opposite
tells which rows go with which code, so 1,536 columns need 22 gradients. A norm over all neurons
shows as rows of several columns, and such a network is refused.

Reference: A Fast Post-Training Pruning Framework for Transformers (Kwon et al., 2022), section 3,
https://arxiv.org/abs/2204.09656
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headcount.compaction.layout import Cut
from headcount.compaction.wiring import touched
from headcount.core import InputError, LayerId, ModelError, Plan, amount
from headcount.tap import Anatomy, Tap, block_of, evaluating, intercepted, run_tiny, tiny_inputs


@final
@dataclass(frozen=True, eq=False)
class FeedForward:
    """The feed-forward network of one layer."""

    layer_id: LayerId
    """Its side, such as `encoder.mlp`, and the number of its layer."""
    rows: Mapping[str, Int64[Tensor, " row"]]
    """The neuron that owns each row of a map, or -1, by path of the map."""
    output: str
    """Path of `down`."""
    num_neurons: int


def feed_forwards(
    model: PreTrainedModel, anatomy: Anatomy, inputs: Mapping[str, Tensor] | None = None
) -> list[FeedForward]:
    """The feed-forward network of every layer that has attention, in call order of attention.

    Args:
        model: Model to trace.
        anatomy: Its attention layers.
        inputs: Inputs that these layers were found with; made up if None.

    Raises:
        ModelError: If a layer has none whose neurons can be told apart, or several, or shares it.
    """
    blocks = _blocks(model, anatomy)
    tracer = _Tracer(model, anatomy, blocks)
    with (
        evaluating(model),
        torch.enable_grad(),
        intercepted(tracer.paths, tracer.enter, tracer.leave),
    ):
        run_tiny(model, tiny_inputs(model) if inputs is None else inputs)
    return [_only(tracer.found[block], block, place) for block, place in blocks.items()]


def _blocks(model: PreTrainedModel, anatomy: Anatomy) -> dict[str, LayerId]:
    """The feed-forward network's place by path of the block.

    Raises:
        ModelError: If attention is outside any list of blocks, or layers share one.
    """
    found: dict[str, LayerId] = {}
    for layer in anatomy.layers:
        block = block_of(model, anatomy, layer.module)
        place = LayerId(f"{layer.site.partition('.')[0]}.mlp", layer.layer)
        if block is None:
            raise ModelError(
                f"Expected layers in a list of modules, got {layer.module}, which is in none. "
                "Prune heads alone: leave --neurons out."
            )
        if found.setdefault(block, place) != place:
            raise ModelError(
                f"The model's layers share the feed-forward network in {block}. Removing a neuron "
                "from one layer would remove it from all. Prune heads alone: leave --neurons out."
            )
        _check_no_experts(model, block)
    return found


def _check_no_experts(model: PreTrainedModel, block: str) -> None:
    """Check that no parameter of a block holds the maps of several networks."""
    for path, module in model.get_submodule(block).named_modules():
        if isinstance(module, nn.modules.conv._ConvNd):  # type: ignore[attr-defined]
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.ndim == 3 and parameter.shape[0] > 1:
                raise ModelError(
                    f"Expected one feed-forward network in each layer, got several experts in "
                    f"{block}.{path} ({name} has {parameter.shape[0]}), which see different "
                    "tokens. Prune heads alone: leave --neurons out."
                )


def _only(found: Sequence[FeedForward], block: str, place: LayerId) -> FeedForward:
    """The one network of a block."""
    if not found:
        raise ModelError(
            f"Expected a feed-forward network of linear maps in {block} whose neurons depend on "
            f"rows of their own, found none for layer {place.layer} of {place.site}. Prune heads "
            "alone: leave --neurons out."
        )
    if len(found) > 1:
        raise ModelError(
            f"Expected one feed-forward network in {block}, got {len(found)}: "
            f"{' and '.join(each.output for each in found)}. Prune heads alone: leave --neurons "
            "out."
        )
    return found[0]


@final
class _Tracer:
    """Cuts the graph behind linear maps outside attention, and finds the `down` of each block."""

    def __init__(
        self, model: PreTrainedModel, anatomy: Anatomy, blocks: Mapping[str, LayerId]
    ) -> None:
        attention = tuple(f"{layer.module}." for layer in anatomy.layers)
        outputs = {layer.output for layer in anatomy.layers}
        self.blocks, self.found = blocks, {block: list[FeedForward]() for block in blocks}
        self.paths: dict[nn.Module, tuple[str, str]] = {}
        """Block and path of every map that may be part of a feed-forward network."""
        for path, module in model.named_modules():
            block = next((each for each in blocks if path.startswith(f"{each}.")), None)
            if (
                block is not None
                and isinstance(module, nn.Linear | Conv1D)
                and not path.startswith(attention)
                and path not in outputs
            ):
                self.paths[module] = block, path
        self._behind: dict[str, dict[str, Tensor]] = {block: {} for block in blocks}

    def enter(self, module: nn.Module, given: Tensor) -> None:
        """Look whether a map is the `down` of its block."""
        block, path = self.paths[module]
        if (rows := _owners(given, self._behind[block])) is not None:
            place = self.blocks[block]
            self.found[block].append(FeedForward(place, rows, path, given.shape[-1]))

    def leave(self, module: nn.Module, output: Tensor) -> Tensor:
        """Cut the graph; positive numbers keep every activation from being flat."""
        block, path = self.paths[module]
        cut = torch.rand_like(output, requires_grad=False).add_(0.5).detach().requires_grad_()
        self._behind[block][path] = cut
        return cut.clone()  # a module may change its output in place


def _owners(given: Tensor, behind: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The column that each row feeds, by path; None unless each column has rows of its own."""
    if not behind or not given.requires_grad:
        return None
    size, leaves = given.shape[-1], list(behind.values())
    columns = torch.arange(size, device=given.device)
    owners = {path: torch.zeros(each.shape[-1], dtype=torch.long) for path, each in behind.items()}
    touched = {path: torch.zeros(each.shape[-1], dtype=torch.bool) for path, each in behind.items()}
    for bit in range(max(1, (size - 1).bit_length())):
        has_bit = (columns >> bit & 1).bool()
        with_bit = _touched(given[..., has_bit], leaves)
        without = _touched(given[..., ~has_bit], leaves)
        for path, one_R, zero_R in zip(behind, with_bit, without, strict=True):
            if (one_R & zero_R).any() or (bit and ((one_R | zero_R) != touched[path]).any()):
                return None
            touched[path] = one_R | zero_R
            owners[path] += one_R.long() << bit
    found = {
        path: torch.where(touched[path], owners[path], -1) for path in behind if touched[path].any()
    }
    if not found:
        return None
    each_has_all = all(len(rows[rows >= 0].unique()) == size for rows in found.values())
    return found if each_has_all else None


def _touched(columns: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Rows of each leaf on which some columns depend."""
    found: Sequence[Tensor | None] = [None] * len(leaves)
    if columns.numel():
        found = torch.autograd.grad(columns.sum(), leaves, retain_graph=True, allow_unused=True)
    return [*map(touched, found, leaves)]


def kept_neurons(plan: Plan, layer: FeedForward) -> tuple[int, ...]:
    """Numbers of the neurons that a plan keeps of a layer."""
    site, number = layer.layer_id
    return plan.neurons.get(site, {}).get(number, tuple(range(layer.num_neurons)))


def named_feed_forwards(
    model: PreTrainedModel,
    anatomy: Anatomy,
    plan: Plan,
    inputs: Mapping[str, Tensor] | None = None,
) -> list[FeedForward]:
    """The feed-forward networks that a plan names; none is searched where it names none.

    Raises:
        InputError: If the model lacks a network or a neuron that the plan names.
        ModelError: If neurons of this model can't be pruned.
    """
    if not plan.neurons:
        return []
    layers = {each.layer_id: each for each in feed_forwards(model, anatomy, inputs)}
    named = [LayerId(site, layer) for site, each in plan.neurons.items() for layer in each]
    for place in named:
        if place not in layers:
            raise InputError(
                f"Expected a plan for this model, got one that names layer {place.layer} of "
                f"{place.site}, which it lacks. Name a plan of this model."
            )
        kept = kept_neurons(plan, layers[place])
        if kept and kept[-1] >= layers[place].num_neurons:
            raise InputError(
                f"Expected a plan for this model, whose layer {place.layer} of {place.site} has "
                f"{amount(layers[place].num_neurons, 'neuron')}, got one that names neuron "
                f"{kept[-1]}. Name a plan of this model."
            )
    return [layers[place] for place in layers if place in named]


def cuts_of(model: nn.Module, layer: FeedForward, kept: Sequence[int]) -> list[Cut]:
    """The cuts that leave some neurons of a layer; without any, `down` is its bias."""
    left = kept or (0,)
    inward = {
        path: torch.isin(owners, torch.tensor([-1, *left])).nonzero().flatten()
        for path, owners in layer.rows.items()
    }
    if kept:
        columns = torch.tensor(kept)
        return [Cut(path, rows=rows) for path, rows in inward.items()] + [
            Cut(layer.output, columns=columns)
        ]
    size = Cut(layer.output).of(model)[0]["out"]
    hollow = [Cut(path, rows=rows, constant=len(rows)) for path, rows in inward.items()]
    return [*hollow, Cut(layer.output, constant=size)]


@contextmanager
def neurons_gated(
    model: nn.Module,
    layers: Sequence[FeedForward],
    gates: Mapping[LayerId, Float[Tensor, "*rows neuron"]],
) -> Iterator[None]:
    """Inside, activations of neurons are multiplied by gates before they enter `down`.

    Args:
        model: Any model with these networks.
        layers: The networks; those without gates are unchanged.
        gates: One number for each neuron; or for each row of the batch and neuron.
    """
    gate_of = {
        model.get_submodule(each.output): gates[each.layer_id]
        for each in layers
        if each.layer_id in gates
    }

    def multiply(module: nn.Module, given: Tensor) -> Tensor:
        gate = gate_of[module].to(given)
        if gate.ndim == 2 and given.ndim == 2:  # OPT runs all tokens as one row
            gate = gate.repeat_interleave(len(given) // len(gate), 0)
        return given * (gate[:, None] if gate.ndim < given.ndim and gate.ndim == 2 else gate)

    with intercepted(gate_of, multiply):
        yield


@contextmanager
def plan_gated(
    model: PreTrainedModel, anatomy: Anatomy, plan: Plan, fed: Sequence[FeedForward] | None = None
) -> Iterator[None]:
    """Inside, what a plan prunes is gated to 0: heads and neurons.

    Args:
        model: Model with everything that the plan prunes.
        anatomy: Its attention layers.
        plan: What is kept.
        fed: `named_feed_forwards` of a model like this; searched if None.
    """
    fed = named_feed_forwards(model, anatomy, plan) if fed is None else fed
    gates = dict[LayerId, Tensor]()
    for each in fed:
        gates[each.layer_id] = torch.zeros(each.num_neurons)
        gates[each.layer_id][list(kept_neurons(plan, each))] = 1
    with ExitStack() as stack:
        stack.enter_context(Tap(model, anatomy, gates=plan.gates(anatomy.heads)))
        stack.enter_context(neurons_gated(model, fed, gates))
        yield
