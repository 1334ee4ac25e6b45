r"""Compact: make a smaller model that computes what the gated model computes.

$$\sum_{h \in K} A_h V_h W_O^h + b = \sum_h g_h A_h V_h W_O^h + b, \qquad g_h = [h \in K]$$

A head that is gated to zero adds nothing, so its rows of the query, key and value maps and its
columns of the output projection can be removed. The two models are compared before the smaller one
is returned.

A compact model's trained weights can be copied back into the dense model. This way a pruned model
trains at the cost of its smaller size: pruned heads get no gradient anyway. After restoring, they
have their old weights behind gates of zero.

Departure: a step of Muon depends on the larger side of a map, which is smaller in a compact model
if heads or fused maps are wider than the model. Other steps equal those of the gated model.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

from headcount.compaction.equality import check_equal
from headcount.compaction.head_plan import head_plan, relative, renumber, set_layer_config
from headcount.compaction.layout import Cut, Resized, biased, check_prunable_layers, resized
from headcount.compaction.neurons import FeedForward, cuts_of, kept_neurons, named_feed_forwards
from headcount.compaction.stock import check_plain, check_rebuilt, check_shared, removed, shared
from headcount.compaction.wiring import wire
from headcount.core import InputError, ModelError, Plan
from headcount.models import (
    GATES,
    Loaded,
    check_not_quantized,
    check_plan,
    check_whole,
    compact_class,
    empty_like,
    is_compact,
    keep_formats,
    laid_out_as,
)
from headcount.tap import Anatomy, body_path, examine, is_spread, weights_of


def compact(
    model: PreTrainedModel | Loaded, plan: Plan, origin: str | None = None
) -> PreTrainedModel:
    """A new model without what the plan prunes; the given model is not changed.

    Args:
        model: Transformers model whose attention goes through the attention interface, or the
            result of `load`; it may be a compact one.
        plan: Kept heads, by their numbers in this model.
        origin: Revision of the model that heads were chosen in, if its weights were trained since;
            the artifact names it.

    Raises:
        InputError: If the plan is for another model, or leaves key/value groups uneven.
        ModelError: If the model can't be made smaller exactly; the message says why.
    """
    if not isinstance(plan, Plan):
        raise InputError(
            f"Expected a plan, as Plan({{'encoder.self': {{0: (1, 3)}}}}) or Plan.read(path) "
            f"makes, got a {type(plan).__name__}."
        )
    given = model.model if isinstance(model, Loaded) else model
    anatomy = model.anatomy if isinstance(model, Loaded) else examine(given)
    _check_not_gated(given)
    check_not_quantized(given)
    check_plan(plan, given, anatomy)
    _check_same_sizes(plan, anatomy)
    _check_no_adapter(given)
    check_prunable_layers(anatomy)
    inputs = model.inputs if isinstance(model, Loaded) else None
    parts = parts_of(given, anatomy, plan, inputs)
    smaller = _built(given, anatomy, plan, parts, origin)
    try:
        check_equal(given, anatomy, plan, smaller, inputs)
    except ModelError:
        _check_unchanged(given, anatomy, inputs)
        raise
    return smaller


def _check_no_adapter(model: PreTrainedModel) -> None:
    """Check that no module is wrapped by an adapter, whose part of a head can't be cut out."""
    for path, module in model.named_modules():
        if isinstance(getattr(module, "base_layer", None), nn.Module):
            raise ModelError(
                f"Expected a model without adapters, got {path}, which is wrapped by a "
                f"{type(module).__module__}.{type(module).__name__}. Merge them first "
                "(`merge_and_unload()` of PEFT). Until then it can be gated but not made smaller."
            )


def _check_unchanged(
    model: PreTrainedModel, anatomy: Anatomy, inputs: Mapping[str, Tensor] | None
) -> None:
    """Raise an error if a new model of the same class with the same weights differs."""
    everything = Plan({})
    parts = parts_of(model, anatomy, everything, inputs)
    same = _built(model, anatomy, everything, parts, None)
    try:
        check_equal(model, anatomy, everything, same, inputs)
    except ModelError as error:
        kind = type(same).__name__
        raise ModelError(
            f"Expected a model that its class and configuration rebuild, but it differs from a new "
            f"{kind} with the same weights and all heads: after it was made, a hook was added, or "
            "a module or a setting was replaced. Undo this, or gate the model instead."
        ) from error


