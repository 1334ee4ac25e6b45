r"""Prunability: how many heads can be pruned before the loss has risen by a stated share.

$$k^* = \max \{k : L_j \le (1 + x) L_0 \text{ for every tried } j \le k\}$$

L_j is the loss without the j least important heads, whose gates are 0. Heads are ranked on one half
of the examples and pruned on the other, both ways; L_j is over all examples. Tried are all tenths of the
heads, as in the paper, then halves of the gap between the last within and the first beyond, so
that k* is exact where L grows with j. The share k* / heads is in [0, 1]. Its interval has k* of
resampled examples, over the same tried numbers.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), sections 4 and 7, https://arxiv.org/abs/1905.10650
Departure: the loss instead of BLEU, which is noisy and costs a search for every number of heads;
the examples that ranked the heads don't measure them.
"""  # noqa: E501

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import MAX_TOKENS, Head, Plan
from headcount.models import Loaded
from headcount.tap import Tap
from headcount.tasks import Evaluation, Task, evaluate

HALVES = (0, 1)
"""The examples with even numbers, and those with odd numbers."""

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
    orders: tuple[Sequence[Head], Sequence[Head]],
    base: Evaluation,
    within: float,
    seed: int = 0,
    max_tokens: int = MAX_TOKENS,
) -> Prunability:
    """How many heads can be pruned if each half of the examples ranks them for the other half.

    Args:
        loaded: the dense model.
        task: the task that defines the loss.
        orders: all heads, the first to prune first: by the examples with even numbers, and by
            those with odd numbers.
        base: the dense model's evaluation.
        within: rise of the loss, as a share of the dense model's, that is accepted.
        seed: seed of the resamples.
        max_tokens: largest number of padded tokens in a batch.
    """
    heads, count = loaded.heads, len(orders[0])
    examples = [half_of(task.num_examples, half) for half in HALVES]
    parts = [task.some(numbers) for numbers in examples]

    def without(number: int) -> Evaluation:
        loss_N, count_N = np.zeros_like(base.loss_N), np.zeros_like(base.count_N)
        for half, (numbers, part) in enumerate(zip(examples, parts, strict=True)):
            order = orders[1 - half]  # of the examples that are not measured here
            gates = Plan.keeping(heads, order[number:]).gates(heads)
            with Tap(loaded.model, loaded.anatomy, gates=gates):
                found = evaluate(loaded.model, part, max_tokens)
            loss_N[numbers], count_N[numbers] = found.loss_N, found.count_N
        return Evaluation(loss_N, count_N, base.outcome_N)

    tried = {0: base} | tried_numbers(count, without, base.loss, within)
    numbers = sorted(tried)
    loss_KN = np.stack([tried[number].loss_N for number in numbers])
    most = most_within(np.array([[tried[k].loss for k in numbers]]), np.array(numbers), within)
    draws = np.random.default_rng(seed)
    num = len(base.loss_N)
    weight_RN = draws.multinomial(num, np.full(num, 1 / num), RESAMPLES)
    loss_RK = (weight_RN @ loss_KN.T) / (weight_RN @ base.count_N)[:, None]
    low, high = np.quantile(most_within(loss_RK, np.array(numbers), within), (0.025, 0.975))
    losses = {number: tried[number].loss for number in numbers}
    share, low, high = (float(each / count) for each in (most[0], low, high))
    return Prunability(share, low, high, losses)


def half_of(num_examples: int, half: int) -> Int[np.ndarray, " example"]:
    """Numbers of the examples in a half.

    >>> half_of(5, 0).tolist(), half_of(5, 1).tolist()
    ([0, 2, 4], [1, 3])
    """
    return np.arange(half, num_examples, 2)


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
