"""Head plan: the part of a compact model's `config.json` that tells a loader about its heads.

    {"version": 1,
     "sha256": hash of `kept`, which ties an artifact to its plan,
     "model": revision of the model that was pruned,
     "heads": {"encoder.self": [5, 5]}, numbers of heads of that model,
     "kept": {"encoder.self": {"0": [0, 3], "1": []}}, its kept heads,
     "layers": {"encoder.self": {"0": {"module": path, "output": path, "head_dim": 11}}},
     "maps": {path: {"kind": "linear", "in": 55, "out": 22, "bias": true}},
     "attributes": {path: {"num_attention_heads": 2}},
     "own_position_bias": [path],
     "renumbered": names of fields that list heads by the numbers of the compact model, if any,
     "shared": {name: name of the parameter that it is}} if the stock class shares others

Paths are relative to `model.base_model`, since a body is loaded with and without its head. Names
of parameters are complete, since some belong to the head.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from headcount.compaction.layout import Resized, sharing
from headcount.core import Heads, ModelError, Plan
from headcount.models import RENUMBERED, lists_of, revision
from headcount.tap import Anatomy, body_path

VERSION = 1


def head_plan(
    model: PreTrainedModel,
    heads: Heads,
    plan: Plan,
    layers: Sequence[Resized],
    sizes: Mapping[str, dict[str, Any]],
    origin: str | None = None,
) -> dict[str, Any]:
    """The head plan to write.

    Args:
        model: Model to make smaller, which may be a compact one.
        heads: Heads of the model.
        plan: Plan of its kept heads.
        layers: Cuts of its layers.
        sizes: Sizes of its maps by path.
        origin: Revision of the model that was pruned, if the weights have changed since.
    """
    before = getattr(model.config, "head_plan", None) or {}
    body = body_path(model)
    now = _layers(layers, body)
    _check_same_names(before.get("layers", {}), now)
    kept = original(plan, heads, before)
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
        "layers": now | before.get("layers", {}),
        "maps": before.get("maps", {})
        | {relative(path, body): size for path, size in sizes.items()},
        "attributes": before.get("attributes", {}) | attributes,
        "own_position_bias": sorted({*before.get("own_position_bias", []), *own}),
    } | ({RENUMBERED: listed} if listed else {})


def original(plan: Plan, heads: Heads, before: Mapping[str, Any]) -> Plan:
    """The plan with every layer named, and heads numbered as in the original model."""
    whole = Plan.keeping(heads, plan.kept_heads(heads))
    if not before:
        return whole
    names = Plan.of_kept(before["kept"]).kept
    return Plan(
        dict(names)  # includes sites that this part of the original model lacks
        | {
            site: {
                layer: tuple(names[site][layer][index] for index in kept)
                if site in names  # otherwise the earlier plan saw no image
                else kept
                for layer, kept in layers.items()
            }
            for site, layers in whole.kept.items()
        }
    )


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
