"""Head plan: the part of a compact model's `config.json` that tells a loader about its heads.

    {"version": 1,
     "sha256": hash of `kept`, which ties an artifact to its plan,
     "model": revision of the model that was pruned,
     "heads": {"encoder.self": [5, 5]}, numbers of heads of that model,
     "kept": {"encoder.self": {"0": [0, 3], "1": []}}, its kept heads,
     "neurons": {"encoder.mlp": {"0": [0, 7]}}, its kept neurons where some were pruned,
     "layers": {"encoder.self": {"0": {"module": path, "output": path, "head_dim": 11}}},
     "maps": {path: {"kind": "linear", "in": 55, "out": 22, "bias": true}},
     "attributes": {path: {"num_attention_heads": 2}},
     "own_position_bias": [path],
     "renumbered": names of fields that list heads by the numbers of the compact model, if any,
     "shared": {name: name of the parameter that it is}} if the stock class shares others

Paths are relative to `model.base_model`, since a body is loaded with and without its head. Names
of parameters are complete, since some belong to the head.

Fields of configurations that name heads by number are renumbered with the heads. A field that a
table knows is renumbered when heads are cut out, and pruned heads leave it. Whatever
else in a saved folder looks as if it named heads by number is found by a search, which warns.
Layers are never renumbered, since one that lost all heads keeps its place.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from headcount.compaction.layout import Resized, sharing
from headcount.compaction.neurons import FeedForward, kept_neurons
from headcount.core import (
    Head,
    Heads,
    KeptNumbers,
    LayerId,
    ModelError,
    Plan,
    amount,
    check_accepted,
)
from headcount.models import HEAD_LISTS, RENUMBERED, HeadList, lists_of, revision
from headcount.results import Unlisted
from headcount.tap import Anatomy, body_path

VERSION = 1


def head_plan(
    model: PreTrainedModel,
    heads: Heads,
    plan: Plan,
    layers: Sequence[Resized],
    feed_forwards: Sequence[FeedForward],
    sizes: Mapping[str, dict[str, Any]],
    origin: str | None = None,
) -> dict[str, Any]:
    """The head plan to write.

    Args:
        model: Model to make smaller, which may be a compact one.
        heads: Heads of the model.
        plan: Plan of its kept heads.
        layers: Cuts of its layers.
        feed_forwards: Its networks that lose neurons.
        sizes: Sizes of its maps by path.
        origin: Revision of the model that was pruned, if the weights have changed since.
    """
    before = getattr(model.config, "head_plan", None) or {}
    body = body_path(model)
    now = _layers(layers, body)
    _check_same_names(before.get("layers", {}), now)
    kept = original(plan, heads, before, feed_forwards)
    paths = [each.layer.module for each in layers]
    attributes = {relative(each.layer.module, body): each.attributes for each in layers}
    own = [relative(path, body) for path in sharing(model, paths)]
    lists = sorted({each.name for _, each, _ in lists_of(model)})
    listed = [each for each in lists if not before or each in before.get(RENUMBERED, ())]
    return {
        "version": VERSION,
        "sha256": kept.sha256,
        "model": before.get("model", origin or revision(model)),
        "heads": {site: list(each) for site, each in heads.counts.items()}
        | before.get("heads", {}),
        "kept": kept.kept_json,
        **({"neurons": kept.neurons_json} if kept.neurons else {}),
        "layers": now | before.get("layers", {}),
        "maps": before.get("maps", {})
        | {relative(path, body): size for path, size in sizes.items()},
        "attributes": before.get("attributes", {}) | attributes,
        "own_position_bias": sorted({*before.get("own_position_bias", []), *own}),
    } | ({RENUMBERED: listed} if listed else {})


def original(
    plan: Plan,
    heads: Heads,
    before: Mapping[str, Any],
    feed_forwards: Sequence[FeedForward] = (),
) -> Plan:
    """The plan with every layer named, numbered as in the original model."""
    whole = replace(
        Plan.keeping(heads, plan.kept_heads(heads)),
        neurons=_by_site({each.layer_id: kept_neurons(plan, each) for each in feed_forwards}),
    )
    if not before:
        return whole
    names = Plan.of_kept(before["kept"], before.get("neurons"))
    return Plan(
        _renumbered(whole.kept, names.kept), neurons=_renumbered(whole.neurons, names.neurons)
    )


def _by_site(kept: Mapping[LayerId, tuple[int, ...]]) -> KeptNumbers:
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for (site, layer), numbers in kept.items():
        found.setdefault(site, {})[layer] = numbers
    return found


def _renumbered(whole: KeptNumbers, names: KeptNumbers) -> KeptNumbers:
    """What is kept, by the numbers that a larger model had for it."""
    return dict(names) | {  # includes sites that this part of the original model lacks
        site: dict(names.get(site, {}))
        | {
            layer: tuple(names[site][layer][index] for index in kept)
            if layer in names.get(site, {})  # otherwise the earlier plan saw no image
            else kept
            for layer, kept in layers.items()
        }
        for site, layers in whole.items()
    }


def _check_same_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise an error if a compact model was written when vision layers had the encoder's names."""
    sites = {each["module"]: site for site, layers in now.items() for each in layers.values()}
    for site, layers in before.items():
        for each in layers.values():
            if (found := sites.get(each["module"], site)) != site:
                raise ModelError(
                    f"Expected a compact model with today's names of heads, but {each['module']} "
                    f"is at {found}, and its config.json has it at {site}: an earlier version of "
                    "headcount wrote it. Make the original model smaller again."
                )


