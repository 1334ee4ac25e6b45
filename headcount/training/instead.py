"""Functions of torch that others take the place of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from torch.overrides import TorchFunctionMode


@final
class Instead(TorchFunctionMode):
    """A context in which other functions are called in place of some of torch's.

    Args:
        functions: what is called, by the function that it replaces, which it may call itself.
    """

    def __init__(self, functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._functions = functions

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        return self._functions.get(func, func)(*args, **(kwargs or {}))
