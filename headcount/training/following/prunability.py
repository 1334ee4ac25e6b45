r"""Prunability: how many heads can be pruned before the loss has risen by a stated share.

$$k^* = \max \{k : L_j \le (1 + x) L_0 \text{ for every tried } j \le k\}$$

L_j is the loss without the j least important heads, whose gates are 0. Tried are all tenths of the
heads, as in the paper, then halves of the gap between the last within and the first beyond, so
that k* is exact where L grows with j. The share k* / heads is in [0, 1]. Its interval has k* of
resampled examples, over the same tried numbers.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), sections 4 and 7, https://arxiv.org/abs/1905.10650
Departure: the loss instead of BLEU, which is noisy and costs a search for every number of heads.
"""  # noqa: E501

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, Plan
from headcount.models import Loaded
from headcount.tap import Tap
from headcount.tasks import Evaluation, Task, evaluate

TENTHS = 10
RESAMPLES = 1000

_Without = Callable[[int], Evaluation]
"""Evaluates the model without some number of heads."""


@final
@dataclass(frozen=True, eq=False)
class Prunability:
    """The share of the heads that can be pruned, and what was tried."""

    share: float
    low: float
    """Lower end of the 95 % interval over resampled examples."""
    high: float
    """Upper end of that interval."""
    losses: Mapping[int, float]
    """Loss by number of pruned heads, fewest first."""


def prunability(
    loaded: Loaded,
    task: Task,
    order: Sequence[Head],
    base: Evaluation,
    within: float,
    seed: int = 0,
    max_tokens: int = 4096,
) -> Prunability:
    """How many heads can be pruned in an order.

    Args:
        loaded: the dense model.
        task: the task that defines the loss.
        order: all heads, the first to prune first.
        base: the dense model's evaluation.
        within: rise of the loss, as a share of the dense model's, that is accepted.
        seed: seed of the resamples.
        max_tokens: largest number of padded tokens in a batch.
    """
    heads = loaded.heads

    def without(number: int) -> Evaluation:
        gates = Plan.keeping(heads, order[number:]).gates(heads)
        with Tap(loaded.model, loaded.anatomy, gates=gates):
            return evaluate(loaded.model, task, max_tokens)

    tried = {0: base} | tried_numbers(len(order), without, base.loss, within)
    numbers = sorted(tried)
    loss_KN = np.stack([tried[number].loss_N for number in numbers])
    most = most_within(np.array([[tried[k].loss for k in numbers]]), np.array(numbers), within)
    draws = np.random.default_rng(seed)
    num = len(base.loss_N)
    weight_RN = draws.multinomial(num, np.full(num, 1 / num), RESAMPLES)
    loss_RK = (weight_RN @ loss_KN.T) / (weight_RN @ base.count_N)[:, None]
    low, high = np.quantile(most_within(loss_RK, np.array(numbers), within), (0.025, 0.975))
    losses = {number: tried[number].loss for number in numbers}
    share, low, high = (float(each / len(order)) for each in (most[0], low, high))
    return Prunability(share, low, high, losses)


def tried_numbers(
    heads: int, without: _Without, base: float, within: float
) -> dict[int, Evaluation]:
    """Evaluations at all tenths, and at halves of the gap where the limit is crossed."""
    tenths = sorted({round(heads * tenth / TENTHS) for tenth in range(1, TENTHS + 1)} - {0})
    tried = {number: without(number) for number in tenths}
    limit = (1 + within) * base
    beyond = next((number for number in tenths if not tried[number].loss <= limit), None)
    if beyond is None:
        return tried
    last = max((number for number in tenths if number < beyond), default=0)
    while beyond - last > 1:
        middle = (last + beyond) // 2
        tried[middle] = without(middle)
        if tried[middle].loss <= limit:
            last = middle
        else:
            beyond = middle
    return tried


def most_within(
    loss_RK: Float[np.ndarray, "draw tried"], number_K: Int[np.ndarray, " tried"], within: float
) -> Int[np.ndarray, " draw"]:
    """The largest number up to which every loss is within the limit; the first is of no pruning."""
    is_within_RK = loss_RK <= (1 + within) * loss_RK[:, :1]
    return number_K[np.logical_and.accumulate(is_within_RK, axis=1).sum(1) - 1]
