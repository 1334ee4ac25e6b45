r"""Fisher: heads whose gates carry the least Fisher information are pruned first.

$$F_h = \frac{1}{N} \sum_x \left( \frac{\partial L(x)}{\partial g_h} \right)^2$$

L(x) is the summed loss of one example, g_h the head's gate at 1, N the number of examples. To
second order around a converged model, the loss rises by half the sum of F over the pruned heads. So
the heads with the least F are pruned, with all layers on one scale. The unit is the square of the
task's unit of loss.

Reference: A Fast Post-Training Pruning Framework for Transformers (Kwon et al., 2022), section 4.1
(the diagonal Fisher information of masks), https://arxiv.org/abs/2204.09656
Departure: only heads are pruned, under a budget of heads instead of FLOPs. The paper's later steps
(rearranging within layers by blocks, tuning the kept gates) are not part of the score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from headcount.core import LayerId
from headcount.importance import Scores, frozen, gate_gradients
from headcount.pruning.budget import Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import FisherOptions
from headcount.tap import evaluating


@final
@dataclass(frozen=True)
class Fisher(FisherOptions, Stepwise):
    """Prunes in ascending order of the diagonal Fisher information of the gates."""

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """The diagonal Fisher information of every head's gate."""
        model, task, anatomy = (
            context.loaded.model,
            context.scored(self.name),
            context.loaded.anatomy,
        )
        sums: dict[LayerId, Tensor] = {}
        with evaluating(model), frozen(model):
            for batch in task.batches(context.max_tokens):
                gradients, _ = gate_gradients(model, task, anatomy, batch.to(model.device))
                for place, gradient_EH in gradients.items():
                    part_H = gradient_EH.square().sum(0).cpu()
                    sums[place] = sums.get(place, torch.zeros_like(part_H)) + part_H
        return {place: sum_H / task.num_examples for place, sum_H in sums.items()}
