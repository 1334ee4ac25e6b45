"""The Trainer for fine-tuning, which trains a lesson."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from transformers import TrainerCallback, TrainingArguments
from transformers.utils import SAFE_WEIGHTS_NAME

from headcount.core import InputError
from headcount.tasks import IGNORED, Task, TaskBatch
from headcount.training.bucketed import Batches, Parts
from headcount.training.finetuning.config import FinetuneConfig
from headcount.training.finetuning.distillation import DistillationLoss
from headcount.training.optim.batches_trainer import BatchesTrainer, trainer_arguments


@final
class TuneTrainer(BatchesTrainer):
    """Trains a lesson.

    Args:
        lesson: the model to train, with its loss.
        task: the task, which makes the batches.
        batches: the examples of every batch, in order.
        arguments: arguments of transformers' Trainer, made by `tuning_arguments`.
        callbacks: further callbacks.
    """

    def __init__(
        self,
        lesson: DistillationLoss,
        task: Task,
        batches: Batches,
        arguments: TrainingArguments,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
        super().__init__(lesson, batches, arguments, lesson.tuning, callbacks)
        self._lesson, self._task = lesson, task

    def collate(self, number: int, part_EP: Parts) -> dict[str, Any]:
        """The task's batch as a single input."""
        return {"batch": self._task.training_batch(part_EP[:, 0], number)}

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Tensor]:
        """The batches of a step, and the number of predictions in them over all processes."""
        samples, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        here = sum(_num_predicted(sample["batch"]) for sample in samples)
        counts: Any = self.accelerator.gather(torch.tensor(here, device=device))
        return samples, counts.sum()

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The loss, scaled so that a step's loss is the mean over all predictions in it.

        The Trainer averages over the step's batches and processes, so each batch is weighted by its
        number of predictions.
        """
        loss = super().compute_loss(model, inputs)
        batches = self.current_gradient_accumulation_steps * self.accelerator.num_processes
        assert not return_outputs and num_items_in_batch is not None
        return loss * (_num_predicted(inputs["batch"]) * batches / num_items_in_batch)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save weights under the names they have in the lesson, tied weights once."""
        assert output_dir is not None
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        save_model(self._lesson, str(Path(output_dir) / SAFE_WEIGHTS_NAME))

    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: nn.Module | None = None
    ) -> None:
        load_model(self._lesson, Path(resume_from_checkpoint) / SAFE_WEIGHTS_NAME)


def _num_predicted(batch: TaskBatch) -> int:
    """Number of tokens with a label, or of examples if each has one loss."""
    labels = batch.labels.get("labels")
    return batch.num_examples if labels is None else int((labels != IGNORED).sum())


def check_gpu(device: torch.device) -> None:
    """Check that a device is the one that the Trainer would use.

    Raises:
        InputError: for a GPU that it would not use.
    """
    first = int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda" and device.index not in (None, first):
        raise InputError(
            f"Expected GPU {first}, which transformers' Trainer uses of those it sees, got "
            f"{device}. Give --device cuda, and name the GPU in CUDA_VISIBLE_DEVICES."
        )


def tuning_arguments(
    tuning: FinetuneConfig, folder: Path | None, seed: int, device: torch.device
) -> TrainingArguments:
    """The Trainer's arguments for a tuning.

    Args:
        tuning: settings of the training.
        folder: folder of the checkpoints; None for none.
        seed: seed of dropout.
        device: device of the model.
    """
    return trainer_arguments(
        replace(tuning, warmup=min(tuning.warmup, tuning.updates // 2)),
        folder,
        seed,
        tuning.save_every,
        device.type,
        max_steps=tuning.updates,
        logging_steps=max(1, min(100, tuning.save_every, tuning.updates // 20)),
        remove_unused_columns=False,
        # Some modules, such as poolers, take no part in some tasks' losses.
        ddp_find_unused_parameters=True,
    )
