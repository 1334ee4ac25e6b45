"""Dropout rates: those of a model, in place of which a training may want another."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from torch import nn
from torch.nn.modules.dropout import _DropoutNd


@final
@dataclass(frozen=True)
class Rate:
    """Where a model has a rate above 0."""

    module: nn.Module
    name: str
    """Of the module's attribute."""
    value: float


def rates(model: nn.Module) -> list[Rate]:
    """All rates above 0 that a model applies; those of attention weights are among them."""
    return [
        Rate(module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, float) and value > 0
        if "dropout" in name or (name == "p" and isinstance(module, _DropoutNd))
    ]


@contextmanager
def at_rate(model: nn.Module, rate: float | None) -> Iterator[None]:
    """In the block every rate of `rates` is this one; None leaves them as they are."""
    own = [] if rate is None else rates(model)
    try:
        for each in own:
            setattr(each.module, each.name, rate)
        yield
    finally:
        for each in own:
            setattr(each.module, each.name, each.value)
