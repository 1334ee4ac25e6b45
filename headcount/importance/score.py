"""What a score of heads is. Needs no torch, which a score imports when it measures.

A score is one file: its options, what it computes, its column in the table of
heads and its words. `importance`, `follow`, `curve` and `prune` take the same object.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from headcount import models, numbers, tasks
from headcount.core import MAX_TOKENS, Checked, Head, Progress, options_of, silent
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
    facts: Mapping[str, object] = field(default_factory=dict)
    """Fields of the assessment's record that it fills, by their names."""
    warnings: tuple[str, ...] = ()
    """Sentences on what limits the numbers."""


@final
@dataclass(frozen=True)
class ScoringContext:
    """The assessment in which a score is measured."""

    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch."""
    progress: Progress = silent
    """Callback for the progress of each stage."""
    state: Path | None = None
    """Folder of the state from which an interrupted assessment resumes; None for none."""
    key: str = ""
    """What the state must have been made with."""
    dense: "Callable[[], tasks.Evaluation] | None" = None
    """The evaluation of the dense model, with the texts that it writes; None to measure it."""

    def watched(self, task: "tasks.Task", stage: str) -> "tasks.Task":
        """The task, whose examples are reported as a stage while a model runs on them."""
        return task.watched(partial(self.progress, task.bar(stage)))


@dataclass(frozen=True)
class Score(Checked):
    """One number for every head; higher means more important.

    A score of one's own is a frozen dataclass whose fields are its options. It has `name`,
    `column` (from `score_column`), `definition`, and `of`, which measures.
    """

    registry: ClassVar[str] = "headcount.importance.options:SCORES"
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
    is_learned: ClassVar[bool] = False
    """Whether it takes many steps of learning, whose number its options set."""
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
        self, loaded: "models.Loaded", task: "tasks.Task", context: ScoringContext
    ) -> Measured:
        """The score of every head, and whatever else an assessment shows of it."""
        found = self.of(loaded, context.watched(task, self.name), context.max_tokens)
        return Measured({self.column.key: found})

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
