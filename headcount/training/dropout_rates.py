"""Dropout rates of a model, and a context that replaces them during training."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from torch import nn
from torch.nn.modules.dropout import _DropoutNd


@final
@dataclass(frozen=True)
class Rate:
    """A dropout rate above 0, and where the model has it."""

    module: nn.Module
    name: str
    """Name of the module's attribute."""
    value: float


def rates(model: nn.Module) -> list[Rate]:
    """All dropout rates above 0 that a model applies, including those of attention weights."""
    return [
        Rate(module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, float) and value > 0
        if "dropout" in name or (name == "p" and isinstance(module, _DropoutNd))
    ]


@contextmanager
def at_rate(model: nn.Module, rate: float | None) -> Iterator[None]:
    """Set every rate of `rates` to this one within the block; None leaves them unchanged."""
    own = [] if rate is None else rates(model)
    try:
        for each in own:
            setattr(each.module, each.name, rate)
        yield
    finally:
        for each in own:
            setattr(each.module, each.name, each.value)
