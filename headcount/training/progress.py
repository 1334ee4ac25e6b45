"""Reporting of a training's progress: loss, speed and time left, at every logging step."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


@final
@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a training at one logging step."""

    step: int
    steps: int
    """Number of steps in the entire training."""
    epoch: float
    """Number of passes over the data so far."""
    tokens_per_second: float
    """Target tokens per second, over all processes, since training started or resumed."""
    seconds_left: float
    """Seconds left at the speed so far."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Logged numbers: `loss` (nats a token, smoothed), `learning_rate`, `grad_norm`; after an
    evaluation on the development set, `eval_loss` and its score."""


Tell = Callable[[TrainingProgress], None]


@final
class ProgressCallback(TrainerCallback):
    """Passes a `TrainingProgress` to a function whenever the Trainer logs.

    Args:
        tell: the function, called in the first process only.
        steps_per_epoch: number of steps in one pass over the data.
        tokens_per_epoch: number of target tokens in one pass.
    """

    def __init__(self, tell: Tell, steps_per_epoch: float, tokens_per_epoch: int) -> None:
        self._tell = tell
        self._steps_per_epoch, self._tokens_per_epoch = steps_per_epoch, tokens_per_epoch
        self._started, self._first = time.monotonic(), 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Start the clock."""
        self._started, self._first = time.monotonic(), state.global_step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Report the progress."""
        if not state.is_world_process_zero or "train_runtime" in (logs or {}):
            return
        seconds = max(time.monotonic() - self._started, 1e-9)
        done = state.global_step - self._first
        epochs = done / self._steps_per_epoch
        left = (state.max_steps - state.global_step) * seconds / max(done, 1)
        self._tell(
            TrainingProgress(
                state.global_step,
                state.max_steps,
                state.global_step / self._steps_per_epoch,
                epochs * self._tokens_per_epoch / seconds,
                left,
                dict(logs or {}),
            )
        )
