"""Ablation: how much worse the model gets without a head (`ablations.py`).

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 3,
https://arxiv.org/abs/1905.10650
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headcount import models, numbers, tasks
from headcount.core import MAX_TOKENS
from headcount.importance.choices import AblationOptions
from headcount.importance.score import Measured, Score, ScoringContext, score_column
from headcount.vocabulary import MICHEL

if TYPE_CHECKING:
    from headcount.importance.gradients import Scores


@dataclass(frozen=True)
class AblationScore(AblationOptions, Score):
    """Measured drop in quality without the head, with its interval and test."""

    name = "ablation"
    column = score_column(
        "ablation_delta",
        "ablation effect",
        "how much worse the model gets without the head",
        f"{MICHEL}, section 3",
        has_signs=True,
    )
    beside = (
        *(
            score_column(
                f"ablation_{end}",
                f"ablation effect, {end}",
                f"{side} end of the 95 % interval of this head alone",
                "",
                has_signs=True,
            )
            for end, side in (("low", "lower"), ("high", "upper"))
        ),
        score_column(
            "ablation_p",
            "ablation p, corrected",
            "p-value over examples, corrected for the number of heads",
            "",
            numbers.probability,
        ),
    )
    definition = (
        "How much worse the task's loss (or score) gets when one head is removed and all others "
        "are kept; positive means that the head helps. The interval is of each head alone and "
        "inverts the head's test: the studentized bootstrap for losses, paired approximate "
        "randomization for BLEU, chrF and classes. Only the p-values are corrected over heads, by "
        "Holm's method."
    )
    by_default = True

    def of(
        self, loaded: "models.Loaded", task: "tasks.Task", max_tokens: int = MAX_TOKENS
    ) -> "Scores":
        """The rise of the loss, or the drop of the score, without every head."""
        from headcount.importance.ablations import ablation  # only here: it needs torch

        if self.quantity == "loss" and self.ablated_examples is None:
            return ablation(loaded.model, task, self.instead, loaded.anatomy, max_tokens)
        heads_only = replace(self, layers=False, one_left=False)
        return heads_only.measured(loaded, task, ScoringContext(max_tokens)).columns[
            self.column.key
        ]

    def measured(
        self, loaded: "models.Loaded", task: "tasks.Task", context: ScoringContext
    ) -> Measured:
        """The effect of every head with its interval and test, and the effects of groups."""
        from headcount.importance.ablation_effects import AblationEffects  # only here: needs torch

        keys = [each.key for each in self.columns()]
        return AblationEffects(self, loaded, task, context).measured(keys)

    def signed(self, max_tokens: int) -> Mapping[str, object]:
        """Replacement, quantity, test and samples; what is ablated beside heads is not signed."""
        del max_tokens
        return {
            "instead": self.instead,
            "quantity": self.quantity,
            "test": self.score_test if self.quantity == "score" else None,
            "ablated": self.ablated_examples,
            "samples": self.samples,
            "seed": self.seed,
        }
