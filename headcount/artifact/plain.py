"""Plain: a folder that stock transformers loads, and so does whatever reads stock folders.

If all layers of a compact model have equally many heads and neurons, some configuration of its
stock class may make the same maps: one with fewer heads, an explicit `head_dim` and a smaller
`intermediate_size`. Which fields these are is found by trying: a field that had the old number gets
the new one, the stock class is built without weights, and every tensor's shape and every number
that an attention module keeps must be those of the compact model. BERT has no field for the size of
a head, so that it can only have fewer neurons. No configuration says that parameters are shared
which the class does not share.
"""

from collections.abc import Iterator
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

from headcount.tap import ERRORS

HEADS = ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "num_heads")
KEY_VALUE_HEADS = ("num_key_value_heads",)
NEURONS = (
    "intermediate_size",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "ffn_dim",
    "d_ff",
    "hidden_dim",
    "n_inner",
)
"""Names that configurations have for numbers of heads and neurons."""

OURS = ("auto_map", "per_layer_config", "allow_global_per_layer_attribute_access")
"""Fields of a compact model's configuration that no plain folder has; `head_plan` stays for us."""


def plain_fields(model: PreTrainedModel) -> dict[str, Any] | None:
    """The fields of a stock configuration that makes a compact model; None if there is none.

    Args:
        model: The compact model.
    """
    stock: Any = vars(type(model))["stock_class"]
    plan = model.config.head_plan
    sizes = [size["kind"] for size in plan["maps"].values()]
    if "constant" in sizes or "none" in sizes or "shared" in plan:
        return None
    for fields in _candidates(model.config):
        written = model.config.to_dict()
        plain = {name: value for name, value in written.items() if name not in OURS} | fields
        try:
            config = type(model.config).from_dict(plain)
            with torch.device("meta"), no_init_weights():
                made = stock(config)
        except (*ERRORS, StrictDataclassError):  # a configuration that its class refuses
            continue
        if _is_same(made, model):
            return fields
    return None


def _candidates(config: PreTrainedConfig) -> Iterator[dict[str, Any]]:
    """Fields with the numbers that all layers have, with and without a size of heads."""
    plan, fields = config.head_plan, dict[str, Any]()
    counts = _same(len(kept) for layers in plan["kept"].values() for kept in layers.values())
    whole = _same(number for layers in plan["heads"].values() for number in layers)
    sizes = _same(
        each["head_dim"] for layers in plan["layers"].values() for each in layers.values()
    )
    if counts is None or whole is None or sizes is None:
        return
    neurons = plan.get("neurons", {})
    kept_neurons = _same(len(kept) for layers in neurons.values() for kept in layers.values())
    if neurons and not kept_neurons:
        return
    fields |= {name: counts for name in HEADS if _value(config, name) == whole}
    if kept_neurons is not None:
        fields |= {name: kept_neurons for name in NEURONS if isinstance(_value(config, name), int)}
    key_values = [name for name in KEY_VALUE_HEADS if isinstance(_value(config, name), int)]
    for number in dict.fromkeys((_value(config, "num_key_value_heads"), counts)):
        more = dict.fromkeys(key_values, number)
        yield fields | more | {"head_dim": sizes}
        if counts == whole:
            yield fields | more


def _same(numbers: Iterator[int]) -> int | None:
    """The one number that all are; None if they differ, or there is none."""
    found = set(numbers)
    return found.pop() if len(found) == 1 else None


def _value(config: PreTrainedConfig, name: str) -> Any:
    return getattr(config, name, None)


def _is_same(made: PreTrainedModel, model: PreTrainedModel) -> bool:
    """Whether a stock model has the tensors of a compact one, and attention that counts alike."""
    shapes, expected = (
        {name: each.shape for name, each in one.state_dict().items()} for one in (made, model)
    )
    if shapes != expected:
        return False
    body, attributes = made.base_model, model.config.head_plan["attributes"]
    return all(
        vars(body.get_submodule(path)).get(name) == value
        for path, values in attributes.items()
        for name, value in values.items()
    )
