"""Hooks: functions that hear what enters and leaves modules, and leave no trace afterwards."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

from torch import Tensor, nn

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
