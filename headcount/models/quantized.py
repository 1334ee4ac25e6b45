"""Quantized models: weights that are packed, of which rows can't be cut out."""

from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.tap import is_packed

_NAMESPACE = ".quantized."
"""Part of the names of torch's modules that hold packed weights which are no parameters."""


def check_not_quantized(model: PreTrainedModel) -> None:
    """Check that a model's weights are plain numbers, which can be cut and trained.

    Raises:
        ModelError: if some are packed; names the first.
    """
    packed = _first_packed(model)
    if packed is None:
        return
    config = getattr(model.config, "quantization_config", None)
    method = getattr(config, "quant_method", None)
    by = "" if method is None else f" by {getattr(method, 'value', method)}"
    raise ModelError(
        f"Expected plain weights, got a {type(model).__name__} quantized{by}: {packed}. Packed "
        "weights can't be cut or trained, so it can be measured and gated, but not made smaller. "
        "Load it without quantization."
    )


def _first_packed(model: PreTrainedModel) -> str | None:
    for name, module in model.named_modules():
        if _NAMESPACE in type(module).__module__:
            return f"{name} is a {type(module).__module__}.{type(module).__name__}"
    for name, parameter in model.named_parameters():
        if is_packed(parameter):
            return f"{name} is a {type(parameter).__name__} of {parameter.dtype}"
    return None
