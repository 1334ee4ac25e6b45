"""What a score of heads is. Needs no torch, which a score imports when it measures.

A score is one file: its options, what it computes, its column in the table of
heads and its words. `importance`, `follow`, `curve` and `prune` take the same object.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headcount.core import MAX_TOKENS, Head, options_of
from headcount.vocabulary import ColumnEntry

if TYPE_CHECKING:
    from headcount.importance.scores import Scores
    from headcount.models import Loaded
    from headcount.tasks import Task


@dataclass(frozen=True)
class Score(ABC):
    """One number for every head; higher means more important."""

    name: ClassVar[str]
    """Name of the score, as given to `--methods` and `--method`."""
    column: ClassVar[ColumnEntry]
    """Its column in the table of heads, with its name in sentences, its meaning and its source."""
    definition: ClassVar[str]
    """How it is computed, in a few sentences for the page."""
    needs_gradients: ClassVar[bool] = False
    """Whether gradients must pass through the model's weights."""
    by_default: ClassVar[bool] = False
    """Whether an assessment computes it when no method is named."""

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

    def signed(self, max_tokens: int) -> Mapping[str, object]:
        """The options as parts of an assessment's signature; None is left out."""
        del max_tokens
        return {self.name: ",".join(options_of(self)) or None}
