"""Prunability from its definition: every number of heads, one mask at a time."""

from collections.abc import Sequence

import torch

from headcount.core import Head
from headcount.models import Loaded
from headcount.tap import Tap
from headcount.tasks import Task


def losses(
    loaded: Loaded, task: Task, even_order: Sequence[Head], odd_order: Sequence[Head]
) -> list[float]:
    """The loss after pruning 0, 1, 2 ... heads.

    An example with an even number is without the heads that come first in the order of the examples
    with odd numbers, and the other way round.
    """
    found = []
    for number in range(len(even_order) + 1):
        summed, counted = 0.0, 0
        for parity, order in ((0, odd_order), (1, even_order)):
            gates = {
                layer.layer_id: torch.tensor(
                    [
                        0.0 if Head(*layer.layer_id, head) in order[:number] else 1.0
                        for head in range(layer.num_heads)
                    ]
                )
                for layer in loaded.anatomy.layers
            }
            with Tap(loaded.model, loaded.anatomy, gates=gates), torch.no_grad():
                for batch in task.batches(50):
                    each = task.losses(loaded.model, batch)
                    for place, example in enumerate(batch.index_E.tolist()):
                        if example % 2 == parity:
                            summed += float(each.loss_E[place].double())
                            counted += int(each.count_E[place])
        found.append(summed / counted)
    return found


def share(losses: Sequence[float], within: float) -> float:
    """The largest share of heads up to which every loss is at most that share above the first."""
    number = 0
    while number + 1 < len(losses) and losses[number + 1] <= (1 + within) * losses[0]:
        number += 1
    return number / (len(losses) - 1)
