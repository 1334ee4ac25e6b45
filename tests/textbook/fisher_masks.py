"""Fisher information of one mask by definition: the loss of each example, with the mask moved."""

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import Tensor


def slope(loss_of: Callable[[float], Tensor], step: float = 1e-4) -> Tensor:
    """Central difference of every example's loss around a mask of 1."""
    return (loss_of(1 + step) - loss_of(1 - step)) / (2 * step)


def loss_to_second_order(slope_EU: Tensor, pruned: Sequence[int]) -> float:
    """Mean square over examples of the sum of the pruned units' slopes."""
    total = 0.0
    for example in slope_EU.tolist():
        total += sum(example[unit] for unit in pruned) ** 2
    return total / len(slope_EU)


def best_of_all(slope_EU: Tensor, number: int) -> float:
    """The smallest such loss of any choice of as many units."""
    units = range(slope_EU.shape[1])
    return min(loss_to_second_order(slope_EU, each) for each in combinations(units, number))


def columns(model: torch.nn.Module, path: str, neuron: int, factor: float) -> Callable[[], None]:
    """Scale what a neuron of a linear map writes; returns what undoes it."""
    weight = model.get_submodule(path).get_parameter("weight")
    before = weight.detach().clone()
    with torch.no_grad():
        weight[:, neuron] *= factor

    def undo() -> None:
        with torch.no_grad():
            weight.copy_(before)

    return undo
