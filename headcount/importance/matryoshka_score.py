r"""Matryoshka attribution: one score a head, so that the best k heads of any k do the task.

Each step draws a number k of heads, log-uniformly from 1 to N, and opens gates that add up to k,

$$z_h = \sigma\Big(\frac{s_h - \tau}{T}\Big), \qquad \sum_h z_h = k$$

with T = .5 and tau by bisection, through which the gradient flows. A head then outputs
z o + (1 - z) o', o what it computes from what reaches it, o' its mean output over the task's
queries. What a step lowers is the squared distance from the loss with all heads,

$$\mathrm{mean}_e \big(L_e(z) - L_e(1)\big)^2$$

L_e the loss of example e by term; so heads that do better than all heads are no better. Adam, which
does not mind the scale, follows the gradient at rate .05, from scores of 0. Each example of a step
draws its k from another part of the range.

Reference: Matryoshka attribution (2026), https://arxiv.org/abs/2609.25518
Departure: k is drawn log-uniformly, which sharpens small sets, the distance is of losses, not of
    distributions, and means take the place of a second prompt's outputs, which
    a task lacks; `headcount explain` has them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcount import tap, tasks
from headcount.core import MAX_TOKENS
from headcount.importance.choices import MatryoshkaOptions
from headcount.importance.score import Score, score_column

if TYPE_CHECKING:
    from headcount.importance.gradients import Scores


def matryoshka(
    model: "tap.AnyModel",
    task: "tasks.Task",
    steps: int = MatryoshkaOptions.steps,
    step_examples: int = MatryoshkaOptions.step_examples,
    anatomy: "tap.Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """How early every head belongs to the best heads of a task, of any number.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        steps: Number of steps of learning.
        step_examples: Number of examples in a step.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Raises:
        InputError: For an option out of its range.
    """
    from headcount.importance.nested_gates import nested_scores  # only here: it needs torch

    options = MatryoshkaOptions(steps, step_examples)
    return nested_scores(model, task, options, anatomy, max_tokens)


@dataclass(frozen=True)
class MatryoshkaScore(MatryoshkaOptions, Score):
    """How early a head belongs to the best heads, by scores that are learned for all numbers."""

    name = "matryoshka"
    column = score_column(
        "matryoshka_mean",
        "matryoshka score",
        "how early it belongs to the best heads, where the others output their means",
        "Matryoshka attribution, 2026, arXiv:2609.25518",
        has_signs=True,
    )
    definition = (
        "One score for each head, learned so that the best k heads of any number k do the task as "
        "all heads do, while the others output their means. The scale is arbitrary: only the order "
        "and the distances between heads count."
    )
    needs_gradients = True
    is_learned = True
    measure = staticmethod(matryoshka)
