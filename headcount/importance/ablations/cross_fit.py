"""Cross-fitting: the best of several ablations, measured on examples that did not choose it.

The best of many ablations looks better than it is on the examples that chose it. So the examples
are split into two halves by a seed. Each half chooses, and the choice is measured on the other
half. The measured halves together are one evaluation of all examples.

Reference: the split of Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 3.3,
    https://arxiv.org/abs/1905.10650, which chooses on other data; halves that change places:
    Chernozhukov et al. (2018), section 1, https://arxiv.org/abs/1608.00060
"""  # noqa: E501

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int

from headcount.importance.choices import DeltaOf
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True, eq=False)
class CrossFit:
    """The best of several ablations."""

    best: int
    """Number of the ablation that does best on all examples."""
    halves: tuple[int, int]
    """Numbers of those that do best on each half."""
    evaluation: Evaluation
    """The results on every example under the choice of the half that it is not in."""


def halves(num_examples: int, seed: int) -> tuple[Int[np.ndarray, " half"], ...]:
    """Numbers of the examples of two halves, drawn by a seed, in the order of the data."""
    order_N = np.random.default_rng(seed).permutation(num_examples)
    return tuple(np.sort(order_N[start::2]) for start in (0, 1))


def cross_fit(
    task: Task, choices: Sequence[Evaluation], quantity: DeltaOf = "loss", seed: int = 0
) -> CrossFit:
    """Choose the best ablation on each half of the examples, and measure it on the other half.

    Args:
        task: Task with two examples or more, which defines the score and its direction.
        choices: Evaluations under the ablations to choose from.
        quantity: Whether the lowest loss or the best score is best.
        seed: Seed of the split.
    """
    num = len(choices[0].loss_N)
    assert num > 1, "one example can't choose and measure"

    def chosen(index_S: Int[np.ndarray, " some"]) -> int:
        if quantity == "loss":
            worth = [-float(each.loss_N[index_S].sum()) for each in choices]
        else:
            sign = 1 if task.higher_is_better else -1
            worth = [sign * task.score(each, index_S) for each in choices]
        # A rank correlation of equal numbers does not exist
        return int(np.argmax(np.nan_to_num(worth, nan=-np.inf)))

    both = halves(num, seed)
    one, other = (chosen(index_S) for index_S in both)
    is_first_N = np.isin(np.arange(num), both[0])
    first, second = choices[other], choices[one]

    def mixed(name: str) -> np.ndarray:
        one, other = getattr(first, name), getattr(second, name)
        return np.where(is_first_N.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    evaluation = Evaluation(mixed("loss_N"), first.count_N, mixed("outcome_N"))
    return CrossFit(chosen(np.arange(num)), (one, other), evaluation)
