"""What a score of heads is. Needs no torch, which a score imports when it measures.

A score is one file: its options, what it computes, its column in the table of
heads and its words. `importance`, `follow`, `curve` and `prune` take the same object.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headcount import models, numbers, tasks
from headcount.core import MAX_TOKENS, Head, options_of
from headcount.vocabulary import WORTH, ColumnEntry

if TYPE_CHECKING:
    from headcount.importance.scores import Scores


def score_column(
    key: str,
    label: str,
    about: str,
    source: str,
    show: Callable[[float], str] = numbers.effect,
    has_signs: bool = False,
) -> ColumnEntry:
    """A score's column: its key, its name in sentences, what it says of a head, and its paper."""
    return ColumnEntry(key, label, WORTH, about, show, source, has_signs)


@dataclass(frozen=True)
class Score:
    """One number for every head; higher means more important."""

    name: ClassVar[str]
    """Name of the score, as given to `--methods` and `--method`."""
    column: ClassVar[ColumnEntry]
    """Its column in the table of heads."""
    measure: ClassVar[Callable[..., Any]]
    """Scores the heads of a model on a task; it takes the options by name, the anatomy and the size
    of batches."""
    definition: ClassVar[str]
    """How it is computed, in a few sentences for the page."""
    needs_gradients: ClassVar[bool] = False
    """Whether gradients must pass through the model's weights."""
    by_default: ClassVar[bool] = False
    """Whether an assessment computes it when no method is named."""

    def of(
        self, loaded: "models.Loaded", task: "tasks.Task", max_tokens: int = MAX_TOKENS
    ) -> "Scores":
        """The score of every head.

        Args:
            loaded: the model.
            task: the task; its labels are used by gradients only.
            max_tokens: largest number of padded tokens in a batch.
        """
        options = {each: getattr(self, each) for each in self.__match_args__}
        how = {"anatomy": loaded.anatomy, "max_tokens": max_tokens}
        return self.measure(loaded.model, task, **options, **how)

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
