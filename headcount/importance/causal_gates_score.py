r"""Causal gates: which heads a task needs, and which are in its way, by gates that are trained.

$$g = \sigma(w), \qquad \min_w \; L(g) - \lambda \, \mathrm{mean}_h \, \mathrm{clamp}(w_h, -4, 4)$$

L is the mean over examples of an example's loss by term, with every head's output multiplied by its
gate; the model's weights are frozen. Gates start at random and are first trained with lambda = 0.
From there, training with lambda > 0, which rewards open gates, gives g+, and with lambda < 0, which
rewards closed ones, g-. A head is *facilitating* as far as it stays open although closing is
rewarded, g-; *interfering* as far as it stays closed although opening is rewarded, 1 - g+; and
*irrelevant* as far as it follows the reward, g+ (1 - g-). The score is facilitating minus
interfering, in [-1, 1].

Reference: Causal Head Gating (Nam et al., 2025), section 3, https://arxiv.org/abs/2505.13737
Departure: several sets of gates are trained on each of two halves of the examples, and a quarter of
them trains nothing. Numbers are means over the sets, and gradients are clipped set by set. The
documentation of the authors' package explains the two rewards the other way round; its loss is the
one above.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcount import models, numbers, tap, tasks
from headcount.core import MAX_TOKENS
from headcount.importance.choices import CausalGatesOptions
from headcount.importance.score import Measured, Score, ScoringContext, score_column
from headcount.vocabulary import ColumnEntry

if TYPE_CHECKING:
    from headcount.importance.gradients import Scores

NAM = "Nam et al., NeurIPS 2025, arXiv:2505.13737, section 3"


def causal_gates(
    model: "tap.AnyModel",
    task: "tasks.Task",
    options: CausalGatesOptions | None = None,
    anatomy: "tap.Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """How far every head facilitates a task, minus how far it interferes with it.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        options: How gates are trained.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Raises:
        InputError: For an option out of its range, or fewer than 4 examples.
    """
    from headcount.importance.gate_sets import gate_sets  # only here: it needs torch

    return gate_sets(model, task, options or CausalGatesOptions(), anatomy, max_tokens).scores()


def _beside(key: str, label: str, about: str) -> ColumnEntry:
    """A column beside the score."""
    return ColumnEntry(key, label, "Causal gates", about, numbers.weight, NAM)


@dataclass(frozen=True)
class CausalGatesScore(CausalGatesOptions, Score):
    """How far a head facilitates the task, minus how far it interferes."""

    name = "causal-gates"
    column = score_column(
        "causal_gates",
        "causal gate",
        "how far it facilitates the task, minus how far it interferes",
        NAM,
        numbers.weight,
        has_signs=True,
    )
    beside = (
        _beside("facilitating", "facilitating", "its gate where closed gates are rewarded"),
        _beside("facilitating_low", "facilitating, lowest", "the least of all starts and halves"),
        _beside("facilitating_high", "facilitating, highest", "the most of all starts and halves"),
        _beside("interfering", "interfering", "1 minus its gate where open gates are rewarded"),
        _beside("interfering_low", "interfering, lowest", "the least of all starts and halves"),
        _beside("interfering_high", "interfering, highest", "the most of all starts and halves"),
        _beside("irrelevant", "irrelevant", "how far its gate follows the reward, open or closed"),
    )
    definition = (
        "Gates of all heads are trained on the task, with a reward for closed gates or for open "
        "ones. A head that stays open although closing is rewarded is facilitating, one that stays "
        "closed although opening is rewarded is interfering, and the score is their difference. "
        "Means over sets of gates from several random starts, on each of two halves of the "
        "examples."
    )
    needs_gradients = True
    is_learned = True

    def of(
        self, loaded: "models.Loaded", task: "tasks.Task", max_tokens: int = MAX_TOKENS
    ) -> "Scores":
        """The score of every head."""
        return causal_gates(loaded.model, task, self, loaded.anatomy, max_tokens)

    def measured(
        self, loaded: "models.Loaded", task: "tasks.Task", context: ScoringContext
    ) -> Measured:
        """The score, its parts, and what is left on examples that trained nothing."""
        from headcount.importance.gate_sets import (
            gate_facts,  # only here: they need torch
            gate_sets,
        )
        from headcount.statistics import few_examples  # likewise

        task, max_tokens = context.watched(task, self.name), context.max_tokens
        sets = gate_sets(loaded, task, self, loaded.anatomy, max_tokens)
        found = gate_facts(loaded, task, sets, max_tokens)
        return Measured(
            {self.column.key: sets.scores(), **sets.parts()},
            {"causal_gates": found},
            tuple(few_examples(found.num_held_out, "held-out example")),
        )
