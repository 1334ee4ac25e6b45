"""Fine-tuning on a task: for a control, for learned gates, or for recovery of a pruned model.

Batches are reshuffled every epoch and have similar lengths, as in training from scratch. With a
folder for its state, a killed fine-tuning resumes from its last checkpoint. At every
logging step it reports loss, speed and time left.
"""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments
from transformers.utils import SAFE_WEIGHTS_NAME

from headcount.core import Heads, InputError, ResumePolicy, processes
from headcount.gates import GateTraining, HeadGates, gating
from headcount.models import (
    Loaded,
    as_loaded,
    check_not_quantized,
    check_whole,
    keep_formats,
    revision,
    tokenizer_revision,
)
from headcount.tap import AnyModel, model_of
from headcount.tasks import IGNORED, Task, TaskBatch, check_examples_fit
from headcount.training.batches_trainer import Batches, BatchesTrainer, Parts, trainer_arguments
from headcount.training.callbacks import ProgressCallback, Tell
from headcount.training.checkpoints import claim, remove_broken, strip, whole_checkpoints
from headcount.training.config import FinetuneConfig
from headcount.training.distillation import DistillationLoss, check_distillation


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


@final
@dataclass(frozen=True)
class Rate:
    """A dropout rate above 0, and where the model has it."""

    module: nn.Module
    name: str
    """Name of the module's attribute."""
    value: float


def rates(model: nn.Module) -> list[Rate]:
    """All dropout rates above 0 that a model applies, including those of attention weights."""
    return [
        Rate(module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, float) and value > 0
        if "dropout" in name or (name == "p" and isinstance(module, _DropoutNd))
    ]


@contextmanager
def at_rate(model: nn.Module, rate: float | None) -> Iterator[None]:
    """Set every rate of `rates` to this one within the block; None leaves them unchanged."""
    own = [] if rate is None else rates(model)
    try:
        for each in own:
            setattr(each.module, each.name, rate)
        yield
    finally:
        for each in own:
            setattr(each.module, each.name, each.value)


CHECKPOINTS = "checkpoints"


@final
@dataclass(frozen=True, eq=False)
class FineTuned:
    """A fine-tuned model."""

    loaded: Loaded
    """A copy of the given model, with trained weights."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Log entries: step, loss, learning rate, and the gates' numbers."""


@final
@dataclass(frozen=True)
class TrainingRun:
    """One run of a fine-tuning: its seed, where it resumes, and what is called on the way."""

    seed: int = 0
    """Seed of batches and dropout."""
    state: Path | None = None
    """Folder of the checkpoints; an interrupted fine-tuning resumes there."""
    about: Mapping[str, Any] | None = None
    """Further values that must be the same on resuming; they override `model`."""
    tell: Tell = lambda moment: None
    """Function called with the progress of the training."""


ONCE = TrainingRun()
"""A run that is never resumed."""


def finetune(
    loaded: Loaded | PreTrainedModel,
    task: Task,
    tuning: FinetuneConfig,
    *,
    gates: HeadGates | None = None,
    teacher: AnyModel | None = None,
    run: TrainingRun = ONCE,
) -> FineTuned:
    """Train a copy of a model on a task's data.

    Args:
        loaded: a model with its tokenizer; it is not changed.
        task: the task, which gives batches and losses.
        tuning: settings of the training.
        gates: gates on the heads' outputs, trained too.
        teacher: the model to distil from.
        run: the run's seed, the folder it resumes in, and what is called with its progress.

    Raises:
        InputError: if the state belongs to another fine-tuning or can't be written, or the task
            can't be trained on.
        ModelError: if the loss is no longer finite.
    """
    loaded = as_loaded(loaded)
    teacher = None if teacher is None else model_of(teacher)
    check_finetuning(loaded, task, tuning, gates is not None and bool(list(gates.parameters())))
    state, folder = run.state, run.state and run.state / CHECKPOINTS
    arguments = tuning_arguments(tuning, folder, run.seed, loaded.model.device)
    model = copy.deepcopy(loaded.model).float()
    frozen = _freeze(model, loaded.heads, tuning)
    lesson = DistillationLoss(model, task, tuning, teacher)
    per_step = arguments.world_size * tuning.accumulate
    batches = _batches(task, tuning, run.seed, per_step)
    if state is not None and processes().is_main_process:
        same = _identity(
            loaded, task, tuning, teacher=teacher, seed=run.seed, num_processes=arguments.world_size
        )
        claim(state, same | dict(run.about or {}), ResumePolicy.RESUME)
        remove_broken(state / CHECKPOINTS)
    processes().wait_for_everyone()
    steps, tokens = batches.per_epoch / per_step, int(task.length_N.sum())
    callbacks: list[TrainerCallback] = [ProgressCallback(run.tell, steps, tokens)]
    with ExitStack() as stack:
        stack.enter_context(at_rate(model, tuning.dropout))
        if gates is not None:
            stack.enter_context(gating(model, gates))
            callbacks.append(GateTraining(gates, tuning.gate_rate))
        trainer = TuneTrainer(lesson, task, batches, arguments, callbacks)
        trainer.go_on([] if state is None else whole_checkpoints(state / CHECKPOINTS))
    processes().wait_for_everyone()
    if state is not None and processes().is_main_process:
        strip(state / CHECKPOINTS)  # a curve keeps one for every budget
    for parameter in frozen:
        parameter.requires_grad_(True)
    keep_formats(model.eval(), loaded.model.state_dict())
    history = [row for row in trainer.state.log_history if "loss" in row]
    return FineTuned(replace(loaded, model=model, inputs=None), history)


