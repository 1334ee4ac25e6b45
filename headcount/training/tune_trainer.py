"""transformers' Trainer over a lesson, with batches by length and checkpoints that are whole."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

import torch
from safetensors.torch import load_model, save_model
from torch import nn
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.utils import SAFE_WEIGHTS_NAME

from headcount.tasks import Task
from headcount.training.bucketed import Batches, Numbered
from headcount.training.checkpoints import remove_early, saving
from headcount.training.diverged import FiniteLoss
from headcount.training.dropout import FastDropout
from headcount.training.lesson import Lesson
from headcount.training.tuning import Tuning


@final
class TuneTrainer(Trainer):
    """Trains a lesson on `Batches`: one pass of the Trainer's is the whole training.

    Args:
        lesson: what is trained, with its loss.
        task: makes the batches.
        batches: which examples come when.
        arguments: of transformers' Trainer, see `tuning_arguments`.
        callbacks: more of them.
    """

    def __init__(
        self,
        lesson: Lesson,
        task: Task,
        batches: Batches,
        arguments: TrainingArguments,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
        super().__init__(
            model=lesson,
            args=arguments,
            train_dataset=batches,
            callbacks=[FiniteLoss(), *callbacks],
        )
        self.remove_callback(PrinterCallback)
        self._lesson, self._task, self._batches = lesson, task, batches
        self.model_accepts_loss_kwargs = False

    def go_on(self, whole: Sequence[Path]) -> None:
        """Train from the last of some checkpoints, or from the start; not if it was the end."""
        state = TrainerState.load_from_json(str(whole[-1] / TRAINER_STATE_NAME)) if whole else None
        if state is not None and state.global_step >= self.args.max_steps:
            self._load_from_checkpoint(str(whole[-1]))
            self.state = state  # `train` would make one step more before it looks
        else:
            self.train(resume_from_checkpoint=str(whole[-1]) if whole else None)

    def get_train_dataloader(self) -> DataLoader:
        """Batch after batch; accelerate deals them out to the processes in turn."""

        def collate(numbered: list[Numbered]) -> dict[str, Any]:
            return {"batch": self._task.batch(numbered[0][1])}

        return self.accelerator.prepare(DataLoader(self._batches, batch_size=1, collate_fn=collate))

    def compute_loss_context_manager(self) -> ExitStack:
        """The Trainer's own, with our dropout."""
        contexts = super().compute_loss_context_manager()
        contexts.enter_context(FastDropout())
        return contexts

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self.args.output_dir or ".") / f"checkpoint-{self.state.global_step}"
        with saving(folder, self.is_world_process_zero()):
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            remove_early(folder.parent, 1, None)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Weights by the names that they have in the lesson, those of tied ones once."""
        assert output_dir is not None
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        save_model(self._lesson, str(Path(output_dir) / SAFE_WEIGHTS_NAME))

    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: nn.Module | None = None
    ) -> None:
        load_model(self._lesson, Path(resume_from_checkpoint) / SAFE_WEIGHTS_NAME)


def tuning_arguments(
    tuning: Tuning, folder: Path | None, seed: int, device: torch.device
) -> TrainingArguments:
    """The Trainer's arguments of a tuning.

    Args:
        tuning: how the model is trained.
        folder: of the checkpoints; None for none.
        seed: of dropout.
        device: where the model is.
    """
    return TrainingArguments(
        output_dir=None if folder is None else str(folder),
        max_steps=tuning.updates,
        gradient_accumulation_steps=tuning.accumulate,
        learning_rate=tuning.peak,
        lr_scheduler_type=tuning.schedule,
        warmup_steps=min(tuning.warmup, tuning.updates // 2),
        max_grad_norm=tuning.clip,
        optim="adamw_torch_fused",
        bf16=tuning.precision == "bfloat16",
        use_cpu=device.type == "cpu",
        seed=seed,
        save_strategy="no" if folder is None else "steps",
        save_steps=tuning.save_every,
        # The Trainer would remove earlier ones before the new one is whole.
        save_total_limit=None,
        logging_steps=max(1, min(100, tuning.save_every, tuning.updates // 20)),
        logging_nan_inf_filter=False,
        restore_callback_states_from_checkpoint=True,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        # Poolers and the like take no part in some tasks' losses.
        ddp_find_unused_parameters=True,
    )
