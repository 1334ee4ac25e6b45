"""Divergence: a loss that is no number never becomes one again, so the training ends there."""

import math
from typing import Any, final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headcount.errors import ModelError


@final
class FiniteLoss(TrainerCallback):
    """Ends a training whose loss is not finite, before that is saved or evaluated."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Have the loss looked at before every checkpoint."""
        control.should_log |= control.should_save

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Look at the mean loss since the last time.

        Raises:
            ModelError: if it is infinite or no number.
        """
        numbers = logs or {}
        if not math.isfinite(numbers.get("loss", 0.0)):
            raise ModelError(
                f"a finite training loss was expected; at step {state.global_step}, with learning "
                f"rate {numbers['learning_rate']:.3g}, it was {numbers['loss']}: lower its "
                "peak or raise its warmup, and begin again"
            )
