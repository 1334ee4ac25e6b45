"""Neurons by definition: a network is run neuron by neuron, and one that is pruned adds nothing."""

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn


def rows_that_matter(network: Callable[[Sequence[Tensor]], Tensor], maps: Sequence[Tensor]) -> dict:
    """For each row of some maps' outputs, the activations that change when the row alone does.

    Args:
        network: Makes the activations of one token from the outputs of the maps.
        maps: Outputs of the maps for one token.
    """
    before, found = network(maps), {}
    for number, output in enumerate(maps):
        for row in range(len(output)):
            changed = [each.clone() for each in maps]
            changed[number][row] += 0.25
            moved = (network(changed) - before).abs() > 0
            found[number, row] = moved.nonzero().flatten().tolist()
    return found


def silence(down: nn.Module, pruned: Collection[int], inputs_first: bool) -> None:
    """Set what pruned neurons write to zero."""
    with torch.no_grad():
        for neuron in pruned:
            weight = down.get_parameter("weight")
            (weight if inputs_first else weight.T)[neuron] = 0
