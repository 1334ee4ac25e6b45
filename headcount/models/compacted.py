"""Compacted: loading the folder of a compact model, which must hold what its plan says.

A folder may be damaged, or was loaded by others with `ignore_mismatched_sizes` (which draws the
attention's weights at random) and saved again. So the plan's hash is compared with the kept heads,
these with the sizes of the maps, and these with every tensor of the file.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import PreTrainedConfig, PreTrainedModel

from headcount.errors import ModelError
from headcount.heads import SITES
from headcount.models.auto_classes import auto_class
from headcount.models.modeling_headcount import pruned

MODELLING = "modeling_headcount"
"""Of the file in the folder that builds the model, without `.py`."""
_AGAIN = "write the model again with `headcount compact`"


def is_compact(config: PreTrainedConfig) -> bool:
    """Whether a configuration is a compact model's.

    Raises:
        ModelError: for one that lost its `head_plan`, without which nothing fits.
    """
    if getattr(config, "head_plan", None) is not None:
        return True
    if any(MODELLING in str(place) for place in (getattr(config, "auto_map", None) or {}).values()):
        raise ModelError(
            "a compact model's config.json was expected to hold head_plan, which says the heads of "
            f"every layer; it is missing: {_AGAIN}"
        )
    return False


def compact_class(stock: type) -> Any:
    """The class of models with fewer heads that `stock` has with all.

    By its auto class transformers copies the modelling file beside what it saves.
    """
    smaller = pruned(stock)
    smaller._auto_class = auto_class(stock)
    return smaller


def load_compact(
    place: str | Path, stock: type, config: PreTrainedConfig, dtype: str = "auto"
) -> PreTrainedModel:
    """The model of a folder, or hub name, that `save` wrote.

    Raises:
        ModelError: if its plan was changed, or the weights are not the plan's.
    """
    try:
        refuse_other_heads(config.head_plan)
        model, info = compact_class(stock).from_pretrained(
            place, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"head_plan in its config.json is incomplete ({type(error).__name__}: {error}): it was "
            f"changed or cut off; {_AGAIN}"
        ) from error
    except (RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"its weights can't be read ({str(error).splitlines()[0]}): the file is cut off or "
            f"damaged; copy it again, or {_AGAIN}"
        ) from error
    _refuse_other_tensors(info)
    return model


def refuse_random_weights(model: PreTrainedModel) -> None:
    """Let a model pass unless it is a compact one's folder in a class that has all heads.

    Raises:
        ModelError: for one that `ignore_mismatched_sizes` let in: its attention was drawn.
    """
    plan = getattr(model.config, "head_plan", None)
    if plan is None or hasattr(type(model), "stock_class"):
        return
    found = [_has_map(model.base_model, *one) for one in plan.get("maps", {}).items()]
    if not found or not all(found):  # else it is a compact model's body
        raise ModelError(
            f"a compact model's folder was loaded as {type(model).__name__} with all its heads, "
            "whose attention weights are then random (ignore_mismatched_sizes): load it with "
            "headcount.load, or with trust_remote_code=True"
        )


def _has_map(body: Any, path: str, size: Mapping[str, Any]) -> bool:
    """Whether a map is there and as small as the plan says."""
    try:
        weight = getattr(body.get_submodule(path), "weight", None)
    except AttributeError:
        return False
    if size["kind"] in ("none", "constant"):
        return weight is None
    return weight is not None and sorted(weight.shape) == sorted((size["in"], size["out"]))


def kept_sha256(kept: Mapping[str, Mapping[str, list[int]]]) -> str:
    """Hash of the kept heads, in whatever order they were written."""
    ordered = {
        site: {number: kept[site][number] for number in sorted(kept[site], key=int)}
        for site in SITES
        if site in kept
    }
    return hashlib.sha256(json.dumps(ordered).encode()).hexdigest()


def refuse_other_heads(plan: Mapping[str, Any]) -> None:
    """Let a plan pass whose hash is of its heads, and whose output maps have room for these.

    Raises:
        ModelError: for any other.
    """
    found = kept_sha256(plan["kept"])
    if found != plan["sha256"]:
        raise ModelError(
            f"head_plan names heads with hash {found[:12]}, and says that its plan has "
            f"{plan['sha256'][:12]}: it was changed; {_AGAIN}"
        )
    for site, layers in plan["kept"].items():
        for number, kept in layers.items():
            layer = plan["layers"][site][number]
            columns = plan["maps"][layer["output"]].get("in", 0)
            if columns != len(kept) * layer["head_dim"]:
                raise ModelError(
                    f"the plan keeps {len(kept)} heads of {site} layer {number}, and {columns} "
                    f"columns of {layer['output']} instead of {len(kept) * layer['head_dim']}: it "
                    f"was changed; {_AGAIN}"
                )


def _refuse_other_tensors(info: Mapping[str, Any]) -> None:
    if mismatched := sorted(info["mismatched_keys"]):
        name, found, expected = mismatched[0]
        raise ModelError(
            f"its plan wants {name} of shape {tuple(expected)}, and the file holds {tuple(found)}: "
            "the weights are not the plan's (loaded elsewhere with ignore_mismatched_sizes they "
            f"are random); {_AGAIN}"
        )
    for kind, told in (("missing_keys", "holds no"), ("unexpected_keys", "should not hold")):
        if names := sorted(info[kind]):
            raise ModelError(
                f"its file {told} {names[0]}{others(names)}: the weights are not the plan's, or "
                f"the folder is damaged; {_AGAIN}"
            )


def others(names: list[str]) -> str:
    """How many names there are behind the first, to print."""
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