def relative(path: str, body: str) -> str:
    """A path relative to the model's body.

    Raises:
        ModelError: If the path is outside the body.
    """
    if not path.startswith(body):
        raise ModelError(
            f"Expected attention inside the model's body ({body[:-1]}), but {path} is outside. "
            "Such a model can be gated but not made smaller."
        )
    return path.removeprefix(body)


def _layers(layers: Sequence[Resized], body: str) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for layer in (each.layer for each in layers):
        assert layer.output is not None
        found.setdefault(layer.site, {})[str(layer.layer)] = {
            "module": relative(layer.module, body),
            "output": relative(layer.output, body),
            "head_dim": layer.head_dim,
        }
    return found


def set_layer_config(
    config: PreTrainedConfig, anatomy: Anatomy, layers: Sequence[Resized], is_ours: bool
) -> None:
    """Add `head_dim` and the layers' numbers of heads to a configuration that can hold them.

    Args:
        config: Configuration of the smaller model, with any rows of the larger one.
        anatomy: Anatomy of the larger model.
        layers: Cuts of its layers.
        is_ours: Whether the larger model is a compact one, whose rows are ours.
    """
    if config.is_heterogeneous and not is_ours:
        return
    config.per_layer_config = None
    sizes = {each.layer.head_dim for each in layers}
    if config.is_encoder_decoder or len(sizes) != 1 or len(anatomy.heads.counts) != 1:
        return
    if not isinstance(getattr(config, "num_attention_heads", None), int):
        return  # Segformer has a number for every stage
    if getattr(config, "num_hidden_layers", None) != len(layers) + len(anatomy.dead):
        return
    if getattr(config, "head_dim", None) is None:
        config.head_dim = sizes.pop()
    rows: dict[int | str, dict[str, Any]] = {
        each.layer.layer: {
            "num_attention_heads": max(1, len(each.kept)),
            "num_key_value_heads": max(1, each.key_value_heads),
        }
        for each in layers
    }
    for site in anatomy.dead:
        rows[site[1]] = {"num_attention_heads": 1, "num_key_value_heads": 1}
    config.allow_global_per_layer_attribute_access = True
    config.per_layer_config = rows


def unlisted(model: PreTrainedModel, heads: Heads, plan: Plan) -> tuple[Unlisted, ...]:
    """Heads that a plan prunes and that a field of a model's configurations lists."""
    found = []
    for _, each, listed in _fields(model):
        kept = set(plan.kept_heads(heads)) & set(listed)
        if gone := [str(head) for head in listed if head not in kept]:
            found.append(Unlisted(each.name, each.serves, tuple(gone), len(kept)))
    return tuple(found)


def check_lists(model: PreTrainedModel, heads: Heads, plan: Plan) -> None:
    """Check that a plan keeps a head of every field that lists some, or that its loss is accepted.

    Raises:
        ConsentError: if it keeps none.
    """
    for each in unlisted(model, heads, plan):
        if not each.left:
            check_accepted(
                f"Expected a plan that keeps some of the {amount(len(each.heads), 'head')} in the "
                f"model's {each.field}, got one that prunes all: there would be no {each.serves}",
                f"Keep one of {', '.join(each.heads)}",
            )


