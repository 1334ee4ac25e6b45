"""Compacted: loading the folder of a compact model and checking it against its plan.

A folder may be damaged, or someone may have loaded it with `ignore_mismatched_sizes` (which draws
the attention's weights at random) and saved it again. So the plan's hash is compared with the kept
heads, the kept heads with the sizes of the maps, and the sizes with every tensor of the file.
"""

import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from headcount.core import Heads, InputError, ModelError, Plan, amount, kept_sha256, reason
from headcount.models import modeling_headcount
from headcount.models.modeling_headcount import pruned
from headcount.results import Certificate


def auto_classes(config_class: type) -> dict[str, type]:
    """Every auto class that knows a configuration, with the model class it uses for it."""
    found = {}
    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None and config_class in mapping:
            classes = mapping[config_class]
            found[name] = classes[0] if isinstance(classes, tuple) else classes
    return found


def auto_class(stock: Any) -> str | None:
    """The auto class that loads a class; None if each that knows its configuration loads others."""
    known = auto_classes(stock.config_class) or {AutoModel.__name__: stock}
    found = [name for name, taken in known.items() if taken is stock]
    return found[-1] if found else None  # the earlier ones load a body, or pretraining models


MODELLING = "modeling_headcount"
"""Name, without `.py`, of the file in the folder that builds the model."""
_AGAIN = "write the model again with `headcount compact`"


def is_compact(config: PreTrainedConfig) -> bool:
    """Whether a configuration is that of a compact model.

    Raises:
        ModelError: if it lost its `head_plan`, without which nothing fits.
    """
    if getattr(config, "head_plan", None) is not None:
        return True
    if any(MODELLING in str(place) for place in (getattr(config, "auto_map", None) or {}).values()):
        raise ModelError(
            "Expected head_plan, which lists the heads of every layer, in a compact model's "
            f"config.json, but it is missing: {_AGAIN}"
        )
    return False


def compact_class(stock: type) -> Any:
    """The class of models that have fewer heads than `stock`.

    Its auto class makes transformers copy the modelling file along with what it saves.
    """
    smaller = pruned(stock)
    smaller._auto_class = auto_class(stock)
    return smaller


def load_compact(
    place: str | Path,
    stock: type,
    config: PreTrainedConfig,
    dtype: str = "auto",
    more: Mapping[str, Any] | None = None,
) -> PreTrainedModel:
    """Load the model of a folder, or hub name, that `save` wrote.

    Args:
        place: The folder or name.
        stock: Class of the dense model.
        config: The model's configuration.
        dtype: Number format of the weights.
        more: Further arguments of transformers' `from_pretrained`.

    Raises:
        ModelError: if its plan was changed, or the weights do not match the plan.
    """
    try:
        check_plan_hash(config.head_plan)
        model, info = compact_class(stock).from_pretrained(
            place,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **(more or {}),
        )
    except (KeyError, TypeError, AttributeError) as error:
        if not _is_of_plan(error):
            raise
        raise ModelError(
            f"head_plan in its config.json is incomplete ({type(error).__name__}: {error}): it was "
            f"changed or truncated; {_AGAIN}"
        ) from error
    except (RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"its weights can't be read ({reason(error)}): the file is truncated or "
            f"damaged; copy it again, or {_AGAIN}"
        ) from error
    _check_tensors(info)
    return model


def _is_of_plan(error: Exception) -> bool:
    """Whether an error was raised while the plan was read, not anywhere in transformers."""
    readers = {check_plan_hash.__name__, modeling_headcount.shrink.__name__}
    return any(frame.name in readers for frame in traceback.extract_tb(error.__traceback__))


def check_plan_hash(plan: Mapping[str, Any]) -> None:
    """Check that a plan's hash matches its heads, and its output maps have room for these.

    Raises:
        ModelError: if not.
    """
    found = kept_sha256(plan["kept"], plan.get("neurons"))
    if found != plan["sha256"]:
        raise ModelError(
            f"head_plan names heads with hash {found[:12]}, but gives the hash of its plan as "
            f"{plan['sha256'][:12]}: it was changed; {_AGAIN}"
        )
    for site, layers in plan["kept"].items():
        for number, kept in layers.items():
            layer = plan["layers"][site][number]
            columns = plan["maps"][layer["output"]].get("in", 0)
            if columns != len(kept) * layer["head_dim"]:
                raise ModelError(
                    f"the plan keeps {amount(len(kept), 'head')} of {site} layer {number}, but "
                    f"{amount(columns, 'column')} of {layer['output']} instead of "
                    f"{len(kept) * layer['head_dim']}: it was changed; {_AGAIN}"
                )


def check_plan_file(folder: Path, plan: Mapping[str, Any]) -> None:
    """Check that the plan.json and the certificate in a compact model's folder are of its heads.

    Args:
        folder: Folder of a compact model, in which both may be missing.
        plan: The `head_plan` of its configuration.

    Raises:
        InputError: If one is of another model, or can't be read.
    """
    certificate = None
    if (folder / Certificate.FILE).exists():
        with suppress(InputError):  # a damaged certificate does not hold, and `load` warns
            certificate = Certificate.read(folder)
    if certificate is not None and certificate.plan_sha256 != plan["sha256"]:
        raise ModelError(_other(folder / Certificate.FILE))
    recorded = None if certificate is None else certificate.plan_file_sha256
    if not (path := folder / "plan.json").exists():
        return
    found = Plan.read(path)
    is_right = _is_of(found, plan) if recorded is None else found.sha256 == recorded
    if not is_right:
        raise ModelError(_other(path))


def _is_of(found: Plan, plan: Mapping[str, Any]) -> bool:
    """Whether a plan may be that of a `head_plan`, in a folder of an earlier version.

    A plan for a model that was compact before numbers the heads of that model.
    """
    heads = Heads({site: tuple(each) for site, each in plan["heads"].items()})
    try:
        every = replace(Plan.keeping(heads, found.kept_heads(heads)), neurons=found.neurons)
    except InputError:
        return False
    same_heads = every.sha256 == plan["sha256"]
    return same_heads or _sizes(every.kept_json) == _sizes(plan["kept"])


def _sizes(kept: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The number of kept heads in every layer."""
    return {
        site: {layer: len(heads) for layer, heads in layers.items()}
        for site, layers in kept.items()
    }


def _other(path: Path) -> str:
    return (
        f"Expected {path.name} of the heads that config.json beside it names, but {path} is of "
        f"another model. Copy the folder again, or {_AGAIN}"
    )


def _check_tensors(info: Mapping[str, Any]) -> None:
    if mismatched := sorted(info["mismatched_keys"]):
        name, found, expected = mismatched[0]
        raise ModelError(
            f"its plan needs {name} of shape {tuple(expected)}, but the file holds {tuple(found)}: "
            "the weights do not match the plan (if loaded elsewhere with ignore_mismatched_sizes, "
            f"they are random); {_AGAIN}"
        )
    for kind, reported in (("missing_keys", "holds no"), ("unexpected_keys", "should not hold")):
        if names := sorted(info[kind]):
            raise ModelError(
                f"its file {reported} {names[0]}{others(names)}: the weights do not match the "
                f"plan, or the folder is damaged; {_AGAIN}"
            )


def others(names: list[str]) -> str:
    """Number of further names after the first, as text."""
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def modelling_text() -> str:
    """The text of the modelling file that goes into a compact model's folder."""
    return Path(str(modeling_headcount.__file__)).read_text(encoding="utf-8")
