"""Callbacks: what hears the steps of a training, reports its progress, and may end it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headcount.core import ModelError, Pace


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


@final
class Paced(TrainerCallback):
    """Ends a training that would take more than a day, unless the user accepts it."""

    def __init__(self) -> None:
        self._pace: Pace | None = None

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Count a step.

        Raises:
            ConsentError: if the steps that are left would take more than a day.
        """
        if self._pace is None:
            self._pace = Pace(state.max_steps - state.global_step + 1, "training steps")
        self._pace.step()


@final
class FiniteLoss(TrainerCallback):
    """Ends a training whose loss is not finite, before the model is saved or evaluated."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Log, and so check, the loss before every checkpoint."""
        control.should_log |= control.should_save

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Check the mean loss since the last log.

        Raises:
            ModelError: if the loss is infinite or NaN.
        """
        numbers = logs or {}
        if not math.isfinite(numbers.get("loss", 0.0)):
            raise ModelError(
                f"Expected a finite training loss, got {numbers['loss']} at step "
                f"{state.global_step}, with learning rate {numbers['learning_rate']:.3g}. Lower "
                "peak or raise warmup, and start again."
            )