def renumber(smaller: PreTrainedModel, heads: Heads, plan: Plan) -> None:
    """Renumber the fields of a smaller model, which are those of the larger one.

    Pruned heads leave a field; a field without heads is removed, since its readers can't do with an
    empty one.

    Args:
        smaller: the smaller model.
        heads: heads of the larger one.
        plan: plan of the kept heads.
    """
    for holder, each, listed in _fields(smaller):
        kept = set(plan.kept_heads(heads))
        new = [
            [head.layer, plan.of_layer(heads, head.site, head.layer).index(head.index)]
            for head in listed
            if head in kept
        ]
        if new:
            setattr(holder, each.name, new)
        else:
            delattr(holder, each.name)


def _fields(model: PreTrainedModel) -> Iterator[tuple[Any, HeadList, list[Head]]]:
    """The fields that a model has, with what holds each and the heads that it lists."""
    for holder, each, listed in lists_of(model):
        yield holder, each, [Head(each.site, *pair) for pair in listed]


def warn_of_numbers(folder: Path, head_plan: Mapping[str, Any], model_type: str) -> None:
    """Warn of fields in a folder's JSON files that seem to name heads of the larger model.

    Args:
        folder: the folder of a compact model.
        head_plan: the plan in its configuration.
        model_type: type of the model.
    """
    known = {each.name for each in HEAD_LISTS.get(model_type, ())} | _OURS
    counts = [
        layers
        for site, layers in head_plan["heads"].items()
        if sum(layers) > sum(map(len, head_plan["kept"][site].values()))
    ]
    found = []
    for path in sorted(folder.rglob("*.json")):
        if path.name not in _VOCABULARIES:
            value = json.loads(path.read_text(encoding="utf-8"))
            file = path.relative_to(folder).as_posix()
            found += [f"{name} in {file}" for name in _numbered(value, counts, known)]
    if found:
        warnings.warn(
            f"{', '.join(found)}: this looks as if it named heads by number, and it was copied as "
            "it was. If it does, renumber it by `kept` of head_plan in config.json.",
            stacklevel=2,
        )


_OURS = {"head_plan"}
_VOCABULARIES = {"tokenizer.json", "vocab.json", "added_tokens.json"}


def _numbered(
    value: Any, counts: list[list[int]], known: set[str], name: str = ""
) -> Iterator[str]:
    """Names of fields, also nested ones, that look as if they named heads."""
    if name.rpartition(".")[2] in known:
        return
    if isinstance(value, dict):
        if "head" in name and any(_is_by_layer(value, layers) for layers in counts):
            yield name
            return
        for key, each in value.items():
            yield from _numbered(each, counts, known, f"{name}.{key}".removeprefix("."))
    elif isinstance(value, list) and any(_is_list(name, value, layers) for layers in counts):
        yield name or "its list"


def _is_list(name: str, value: list[Any], layers: list[int]) -> bool:
    """Whether a list has pairs of a layer and a head, or something for every head."""
    if not value:
        return False
    if all(isinstance(each, list) for each in value):
        is_pairs = all(len(each) == 2 and _is_head(each, layers) for each in value)
        is_table = [len(each) for each in value] == layers
        return is_pairs or (is_table and all(map(_are_numbers, value)))
    own = name.rpartition(".")[2]
    is_of_heads = "head" in own and not own.startswith("num_")
    return is_of_heads and len(value) in layers and _are_numbers(value)


def _is_by_layer(value: dict[str, Any], layers: list[int]) -> bool:
    """Whether a table has lists of heads by layer, as `pruned_heads` had up to transformers 4."""
    return bool(value) and all(
        key.isdecimal()
        and isinstance(each, list)
        and all(_is_head([int(key), head], layers) for head in each)
        for key, each in value.items()
    )


def _is_head(pair: list[Any], layers: list[int]) -> bool:
    """Whether two values are the numbers of a layer and of one of its heads."""
    if not all(type(each) is int and each >= 0 for each in pair):
        return False
    layer, head = pair
    return layer < len(layers) and head < layers[layer]


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(each, int | float) for each in values)
