"""Groups: which key/value groups of a model can stream, and whether a plan is one of that model."""

from collections.abc import Iterable

from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from headcount.cache.plan import RECENT, SINK, CachePlan, Group
from headcount.core import InputError, ModelError, amount
from headcount.models import check_revision, max_length, revision
from headcount.tap import Anatomy, AnyModel, AttentionLayer, check_not_split, examined

SITE = "decoder.self"
"""The only site of a model whose cache can stream."""


def plan_for_cache(
    model: AnyModel,
    streaming: Iterable[tuple[int, int]],
    sink: int = SINK,
    recent: int = RECENT,
    anatomy: Anatomy | None = None,
) -> CachePlan:
    """The plan under which some groups of this very model stream, with its revision.

    Args:
        model: a transformers model, or what `load` returns.
        streaming: the groups that stream, as (layer, index); all others keep all keys.
        sink: number of first tokens whose keys a streaming group keeps.
        recent: number of last tokens whose keys it keeps.
        anatomy: the result of an earlier `examine(model)`; examined now if None.

    Raises:
        InputError: for a group that the model lacks, or that can't stream.
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    chosen = {Group(*each) for each in streaming}
    if lacking := sorted(chosen - set(groups_of(anatomy))):
        raise InputError(
            f"Expected key/value groups of this model, which has {_grid(anatomy)}, got "
            f"{tuple(lacking[0])}. Name groups as (layer, index), from 0."
        )
    full = tuple(
        tuple(Group(number, index) not in chosen for index in range(count))
        for number, count in enumerate(group_counts(anatomy))
    )
    plan = CachePlan(full, sink, recent, revision(whole))
    check_cache_plan(plan, whole, anatomy)
    return plan


def group_counts(anatomy: Anatomy) -> tuple[int, ...]:
    """The number of key/value groups of each layer of `decoder.self`; 0 for dead layers."""
    found = {each.layer: each.num_key_value_heads for each in layers_of(anatomy)}
    return tuple(found.get(layer, 0) for layer in range(len(anatomy.heads.counts.get(SITE, ()))))


def groups_of(anatomy: Anatomy) -> tuple[Group, ...]:
    """All key/value groups of a model, in order."""
    return tuple(
        Group(layer, index)
        for layer, count in enumerate(group_counts(anatomy))
        for index in range(count)
    )


def layers_of(anatomy: Anatomy) -> list[AttentionLayer]:
    """The layers whose groups a plan names."""
    return [each for each in anatomy.layers if each.site == SITE]


def streamable(model: AnyModel, anatomy: Anatomy | None = None) -> tuple[Group, ...]:
    """The groups that keep all keys now, so that they could stream, in order.

    Raises:
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    check_can_stream(whole, anatomy)
    return tuple(
        Group(layer.layer, index)
        for layer in layers_of(anatomy)
        if not _why_not(whole, layer)
        for index in range(layer.num_key_value_heads)
    )


def check_cache_plan(plan: CachePlan, model: PreTrainedModel, anatomy: Anatomy) -> None:
    """Check that a plan is one of a model, and that its groups can stream there.

    Raises:
        InputError: for a plan of another model, of groups that can't stream, or whose window is
            longer than the model's context.
        ModelError: for a model whose cache can't stream.
    """
    check_can_stream(model, anatomy)
    check_revision(plan.model, model)
    if tuple(map(len, plan.full)) != group_counts(anatomy):
        raise InputError(
            f"Expected a plan of this model, which has {_grid(anatomy)}, got one of "
            f"{_counts(list(map(len, plan.full)))}. Name the plan of this model."
        )
    for layer in layers_of(anatomy):
        if not all(plan.full[layer.layer]) and (why := _why_not(model, layer)):
            raise InputError(
                f"Expected groups that keep all keys now to stream, got some of layer "
                f"{layer.layer}, which {why}. Let its groups be full in the plan."
            )
    longest = max_length(model, None)
    if plan.streaming and longest is not None and plan.sink + plan.recent >= longest:
        raise InputError(
            f"Expected fewer first and last tokens than the {longest} of this model's context, got "
            f"{plan.sink} + {plan.recent}: streaming groups would keep all keys. Lower `recent`."
        )


def check_can_stream(model: PreTrainedModel, anatomy: Anatomy) -> None:
    """Check that groups of a model can keep some keys only.

    Raises:
        ModelError: if they can't; says why.
    """
    check_not_split(model, "a cache that streams")
    kind, layers = type(model).__name__, layers_of(anatomy)
    own = [each.module for each in layers if each.by_own_softmax]
    why = None
    if model.config.is_encoder_decoder:
        why = "an encoder-decoder, whose keys of the source are read by every target token"
    elif not layers:
        why = "a model without decoder.self, which keeps no keys"
    elif any(each.has_learned_sink for each in layers):
        why = "one whose heads have a sink that is no key (a learned logit), as gpt-oss"
    elif own:
        why = f"one whose {own[0]} takes a softmax of its own, past the attention interface"
    elif anatomy.eager or getattr(model.config.get_text_config(), "attn_logit_softcapping", None):
        why = "one with attention that only its own eager function computes"
    if why:
        raise ModelError(
            f"Expected a decoder with a cache of keys that torch's fused attention reads, got "
            f"{kind}, {why}. Its cache can't stream."
        )


def _why_not(model: PreTrainedModel, layer: AttentionLayer) -> str | None:
    """Why no group of a layer can stream; None if they can."""
    number = cache_index(model, layer)
    held = DynamicCache(config=model.config).layers
    own = held[number] if number is not None and number < len(held) else None
    if own is None:
        return "has no cache of its own"
    if getattr(own, "is_sliding", False):
        window = getattr(own, "sliding_window", None)
        return f"streams already: it keeps the last {amount(int(window or 0), 'token')}"
    return None if type(own) is DynamicLayer else f"keeps a {type(own).__name__}, not keys alone"


def cache_index(model: PreTrainedModel, layer: AttentionLayer) -> int | None:
    """The number under which a layer's module finds its keys in a transformers cache."""
    return getattr(model.get_submodule(layer.module), "layer_idx", None)


def _grid(anatomy: Anatomy) -> str:
    return _counts(list(group_counts(anatomy)))


def _counts(counts: list[int]) -> str:
    """A number of groups by layer, in words."""
    each = str(counts[0]) if len(set(counts)) == 1 else "/".join(map(str, counts))
    return f"{amount(len(counts), 'layer')} x {each} key/value groups"
