"""Remembering: evaluations and speeds of a run, so that a resumed one measures none of them again.

Each is kept under the hash of the model's weights and the data, bit for bit.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.core import Kept
from headcount.models import Loaded, revision
from headcount.pruning.context import PruningContext
from headcount.results import SpeedRecord
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True)
class _Stored:
    """An evaluation, whose numbers are the bytes of 64-bit numbers in base 64."""

    loss: str
    count: str
    outcome: str
    """Empty if the model writes texts."""
    shape: tuple[int, ...]
    """Shape of the outcomes."""
    texts: tuple[str, ...]

    @classmethod
    def of(cls, found: Evaluation) -> "_Stored":
        writes = found.outcome_N.dtype == object
        return cls(
            _text(found.loss_N.astype("<f8")),
            _text(found.count_N.astype("<i8")),
            "" if writes else _text(found.outcome_N.astype("<f8")),
            found.outcome_N.shape,
            tuple(map(str, found.outcome_N)) if writes else (),
        )

    def evaluation(self) -> Evaluation:
        """The evaluation."""
        outcome_N = np.array(self.texts, dtype=object)
        if not self.texts:
            outcome_N = _numbers(self.outcome, "<f8").reshape(self.shape)
        return Evaluation(_numbers(self.loss, "<f8"), _numbers(self.count, "<i8"), outcome_N)


def remembered(
    context: PruningContext, loaded: Loaded, task: Task, make: Callable[[], Evaluation]
) -> Evaluation:
    """A model's evaluation on a data set, made once.

    Args:
        context: Whose state holds what was made; without a state nothing is kept.
        loaded: The model.
        task: The data set.
        make: Makes the evaluation.
    """
    if context.state is None:
        return make()
    kept = Kept(context.state / "evaluations.json", "", "the evaluations", _Stored)
    name = f"{revision(loaded.model)}|{task.sha256}|{task.signature}"
    return kept.once(name, lambda: _Stored.of(make())).evaluation()


def remembered_speed(
    context: PruningContext, smaller: Loaded, make: Callable[[], SpeedRecord | None]
) -> SpeedRecord | None:
    """The speed of a pruned model, measured once; None if it can't be measured."""
    if context.state is None:
        return make()
    kept = Kept(context.state / "measured_speed.json", "", "the measured speed", SpeedRecord)
    name = revision(smaller.model)
    if name in kept:
        return kept[name]
    found = make()
    return found if found is None else kept.once(name, lambda: found)


def _text(numbers: np.ndarray) -> str:
    return b64encode(numbers.tobytes()).decode("ascii")


def _numbers(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(b64decode(text), kind).copy()
