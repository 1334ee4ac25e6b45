"""What a score of heads is. Needs no torch, which a score imports when it measures.

A score is one file: its options, what it computes, its column in the table of
heads and its words. `importance`, `follow`, `curve` and `prune` take the same object.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from headcount import models, numbers, results, tasks
from headcount.core import MAX_TOKENS, Head, options_of
from headcount.vocabulary import WORTH, ColumnEntry

if TYPE_CHECKING:
    from headcount.importance.gradients import Scores


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


@final
@dataclass(frozen=True)
class Measured:
    """What a score measures in an assessment."""

    columns: Mapping[str, "Scores"]
    """Numbers of every head by their columns, the score first."""
    causal_gates: "results.CausalGates | None" = None
    """What causal gates found beside the heads' numbers; None of other scores."""


@dataclass(frozen=True)
class Score:
    """One number for every head; higher means more important."""

    name: ClassVar[str]
    """Name of the score, as given to `--methods` and `--method`."""
    column: ClassVar[ColumnEntry]
    """Its column in the table of heads."""
    beside: ClassVar[tuple[ColumnEntry, ...]] = ()
    """Further columns that an assessment writes, by which no head is pruned."""
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

    def measured(
        self, loaded: "models.Loaded", task: "tasks.Task", max_tokens: int = MAX_TOKENS
    ) -> Measured:
        """The score of every head, and whatever else an assessment shows of it."""
        return Measured({self.column.key: self.of(loaded, task, max_tokens)})

    @classmethod
    def columns(cls) -> tuple[ColumnEntry, ...]:
        """All columns that an assessment writes, the score's first."""
        return (cls.column, *cls.beside)

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
