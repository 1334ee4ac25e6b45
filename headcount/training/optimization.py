"""Optimization: how a step is made, the same for training from scratch and for training on."""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import TrainingArguments

from headcount.errors import InputError
from headcount.options import refuse_other

Schedule = Literal["linear", "inverse_sqrt", "constant_with_warmup"]
Precision = Literal["float32", "bfloat16"]
Algorithm = Literal["adamw", "muon"]


@dataclass(frozen=True)
class Optimization:
    """Batches, learning rate and gradients of transformers' Trainer.

    Raises:
        InputError: for a value that can't be, with the field's name.
    """

    batch_tokens: int = 4096
    """Padded tokens of the longer side in a batch of one process."""
    accumulate: int = 1
    """Batches of one process whose gradients add up to one step."""
    peak: float = 1e-4
    """Learning rate at the end of the warm-up."""
    warmup: int = 50
    """Steps over which the learning rate grows from 0 to its peak."""
    schedule: Schedule = "linear"
    """After the warm-up: down to 0 at the last step, with the inverse root of the step, or as it
    is."""
    optimizer: Algorithm = "adamw"
    """Of the layers' matrices; embeddings, biases, norms and gates are always AdamW's."""
    beta2: float = 0.999
    """Of AdamW, whose beta1 is 0.9."""
    clip: float = 1.0
    """Norm that gradients are cut down to."""
    precision: Precision = "float32"
    """Of matrix products in training (autocast); weights are float32."""
    label_smoothing: float = 0.0
    """Share of the probability that goes to all answers alike; where answers are chosen."""

    def __post_init__(self) -> None:
        refuse_other("a schedule", self.schedule, Schedule)
        refuse_other("an optimizer", self.optimizer, Algorithm)
        refuse_other("a precision", self.precision, Precision)
        self._above_zero("batch_tokens", "accumulate", "peak", "clip")
        self._shares("beta2", "label_smoothing")
        if self.warmup < 0:
            raise InputError(f"a warmup of at least 0 steps was expected; came {self.warmup}")

    def _above_zero(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"a finite number above 0 was expected for {name}; came {value}")

    def _shares(self, *names: str) -> None:
        for name in names:
            if not 0 <= (value := getattr(self, name)) < 1:
                raise InputError(
                    f"a number from 0 up to below 1 was expected for {name}; came {value}"
                )


def trainer_arguments(
    optimization: Optimization,
    folder: Path | None,
    seed: int,
    save_every: int,
    device: str,
    **more: Any,
) -> TrainingArguments:
    """The Trainer's arguments; how many steps there are is yet to be set.

    Args:
        optimization: how a step is made.
        folder: of the checkpoints; None for none.
        seed: of dropout.
        save_every: steps between two checkpoints.
        device: `cpu` or `cuda`.
        more: of the Trainer's arguments.
    """
    arguments = TrainingArguments(
        # Without a folder the Trainer would make one where the user is.
        output_dir=tempfile.gettempdir() if folder is None else str(folder),
        gradient_accumulation_steps=optimization.accumulate,
        learning_rate=optimization.peak,
        lr_scheduler_type=optimization.schedule,
        warmup_steps=optimization.warmup,
        adam_beta2=optimization.beta2,
        max_grad_norm=optimization.clip,
        optim="adamw_torch_fused",
        bf16=optimization.precision == "bfloat16",
        use_cpu=device == "cpu",
        seed=seed,
        save_strategy="no" if folder is None else "steps",
        save_steps=save_every,
        # The Trainer would remove earlier ones before the new one is whole.
        save_total_limit=None,
        logging_nan_inf_filter=False,
        restore_callback_states_from_checkpoint=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=device != "cpu",
        **more,
    )
    # A process trains on one device; the Trainer would cut batches up for all that it sees.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments
