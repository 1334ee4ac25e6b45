"""Divergence: a loss that becomes NaN or infinite never recovers, so training ends there."""

import math
from typing import Any, final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headcount.errors import ModelError


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
