"""Head plan: the part of a compact model's `config.json` that tells a loader about its heads.

    {"version": 1,
     "sha256": hash of `kept`, which ties an artifact to its plan,
     "model": revision of the model that was pruned,
     "heads": {"encoder.self": [5, 5]}, numbers of heads of that model,
     "kept": {"encoder.self": {"0": [0, 3], "1": []}}, its kept heads,
     "layers": {"encoder.self": {"0": {"module": path, "output": path, "head_dim": 11}}},
     "maps": {path: {"kind": "linear", "in": 55, "out": 22, "bias": true}},
     "attributes": {path: {"num_attention_heads": 2}},
     "own_position_bias": [path]}

Paths are relative to `model.base_model`, since a body is loaded with and without its head.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from headcount.compaction.layout import Resized
from headcount.compaction.position_bias import sharing
from headcount.errors import ModelError
from headcount.heads import Heads
from headcount.models.dead import body_path
from headcount.pruning.plan import Plan
from headcount.signature import revision

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
    kept = original(plan, heads, before)
    body = body_path(model)
    paths = [each.layer.module for each in layers]
    attributes = {relative(each.layer.module, body): each.attributes for each in layers}
    own = [relative(path, body) for path in sharing(model, paths)]
    return {
        "version": VERSION,
        "sha256": kept.sha256,
        "model": before.get("model", origin or revision(model)),
        "heads": before.get("heads", {site: list(each) for site, each in heads.counts.items()}),
        "kept": kept.kept_json,
        "layers": before.get("layers") or _layers(layers, body),
        "maps": before.get("maps", {})
        | {relative(path, body): size for path, size in sizes.items()},
        "attributes": before.get("attributes", {}) | attributes,
        "own_position_bias": sorted({*before.get("own_position_bias", []), *own}),
    }


def original(plan: Plan, heads: Heads, before: Mapping[str, Any]) -> Plan:
    """The plan with every layer named, and heads numbered as in the original model."""
    whole = Plan.keeping(heads, plan.staying(heads))
    if not before:
        return whole
    names = Plan.of_kept(before["kept"]).kept
    return Plan(
        dict(names)  # includes sites that this part of the original model lacks
        | {
            site: {
                layer: tuple(names[site][layer][index] for index in kept)
                for layer, kept in layers.items()
            }
            for site, layers in whole.kept.items()
        }
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
