"""Hooks: functions that hear what enters and leaves modules, and leave no trace afterwards.

Modes of a model and of its arithmetic while it is looked at, each set back afterwards.

A context hears every call of a function of torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

Before = Callable[[nn.Module, Any], Any]
"""Receives a module and its first input (None without inputs); returns another, or None."""

After = Callable[[nn.Module, Any], Any]
"""Receives a module and its output; returns another, or None."""


@contextmanager
def intercepted(
    modules: Iterable[nn.Module],
    before: Before | None = None,
    after: After | None = None,
    after_errors: bool = False,
) -> Iterator[None]:
    """Inside, modules pass their first input to `before` and their output to `after`.

    Args:
        modules: the modules; none of them should occur twice.
        before: called before a module runs. What it returns, unless None, is the new first input.
        after: called after a module has run. What it returns, unless None, is the new output.
        after_errors: whether `after` is called for a module that raised an error, with None.
    """
    with ExitStack() as stack:
        for module in modules:
            if before is not None:
                hook = _before_hook(module, before)
                handle = module.register_forward_pre_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
            if after is not None:
                handle = module.register_forward_hook(_after_hook(after), always_call=after_errors)
                stack.callback(handle.remove)
        yield


@contextmanager
def arguments_heard(
    modules: Iterable[nn.Module],
    hear: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None],
) -> Iterator[None]:
    """Inside, modules pass all of their arguments to `hear` before they run."""
    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_pre_hook(hear, with_kwargs=True).remove)
        yield


@contextmanager
def replaced(module: nn.Module, output: Any) -> Iterator[None]:
    """Inside, a module does not run: its forward only returns a given output."""
    before = vars(module).get("forward")  # accelerate sets its own there
    module.forward = lambda *args, **kwargs: output
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


def on_gradient(tensor: Tensor, reduce: Callable[[Tensor], None]) -> None:
    """Call a function once with the gradient of a tensor, when a backward pass reaches it."""
    tensor.register_hook(reduce)


def _before_hook(module: nn.Module, before: Before) -> Any:
    """A hook that finds a module's first input among positional and named ones."""
    first = next(iter(signature(module.forward).parameters), "")

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        new = before(module, args[0] if args else kwargs.get(first))
        if new is None:
            return None
        return ((new, *args[1:]), kwargs) if args else (args, kwargs | {first: new})

    return hook


def _after_hook(after: After) -> Any:
    return lambda module, inputs, output: after(module, output)


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


class TorchCalls(TorchFunctionMode, ABC):
    """A context inside which `call` decides what every call of a function of torch returns."""

    @abstractmethod
    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function of torch, or something in its place; no call in here passes through."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        return self.call(func, tuple(args), kwargs or {})
