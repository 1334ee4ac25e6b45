"""Fine-tuning on a task: a control, gates that learn, or the recovery of a pruned model.

Batches are random by epoch and alike in length, as in training from scratch; with a folder for its
state a killed fine-tuning goes on where it was.
"""

import copy
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from torch import nn
from transformers import PreTrainedModel, TrainerCallback

from headcount.errors import InputError
from headcount.gates import GateTraining, HeadGates, gating
from headcount.heads import Heads
from headcount.models.formats import keep_formats
from headcount.models.load import Loaded
from headcount.processes import processes
from headcount.signature import revision, tokenizer_revision
from headcount.tasks import Task
from headcount.training.bucketed import Batches
from headcount.training.checkpoints import remove_broken, strip, whole_checkpoints
from headcount.training.dropout_rates import at_rate, rates
from headcount.training.job import claim
from headcount.training.lesson import Lesson, refuse_lesson
from headcount.training.telling import Tell, Telling
from headcount.training.tune_trainer import TuneTrainer, refuse_other_gpu, tuning_arguments
from headcount.training.tuning import Tuning

CHECKPOINTS = "checkpoints"


@final
@dataclass(frozen=True, eq=False)
class FineTuned:
    """A model that was trained on."""

    loaded: Loaded
    """A copy of the one that was given, with weights that learned."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """What was logged: step, loss, learning rate, and the gates' numbers."""


def finetune(
    loaded: Loaded,
    task: Task,
    tuning: Tuning,
    gates: HeadGates | None = None,
    teacher: PreTrainedModel | None = None,
    seed: int = 0,
    state: Path | None = None,
    about: Mapping[str, Any] | None = None,
    tell: Tell = lambda moment: None,
) -> FineTuned:
    """Train a copy of a model on a task's data.

    Args:
        loaded: a model with its tokenizer, which is left as it is.
        task: gives batches and losses.
        tuning: how.
        gates: that the heads' outputs pass; they learn too.
        teacher: what answers are distilled from.
        seed: of batches and dropout.
        state: folder of the checkpoints; an interrupted fine-tuning goes on there.
        about: what more must be the same in a fine-tuning that goes on; what is named as something
            that must be so anyway (`model`) takes its place.
        tell: is told how far it is.

    Raises:
        InputError: the state is of another fine-tuning, or can't be written; the task can't be
            trained on.
        ModelError: the loss is no longer a finite number.
    """
    refuse_tuning(loaded, task, tuning, gates is not None and bool(list(gates.parameters())))
    arguments = tuning_arguments(tuning, state and state / CHECKPOINTS, seed, loaded.model.device)
    model = copy.deepcopy(loaded.model).float()
    frozen = _freeze(model, loaded.heads, tuning)
    lesson = Lesson(model, task, tuning, teacher)
    per_step = arguments.world_size * tuning.accumulate
    batches = _batches(task, tuning, seed, per_step)
    if state is not None and processes().is_main_process:
        same = _identity(loaded, task, tuning, teacher, seed, arguments.world_size)
        claim(state, same | dict(about or {}), resume=True, overwrite=False)
        remove_broken(state / CHECKPOINTS)
    processes().wait_for_everyone()
    # What the epoch is measured in, and what the speed: padded tokens.
    steps, tokens = batches.per_epoch / per_step, int(task.length_N.sum())
    callbacks: list[TrainerCallback] = [Telling(tell, steps, tokens)]
    with ExitStack() as stack:
        stack.enter_context(at_rate(model, tuning.dropout))
        if gates is not None:
            stack.enter_context(gating(model, gates))
            callbacks.append(GateTraining(gates, tuning.gate_rate))
        trainer = TuneTrainer(lesson, task, batches, arguments, callbacks)
        trainer.go_on([] if state is None else whole_checkpoints(state / CHECKPOINTS))
    processes().wait_for_everyone()
    if state is not None and processes().is_main_process:
        strip(state / CHECKPOINTS)  # a curve keeps one of every budget
    for parameter in frozen:
        parameter.requires_grad_(True)
    keep_formats(model.eval(), loaded.model.state_dict())
    history = [row for row in trainer.state.log_history if "loss" in row]
    return FineTuned(Loaded(model, loaded.tokenizer, loaded.name), history)


def refuse_tuning(loaded: Loaded, task: Task, tuning: Tuning, gates_learn: bool = False) -> None:
    """See that a model can be trained so, before anything is spent on it.

    Args:
        loaded: the model.
        task: that it would be trained on.
        tuning: how.
        gates_learn: whether there are gates that learn too.

    Raises:
        InputError: if nothing would learn, the model has no encoder to train or no dropout to set,
            the task has no such loss, or the Trainer would take another GPU.
    """
    refuse_other_gpu(loaded.model.device)
    refuse_lesson(task, tuning)
    if tuning.dropout and not rates(loaded.model):
        raise InputError(
            f"a model with dropout was expected, since its rate is to be {tuning.dropout:g}; "
            f"{type(loaded.model).__name__} has none: leave dropout out"
        )
    if tuning.trained == "encoder" and "encoder.self" not in loaded.heads.counts:
        raise InputError(
            f"an encoder was expected, since only it is to be trained; "
            f"{type(loaded.model).__name__} has none: set trained to all"
        )
    if tuning.trained == "gates" and not gates_learn:
        raise InputError("gates that learn were expected, since nothing else is to be trained")


def _batches(task: Task, tuning: Tuning, seed: int, per_step: int) -> Batches:
    """As many as the updates take, over as many epochs as that is."""
    length_NS = task.length_N[:, None]
    once = Batches(length_NS, tuning.batch_tokens, 1, seed, per_step)
    epochs = -(-tuning.updates * per_step // once.per_epoch)
    return Batches(length_NS, tuning.batch_tokens, epochs, seed, per_step)


def _freeze(model: PreTrainedModel, heads: Heads, tuning: Tuning) -> list[nn.Parameter]:
    """Freeze what is not to learn, and say what that is."""
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
    tuning: Tuning,
    teacher: PreTrainedModel | None,
    seed: int,
    num_processes: int,
) -> dict[str, Any]:
    """Everything that a resumed fine-tuning must share with the one that was interrupted."""
    return {
        "model": revision(loaded.model),
        "tokenizer": loaded.tokenizer and tokenizer_revision(loaded.tokenizer),
        "teacher": None if teacher is None else revision(teacher),
        "task": task.name,
        "data": task.sha256,
        "seed": seed,
        "processes": num_processes,
    } | {f"tuning.{name}": value for name, value in asdict(tuning).items()}
