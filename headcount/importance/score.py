"""Scores of heads, as they are asked for by name. Needs no torch.

A score is one class: its options, which model and task it reads, its column in the table of heads
and its words. `importance`, `follow`, `curve` and `prune` take the same object.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headcount.core import MAX_TOKENS, Head
from headcount.importance.choices import Average, Level, Rules

if TYPE_CHECKING:
    from headcount.importance.scores import Scores
    from headcount.models import Loaded
    from headcount.tasks import Task


@dataclass(frozen=True)
class Score(ABC):
    """One number for every head; higher means more important."""

    name: ClassVar[str]
    """Name of the score, as given to `--methods` and `--method`."""
    column: ClassVar[str]
    """Its column in the table of heads."""
    label: ClassVar[str]
    """Its name in sentences."""
    says: ClassVar[str]
    """What its numbers say of a head."""
    is_tiny: ClassVar[bool] = False
    """Whether its numbers are shown by significant digits, since decimals may be zeros."""
    has_signs: ClassVar[bool] = False
    """Whether its numbers lie on both sides of zero."""
    needs_gradients: ClassVar[bool] = False
    """Whether gradients must pass through the model's weights."""

    @abstractmethod
    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """The score of every head.

        Args:
            loaded: the model.
            task: the task; its labels are used by gradients only.
            max_tokens: largest number of padded tokens in a batch.
        """

    def without(self, found: "Scores", pruned: Collection[Head]) -> "Scores":
        """The scores while some heads are pruned, which were gated to 0 when they were measured."""
        del pruned
        return found

    @property
    def depends_on_batches(self) -> bool:
        """Whether scores depend on which examples share a batch, so on its size."""
        return False


@dataclass(frozen=True)
class GradientScore(Score):
    """Sensitivity of the loss to a head's gate (`gate_gradient.py`)."""

    name: ClassVar[str] = "gradient"
    column: ClassVar[str] = "gradient"
    label: ClassVar[str] = "gradient"
    says: ClassVar[str] = "how much the loss would change if its gate were lowered"
    needs_gradients: ClassVar[bool] = True
    level: Level = "sample"
    """Unit over which gradients are summed before the absolute value is taken."""
    normalise: bool = True
    """Whether to divide by the norm over the layer."""

    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """Gradient importance of every head."""
        from headcount.importance.gate_gradient import gradient  # only here: it needs torch

        return gradient(loaded.model, task, self.level, self.normalise, loaded.anatomy, max_tokens)

    @property
    def depends_on_batches(self) -> bool:
        """Gradients that are summed over a batch depend on its size."""
        return self.level == "batch"


@dataclass(frozen=True)
class RelevanceScore(Score):
    """Contribution to the model's prediction by LRP (`lrp/relevance.py`)."""

    name: ClassVar[str] = "relevance"
    column: ClassVar[str] = "relevance"
    label: ClassVar[str] = "relevance"
    says: ClassVar[str] = "its share of what the heads of its layer contribute to the output"
    has_signs: ClassVar[bool] = True
    needs_gradients: ClassVar[bool] = True
    rules: Rules = "voita2019"
    """Rules of the propagation."""
    average: Average = "per-example"
    """Whether each target step is normalised by itself, as in the paper, with a backward pass for
    each; per-example, the fast one, normalises the steps of an example together."""

    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """Relevance of every head."""
        from headcount.importance.lrp.relevance import relevance  # only here: it needs torch

        per_step = self.average == "per-step"
        how = (self.rules, loaded.anatomy, max_tokens)
        return relevance(loaded.model, task, *how, per_step=per_step).scores


@dataclass(frozen=True)
class NormScore(Score):
    """Length of what a head adds to the residual stream (`norm_and_sink.py`).

    Reference: Identifying and Evaluating Inactive Heads in Pretrained LLMs (Sandoval-Segura et al.,
    2025), section 3, https://arxiv.org/abs/2504.03889
    """

    name: ClassVar[str] = "norm"
    column: ClassVar[str] = "norm_score"
    label: ClassVar[str] = "output norm"
    says: ClassVar[str] = "mean norm of its output; 1 is its layer's mean"

    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """Layer-normalised norms of what the heads add."""
        from headcount.importance.norm_and_sink import norm  # only here: it needs torch

        return norm(loaded.model, task, loaded.anatomy, max_tokens)

    def without(self, found: "Scores", pruned: Collection[Head]) -> "Scores":
        """The norms, relative to a layer in which pruned heads add nothing."""
        added = {place: score_H.clone() for place, score_H in found.items()}
        for head in pruned:
            added[head.layer_id][head.index] = 0
        return {place: score_H / added[place].mean() for place, score_H in found.items()}


@dataclass(frozen=True)
class SinkScore(Score):
    """Negated attention on the first token (`norm_and_sink.py`).

    Reference: Garbage Attention in Large Language Models (Sok et al., 2026),
    https://arxiv.org/abs/2601.06787
    """

    name: ClassVar[str] = "sink"
    column: ClassVar[str] = "sink_score"
    label: ClassVar[str] = "sink score"
    says: ClassVar[str] = "minus the mean weight on the first token"

    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """Negated attention on the first token, for every head."""
        from headcount.importance.norm_and_sink import sink  # only here: it needs torch

        return sink(loaded.model, task, loaded.anatomy, max_tokens)


@dataclass(frozen=True)
class FisherScore(Score):
    """Fisher information of a head's gate (`gate_gradient.py`)."""

    name: ClassVar[str] = "fisher"
    column: ClassVar[str] = "fisher"
    is_tiny: ClassVar[bool] = True
    label: ClassVar[str] = "Fisher information"
    says: ClassVar[str] = "mean square of what an example's loss would change by its gate"
    needs_gradients: ClassVar[bool] = True

    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """The diagonal Fisher information of every head's gate."""
        from headcount.importance.gate_gradient import fisher  # only here: it needs torch

        return fisher(loaded.model, task, loaded.anatomy, max_tokens)


SCORES: Mapping[str, type[Score]] = {
    each.name: each for each in (GradientScore, RelevanceScore, NormScore, SinkScore, FisherScore)
}
"""Every score by its name; ablation, which has intervals and tests, is a method of its own."""


def score_of(name: str, options: Any) -> Score:
    """A score with those of some options that are its own, e.g. of an assessment."""
    kind = SCORES[name]
    return kind(**{each: getattr(options, each) for each in kind.__match_args__})