def check_finetuning(
    loaded: Loaded, task: Task, tuning: FinetuneConfig, gates_learn: bool = False
) -> None:
    """Check that a model can be trained with these settings, before time is spent on it.

    Args:
        loaded: the model.
        task: the task to train on.
        tuning: settings of the training.
        gates_learn: whether gates are trained too.

    Raises:
        InputError: if nothing would be trained, the model has no encoder to train or no dropout to
            set, the task has no such loss, the longest example does not fit into memory, or the
            Trainer would use another GPU.
    """
    check_gpu(loaded.model.device)
    check_not_quantized(loaded.model)
    check_whole(loaded.model, "training")
    check_distillation(task, tuning)
    check_examples_fit(loaded, task, tuning.batch_tokens)
    if tuning.dropout and not rates(loaded.model):
        raise InputError(
            f"Expected a model with dropout to set its rate to {tuning.dropout:g}, got "
            f"{type(loaded.model).__name__}, which has none. Leave dropout out."
        )
    if tuning.trained == "encoder" and "encoder.self" not in loaded.heads.counts:
        raise InputError(
            f"Expected a model with an encoder to train, got "
            f"{type(loaded.model).__name__}, which has none. Set trained to all."
        )
    if tuning.trained == "gates" and not gates_learn:
        raise InputError("Expected gates to train, got none, with trained=gates. Change trained.")


def _batches(task: Task, tuning: FinetuneConfig, seed: int, per_step: int) -> Batches:
    """Enough batches, over enough epochs, for all updates."""
    length_NS = task.length_N[:, None]
    once = Batches(length_NS, tuning.batch_tokens, 1, seed=seed, multiple=per_step)
    epochs = -(-tuning.updates * per_step // once.per_epoch)
    return Batches(length_NS, tuning.batch_tokens, epochs, seed=seed, multiple=per_step)


def _freeze(model: PreTrainedModel, heads: Heads, tuning: FinetuneConfig) -> list[nn.Parameter]:
    """Freeze the parameters that are not trained, and return them."""
    is_encoder = set(heads.counts) == {"encoder.self"}
    if tuning.trained == "all" or (tuning.trained == "encoder" and is_encoder):
        return []
    kept: set[nn.Parameter] = set()
    if tuning.trained == "encoder":
        inside = set(model.get_encoder().modules())
        outside = (module for module in model.modules() if module not in inside)
        shared = {each for module in outside for each in module.parameters(recurse=False)}
        kept = set(model.parameters()) - shared
    frozen = [each for each in model.parameters() if each.requires_grad and each not in kept]
    for parameter in frozen:
        parameter.requires_grad_(False)
    return frozen


def _identity(
    loaded: Loaded,
    task: Task,
    tuning: FinetuneConfig,
    teacher: PreTrainedModel | None,
    seed: int,
    num_processes: int,
) -> dict[str, Any]:
    """Everything that a resumed fine-tuning must have in common with the interrupted one."""
    return {
        "model": revision(loaded.model),
        "tokenizer": loaded.tokenizer and tokenizer_revision(loaded.tokenizer),
        "teacher": None if teacher is None else revision(teacher),
        "task": task.name,
        "data": task.sha256,
        "seed": seed,
        "processes": num_processes,
    } | {f"tuning.{name}": value for name, value in asdict(tuning).items()}
