"""Quantized models: weights that are packed, of which rows can't be cut out.

Packages that pack weights in tensors of their own pass gradients through them, as adapters need.
Torch's own modules pass none.

Copies with random weights, and the number formats of a model's tensors.
"""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.models.spread import laid_out_as
from headcount.tap import check_not_split, is_packed, is_spread

_NAMESPACE = ".quantized."
"""Part of the names of torch's modules that hold packed weights which are no parameters."""


def check_not_quantized(model: PreTrainedModel) -> None:
    """Check that a model's weights are plain numbers, which can be cut and trained.

    Raises:
        ModelError: if some are packed; names the first. If the model is split over processes.
    """
    check_not_split(model, "new weights")
    packed = _first_module(model) or _first_parameter(model)
    if packed is not None:
        raise ModelError(
            f"Expected plain weights, got {_said(model)}: {packed}. Packed weights can't be cut or "
            "trained, so it can be measured and gated, but not made smaller. Load it without "
            "quantization."
        )


def check_passes_gradients(model: PreTrainedModel) -> None:
    """Check that no weight is packed in a module of torch, which passes no gradient.

    Raises:
        ModelError: if some are; names the first.
    """
    packed = _first_module(model)
    if packed is not None:
        raise ModelError(
            f"Expected weights that gradients pass through, got {_said(model)}: {packed}, which "
            "passes none. Score its heads without gradients (ablation, sink), or load it without "
            "quantization."
        )


def check_weights_read(model: PreTrainedModel, what: str) -> None:
    """Check that no weight is packed, for something that computes with single numbers of weights.

    Args:
        model: the model.
        what: what computes with them.

    Raises:
        ModelError: if some are packed; names the first.
    """
    packed = _first_module(model) or _first_parameter(model)
    if packed is not None:
        raise ModelError(
            f"Expected plain weights for {what}, which computes with their single numbers, got "
            f"{_said(model)}: {packed}. Use another score, or load it without quantization."
        )


def _said(model: PreTrainedModel) -> str:
    """The model's class, and what quantized it."""
    config = getattr(model.config, "quantization_config", None)
    method = getattr(config, "quant_method", None)
    by = "" if method is None else f" by {getattr(method, 'value', method)}"
    return f"a {type(model).__name__} quantized{by}"


def _first_module(model: PreTrainedModel) -> str | None:
    """The first of torch's modules that hold packed weights."""
    for name, module in model.named_modules():
        if _NAMESPACE in type(module).__module__:
            return f"{name} is a {type(module).__module__}.{type(module).__name__}"
    return None


def _first_parameter(model: PreTrainedModel) -> str | None:
    """The first parameter that is packed."""
    for name, parameter in model.named_parameters():
        if is_packed(parameter):
            return f"{name} is a {type(parameter).__name__} of {parameter.dtype}"
    return None


def random_copy(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The same class and configurations, newly initialised; global random state is kept.

    Raises:
        ModelError: if the model is split over processes.
    """
    check_not_split(model, "a copy with random weights")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # In the model's number format, except for tables that the class keeps in another
        fresh = type(model)._from_config(copy.deepcopy(model.config), dtype=model.dtype)
    if fresh.can_generate():
        fresh.generation_config = copy.deepcopy(model.generation_config)
    if is_spread(model):
        return laid_out_as(model, fresh, fresh.state_dict().__getitem__).eval()
    return fresh.to(model.device).eval()  # type: ignore[arg-type]


def keep_formats(model: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Convert a model's tensors to the formats of those in a state."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in state:
            tensor.data = tensor.data.to(state[name].dtype)
