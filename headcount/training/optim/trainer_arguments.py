"""The arguments of transformers' Trainer for one optimization."""

import tempfile
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from headcount.training.optim.optimization import Optimization


def trainer_arguments(
    optimization: Optimization,
    folder: Path | None,
    seed: int,
    save_every: int,
    device: str,
    **more: Any,
) -> TrainingArguments:
    """The Trainer's arguments; the number of steps is set by `more` or later.

    Args:
        optimization: how a step is made.
        folder: folder of the checkpoints; None for none.
        seed: seed of dropout.
        save_every: steps between two checkpoints.
        device: `cpu` or `cuda`.
        more: further arguments of the Trainer.
    """
    arguments = TrainingArguments(
        # Without a folder the Trainer would make one in the current directory.
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
        # The Trainer would remove earlier checkpoints before the new one is complete.
        save_total_limit=None,
        logging_nan_inf_filter=False,
        restore_callback_states_from_checkpoint=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=device != "cpu",
        **more,
    )
    # A process trains on one device; the Trainer would split batches over all visible devices.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments
