"""Modes of a model and of its arithmetic while it is looked at, each set back afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

_STOCK_FORWARD = "_original_forward"
"""Attribute where accelerate keeps the forward that it replaced."""


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode inside a block; afterwards every module gets its own mode back.

    A mixed-precision Trainer (bf16, fp16) leaves a casting forward on the model, even after it has
    finished. Inside the block the model computes in the number format of its weights.
    """
    training = [module for module in model.modules() if module.training]
    casting = vars(model).get("forward") if _STOCK_FORWARD in vars(model) else None
    model.eval()
    if casting is not None:
        model.forward = vars(model)[_STOCK_FORWARD]
    try:
        yield
    finally:
        if casting is not None:
            model.forward = casting
        for module in training:
            module.training = True


def without_cache(body: nn.Module) -> dict[str, bool]:
    """The arguments that keep a module from making a cache of keys and values, if it can."""
    return {"use_cache": False} if "use_cache" in signature(body.forward).parameters else {}


_BACKENDS: Any = torch.backends
_PRODUCTS = (
    _BACKENDS.cuda.matmul,
    _BACKENDS.cudnn.conv,
    _BACKENDS.cudnn.rnn,
    _BACKENDS.mkldnn.matmul,
    _BACKENDS.mkldnn.conv,
    _BACKENDS.mkldnn.rnn,
)
"""What computes products of float32 tensors, each with a precision of its own."""


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 tensors in float32 inside a block, also where faster ones are set.

    With `torch.set_float32_matmul_precision("high")`, GPUs round factors to TF32. Two right ways to
    compute the same then differ by 1e-3, which says nothing about the model.
    """
    before = [each.fp32_precision for each in _PRODUCTS]
    if older := _older_flag():
        _BACKENDS.cudnn.allow_tf32 = False
    for each in _PRODUCTS:
        each.fp32_precision = "ieee"
    try:
        yield
    finally:
        if older:
            _BACKENDS.cudnn.allow_tf32 = True
        for each, precision in zip(_PRODUCTS, before, strict=True):
            each.fp32_precision = precision


def product_precision(device: torch.device) -> str | None:
    """The format to which a device rounds factors of float32 (`tf32`, `bf16`); None for none."""
    products = _BACKENDS.cuda.matmul if device.type == "cuda" else _BACKENDS.mkldnn.matmul
    precision = products.fp32_precision
    return precision if precision in ("tf32", "bf16") else None


def _older_flag() -> bool:
    """Whether torch's older flag allows TF32 in cuDNN; it must agree with the newer settings.

    Where it does not, torch refuses to read it, also for models that set `cudnn.flags` (PE Audio).
    """
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return False