def _check_not_gated(model: PreTrainedModel) -> None:
    if GATES in dict(model.named_children()):
        raise InputError(
            "Expected a model without gates, but this one is in a gating block. Leave the block, "
            "then compact it."
        )


def _check_same_sizes(plan: Plan, anatomy: Anatomy) -> None:
    sizes = {each.head_dim for each in anatomy.layers}
    if plan.head_dim is not None and sizes != {plan.head_dim}:
        raise InputError(
            f"Expected heads of size {plan.head_dim}, as in the plan, got "
            f"{' or '.join(map(str, sorted(sizes)))}. The plan is for another model."
        )


def layers_of(
    model: PreTrainedModel,
    anatomy: Anatomy,
    plan: Plan,
    inputs: Mapping[str, Tensor] | None = None,
) -> list[Resized]:
    """Every attention layer, cut to the heads that the plan keeps."""
    outputs = [each.output for each in anatomy.layers if each.output is not None]
    check_plain(model, [*outputs, *(each.module for each in anatomy.layers)])
    kept = [plan.of_layer(anatomy.heads, each.site, each.layer) for each in anatomy.layers]
    wirings = wire(model, anatomy, inputs)
    return biased(model, [resized(model, *pair) for pair in zip(wirings, kept, strict=True)])


@final
@dataclass(frozen=True)
class Parts:
    """What is cut of a model to fit a plan."""

    layers: list[Resized]
    """Every attention layer."""
    feed_forwards: list[FeedForward]
    """The feed-forward networks that lose neurons."""
    cuts: list[Cut]
    """The cuts of both."""


def parts_of(
    model: PreTrainedModel,
    anatomy: Anatomy,
    plan: Plan,
    inputs: Mapping[str, Tensor] | None = None,
) -> Parts:
    """What is cut of a model.

    Raises:
        InputError: If the plan names a neuron that the model lacks.
        ModelError: If neurons of this model can't be pruned.
    """
    layers = layers_of(model, anatomy, plan, inputs)
    fed = named_feed_forwards(model, anatomy, plan, inputs)
    check_plain(model, [path for each in fed for path in (*each.rows, each.output)])
    cuts = [one for each in layers for one in each.cuts]
    for each in fed:
        cuts += cuts_of(model, each, kept_neurons(plan, each))
    return Parts(layers, fed, cuts)


def _built(
    model: PreTrainedModel,
    anatomy: Anatomy,
    plan: Plan,
    parts: Parts,
    origin: str | None,
) -> PreTrainedModel:
    """The stock class's model with smaller maps, filled with the weights that are kept."""
    layers = parts.layers
    cut = {one.path: one.of(model) for one in parts.cuts}
    config = copy.deepcopy(model.config)
    config.head_plan = head_plan(
        model,
        anatomy.heads,
        plan,
        layers=layers,
        feed_forwards=parts.feed_forwards,
        sizes={path: size for path, (size, _) in cut.items()},
        origin=origin,
    )
    set_layer_config(config, anatomy, layers, is_compact(model.config))
    smaller = _empty(model, config)
    read = partial(_read, model, {one.path: one for one in parts.cuts})
    state = _weights(model, {path: tensors for path, (_, tensors) in cut.items()})
    body = body_path(model)
    if none := [path for path in removed(model, smaller, state) if path.startswith(body)]:
        maps = {relative(path, body): {"kind": "none"} for path in none}
        config.head_plan = {**config.head_plan, "maps": config.head_plan["maps"] | maps}
        smaller = _empty(model, config)
    check_rebuilt(model, smaller, state)
    if (again := shared(smaller, model)) is not None:
        check_shared(again, read)
        config.head_plan = {**config.head_plan, "shared": again}
        smaller = _empty(model, config)
    smaller = _filled(smaller, model, state, read)
    _keep_frozen(smaller, model, parts.cuts)
    if smaller.can_generate():
        smaller.generation_config = copy.deepcopy(model.generation_config)
    renumber(smaller, anatomy.heads, plan)
    return smaller.train(model.training)


