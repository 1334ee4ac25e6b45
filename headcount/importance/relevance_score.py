"""Relevance: a head's contribution to the model's prediction by LRP (`lrp/relevance.py`).

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4,
https://arxiv.org/abs/1905.09418 Departure: pruning in its order is ours, the paper prunes by gates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headcount import models, tasks
from headcount.core import MAX_TOKENS, Checked
from headcount.importance.choices import Average, Rules
from headcount.importance.score import Measured, Score, ScoringContext, score_column
from headcount.vocabulary import VOITA

if TYPE_CHECKING:
    from headcount.importance.gradients import Scores


@dataclass(frozen=True)
class RelevanceOptions(Checked):
    """How relevance flows, and what it is averaged over."""

    rules: Rules = "voita2019"
    """Relevance: rule set for LRP."""
    average: Average = "per-example"
    """Relevance: per-step is the average of Voita et al. (2019), with a backward pass per target
    step; per-example, the fast one, normalises the steps of an example together."""


@dataclass(frozen=True)
class RelevanceScore(RelevanceOptions, Score):
    """Contribution to the model's prediction; heads that oppose it have negative relevance."""

    name = "relevance"
    column = score_column(
        "relevance",
        "relevance",
        "its share of what the heads of its layer contribute to the output",
        f"{VOITA}, section 4",
        has_signs=True,
    )
    definition = (
        "Share of the top prediction that layer-wise relevance propagation assigns to the head, "
        "among the heads of its layer. The paper takes the mean over target steps, each normalised "
        "on its own (--average per-step). By default the steps of an example are normalised "
        "together."
    )
    needs_gradients = True
    by_default = True

    def of(
        self, loaded: "models.Loaded", task: "tasks.Task", max_tokens: int = MAX_TOKENS
    ) -> "Scores":
        """Relevance of every head."""
        from headcount.importance.lrp.relevance import relevance  # only here: it needs torch

        per_step = self.average == "per-step"
        how = (self.rules, loaded.anatomy, max_tokens)
        return relevance(loaded.model, task, *how, per_step=per_step).scores

    def measured(
        self, loaded: "models.Loaded", task: "tasks.Task", context: ScoringContext
    ) -> Measured:
        """Relevance of every head, and what it was normalised for."""
        return replace(super().measured(loaded, task, context), facts={"average": self.average})

    def signed(self, max_tokens: int) -> Mapping[str, object]:
        """The rules, and the average if it is the paper's."""
        del max_tokens
        is_default = self.average == RelevanceOptions.average
        return {"rules": self.rules, "average": None if is_default else self.average}
