"""Groups: which key/value groups of a model can stream, and whether a plan is one of that model."""

from collections.abc import Collection

from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from headcount.cache.holding import SITE, Held, Holding, holding_of
from headcount.cache.plan import CachePlan, Group
from headcount.core import InputError, ModelError, amount
from headcount.models import check_revision, max_length
from headcount.tap import Anatomy, AnyModel, check_not_split, examined


def groups_of(holding: Holding) -> tuple[Group, ...]:
    """All key/value groups that a model's cache holds, in order."""
    return tuple(
        Group(layer, index) for layer, count in enumerate(holding.counts) for index in range(count)
    )


def plan_where(
    holding: Holding, streaming: Collection[Group], sink: int, recent: int, model: str | None = None
) -> CachePlan:
    """The plan by which some of the groups that are held stream."""
    full = tuple(
        tuple(Group(layer, index) not in streaming for index in range(count))
        for layer, count in enumerate(holding.counts)
    )
    return CachePlan(full, sink, recent, model)


def streamable(model: AnyModel, anatomy: Anatomy | None = None) -> tuple[Group, ...]:
    """The groups that keep all keys now, so that they could stream, in order.

    Where a cache holds latents, all heads of a layer are one group. Layers that read the keys of
    another layer have none: they stream as that one does.

    Raises:
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    check_can_stream(whole, anatomy)
    return tuple(
        Group(each.layer.layer, index)
        for each in holding_of(whole, anatomy).layers
        if not why_not(whole, each)
        for index in range(each.num_groups)
    )


def able_in_words(model: AnyModel, anatomy: Anatomy | None = None) -> str:
    """How many groups can stream, and why those of some layers can't.

    Raises:
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    able, holding = streamable(whole, anatomy), holding_of(whole, anatomy)
    layers = dict[str, list[str]]()
    for each in holding.layers:
        if why := why_not(whole, each):
            layers.setdefault(why, []).append(str(each.layer.layer))
    number = amount(len(groups_of(holding)), "key/value group")
    found = f"{len(able)} of {number} can stream (headcount cache)"
    for why, some in layers.items():
        found += f"; {'layer' if len(some) == 1 else 'each of the layers'} {', '.join(some)} {why}"
    return found


def check_cache_plan(plan: CachePlan, model: PreTrainedModel, anatomy: Anatomy) -> None:
    """Check that a plan is one of a model, and that its groups can stream there.

    Raises:
        InputError: for a plan of another model, of groups that can't stream, or whose window is
            longer than the model's context.
        ModelError: for a model whose cache can't stream.
    """
    check_can_stream(model, anatomy)
    check_revision(plan.model, model)
    holding = holding_of(model, anatomy)
    if tuple(map(len, plan.full)) != holding.counts:
        raise InputError(
            f"Expected a plan of this model, which has {grid(holding)}, got one of "
            f"{_counts(list(map(len, plan.full)))}. Name the plan of this model."
        )
    for each in holding.layers:
        number = each.layer.layer
        if not all(plan.full[number]) and (why := why_not(model, each)):
            raise InputError(
                f"Expected groups that keep all keys now to stream, got some of layer {number}, "
                f"which {why}. Let its groups be full in the plan."
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
    kind = type(model).__name__
    layers = [each for each in anatomy.layers if each.site == SITE]
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


def why_not(model: PreTrainedModel, held: Held) -> str | None:
    """Why no group of a layer can stream, such as "keeps the last 512 tokens"; None if they can."""
    layers, number = DynamicCache(config=model.config).layers, held.number
    own = layers[number] if number is not None and number < len(layers) else None
    if own is None:
        return "has no cache of its own"
    if getattr(own, "is_sliding", False):
        window = getattr(own, "sliding_window", None)
        return f"keeps the last {amount(int(window or 0), 'token')}"
    return None if type(own) is DynamicLayer else f"keeps a {type(own).__name__}, not keys alone"


def grid(holding: Holding) -> str:
    """The groups of a model, in words."""
    return _counts(list(holding.counts))


def _counts(counts: list[int]) -> str:
    """A number of groups by layer, in words."""
    each = str(counts[0]) if len(set(counts)) == 1 else "/".join(map(str, counts))
    return f"{amount(len(counts), 'layer')} x {each} key/value groups"