def _empty(model: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    """The model that a configuration with a head plan makes, before it has weights."""
    stock = vars(type(model)).get("stock_class", type(model))
    try:
        with no_init_weights(), empty_like(model):
            smaller = compact_class(stock)._from_config(config, dtype=model.dtype)
    except TypeError as error:
        raise ModelError(
            f"Expected a class that is made from a configuration alone, got {stock.__name__} "
            f"({error}). Let the configuration say all that the class needs. Otherwise the model "
            "can be gated but not made smaller."
        ) from error
    if not is_spread(model):
        smaller.to(model.device)
    smaller.tie_weights()  # building without initial weights skips this
    return smaller


def _weights(model: PreTrainedModel, cut: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The weights that are kept, by name; of those that are away, the shapes."""
    state = model.state_dict()
    for path, tensors in cut.items():
        for name in ("weight", "bias"):
            state.pop(f"{path}.{name}", None)
        state.update({f"{path}.{name}": tensor for name, tensor in tensors.items()})
    return state


def _read(model: PreTrainedModel, cuts: Mapping[str, Cut], name: str) -> Tensor:
    """The numbers that are kept of one weight."""
    path, _, kind = name.rpartition(".")
    if path in cuts:
        return cuts[path].of(model, weights_of)[1][kind]
    return weights_of(model.get_submodule(path))[kind].detach()


def _filled(
    smaller: PreTrainedModel,
    model: PreTrainedModel,
    state: Mapping[str, Tensor],
    read: Callable[[str], Tensor],
) -> PreTrainedModel:
    """The smaller model with its weights and buffers, on the devices of the model."""
    keep_formats(smaller, state)
    if is_spread(model):
        for name, buffer in model.named_buffers():
            path, _, kind = name.rpartition(".")
            setattr(smaller.get_submodule(path), kind, buffer.clone())
        return laid_out_as(model, smaller, read)
    smaller.load_state_dict(state)
    with torch.no_grad():  # buffers that a checkpoint does not hold
        for name, buffer in model.named_buffers():
            smaller.get_buffer(name).data = buffer.clone()  # its shape may have grown
    return smaller


def _keep_frozen(smaller: PreTrainedModel, model: PreTrainedModel, cuts: Sequence[Cut]) -> None:
    """Freeze the parameters whose weights come from frozen ones, and no others."""
    named = model.named_parameters(remove_duplicate=False)
    learned = {name: each.requires_grad for name, each in named}
    sources = {one.path: one.source or one.path for one in cuts}
    for name, parameter in smaller.named_parameters():
        path, _, kind = name.rpartition(".")
        parameter.requires_grad_(learned[f"{sources.get(path, path)}.{kind}".removeprefix(".")])


def restorable(loaded: Loaded, plan: Plan) -> Loaded | None:
    """The compact model if `restored` can copy its trained weights back; else None.

    It can't if there is no exact compact model, or if layers get their own copies of a table that
    they shared before (T5's position bias).

    Args:
        loaded: The dense model.
        plan: Plan of its kept heads, made for any weights.

    Raises:
        InputError: If the plan does not fit the model.
    """
    fitting = replace(plan, model=None)
    try:
        check_prunable_layers(loaded.anatomy)
        if any(cut.source not in (None, cut.path) for cut in _cuts(loaded, fitting)):
            return None
        return replace(loaded, model=compact(loaded, fitting), inputs=None)
    except ModelError:
        return None


def restored(loaded: Loaded, plan: Plan, smaller: Loaded) -> Loaded:
    """A copy of the dense model that has the weights of the compact one.

    Args:
        loaded: The dense model.
        plan: Plan of its kept heads.
        smaller: Result of `restorable` for the same plan, with trained weights.

    Raises:
        ModelError: If the gated copy does not compute what the compact model computes.
    """
    check_whole(loaded.model, "trained weights to go back into it")
    model = copy.deepcopy(loaded.model).eval()
    cuts = _cuts(loaded, plan)
    own = tuple(f"{cut.path}." for cut in cuts)
    here = model.state_dict()
    with torch.no_grad():
        for cut in cuts:
            cut.restore(model, smaller.model)
        for name, tensor in smaller.model.state_dict().items():
            if not name.startswith(own):
                here[name].copy_(tensor)
    check_equal(model, loaded.anatomy, plan, smaller.model, loaded.inputs)
    return replace(loaded, model=model, inputs=None)


def _cuts(loaded: Loaded, plan: Plan) -> list[Cut]:
    return parts_of(loaded.model, loaded.anatomy, plan, loaded.inputs).cuts
