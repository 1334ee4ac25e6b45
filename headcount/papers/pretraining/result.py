"""The record of a training: what was trained on, and how it went."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

RESULT = "result.json"


@final
@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a training trains on, in numbers."""

    examples: int
    """Number of examples."""
    tokens: int
    """Number of tokens on the predicted side of all examples."""
    num_empty: int
    """Number of rows for training that were left out because a side is empty."""
    num_empty_dev: int
    """The same in the development set."""
    num_long: int
    """Number of rows for training that were left out because they are too long."""
    num_cut_dev: int
    """Number of texts of the development set that were cut at the end."""
    num_shared: int
    """Number of rows for training that were left out because a held-out row shares a side."""
    parameters: int
    """Number of the model's parameters."""


@final
@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The contents of `result.json`."""

    model: str
    """Name of the candidate that became the model."""
    candidates: Mapping[str, Mapping[str, float]]
    """`loss` and score on the development set, by candidate; empty without such a set."""
    steps: int
    """Number of steps taken."""
    versions: Mapping[str, str]
    """Versions of the packages."""
    history: Sequence[Mapping[str, Any]]
    """Log entries of the Trainer."""
    counts: Counts
    seconds: float
    """Duration of the training, that of a resumed one since it was resumed."""

    def to_json(self) -> dict[str, Any]:
        """The contents of the file."""
        found = asdict(self)
        counts, seconds = found.pop("counts"), found.pop("seconds")
        return found | counts | {"seconds": seconds}
