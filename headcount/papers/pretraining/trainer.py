"""The Trainer that trains from scratch by a recipe, with a task as its development set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss
from transformers import PreTrainedModel, TrainingArguments
from transformers.utils.generic import ModelOutput

from headcount.papers.pretraining.examples import Examples
from headcount.papers.pretraining.recipe import ModelRecipe
from headcount.tasks import IGNORED, Task, evaluate
from headcount.training import (
    Batches,
    BatchesTrainer,
    Parts,
    Targets,
    soft_cross_entropy,
    trainer_arguments,
)

TrainingLoss = Callable[..., Tensor]


def smoothed(smoothing: float) -> TrainingLoss:
    """A `compute_loss_func` of transformers' Trainer; labels are at the positions that predict."""

    def loss(
        outputs: ModelOutput, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        targets = Targets(smoothing)
        return soft_cross_entropy(outputs["logits"], labels, targets, count=num_items_in_batch)

    return loss


def twice(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One batch with every example twice: rows i and E + i are example i of E."""
    return {name: torch.cat([each, each]) for name, each in inputs.items()}


def consistent(smoothing: float, weight: float) -> TrainingLoss:
    """A `compute_loss_func` of transformers' Trainer for batches made by `twice`.

    Args:
        smoothing: label smoothing, as in `smoothed`.
        weight: the paper's alpha.
    """

    def loss(
        outputs: ModelOutput, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        is_counted = labels != IGNORED
        log_p_TV = log_softmax(outputs["logits"][is_counted].float(), -1)
        summed = (1 - smoothing) * nll_loss(log_p_TV, labels[is_counted], reduction="sum")
        if smoothing:
            summed = summed - smoothing * log_p_TV.mean(-1).sum()
        first_TV, second_TV = log_p_TV.chunk(2)
        apart = ((first_TV.exp() - second_TV.exp()) * (first_TV - second_TV)).sum()
        count = is_counted.sum() if num_items_in_batch is None else num_items_in_batch
        # The count includes both halves. A batch may have nothing to predict.
        return (summed + weight / 2 * apart) / torch.as_tensor(count).clamp(min=1)

    return loss


@final
@dataclass(frozen=True)
class Score:
    """The score that decides which of two checkpoints is better."""

    name: str
    higher_is_better: bool


@final
class RecipeTrainer(BatchesTrainer):
    """Trains a model on examples by a recipe.

    Args:
        model: the model to train.
        recipe: settings of the training.
        examples: the examples, which make the model's inputs.
        batches: the examples of every batch, in order.
        arguments: arguments of transformers' Trainer, made by `training_arguments`.
        dev: the development set, if there is one.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: ModelRecipe,
        examples: Examples,
        batches: Batches,
        arguments: TrainingArguments,
        *,
        dev: Task | None = None,
    ) -> None:
        super().__init__(
            model,
            batches,
            arguments,
            recipe,
            keep=recipe.average,
            eval_dataset=dev,
            compute_loss_func=_loss(recipe),
        )
        self.dev, self._examples = dev, examples
        self._twice = recipe.consistency > 0

    @property
    def steps_per_epoch(self) -> float:
        """Number of steps in one pass over the data."""
        arguments = self.args
        per_step = arguments.world_size * arguments.gradient_accumulation_steps
        return self._batches.per_epoch / per_step

    def collate(self, number: int, part_EP: Parts) -> dict[str, Any]:
        """The model's inputs and labels for one batch."""
        inputs = dict(self._examples.collate(number, part_EP))
        return twice(inputs) if self._twice else inputs

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Loss and score on the development set."""
        assert self.dev is not None
        model = self.accelerator.unwrap_model(self.model)
        metrics = {f"eval_{name}": value for name, value in dev_numbers(model, self.dev).items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


def _loss(recipe: ModelRecipe) -> TrainingLoss:
    if recipe.consistency:
        return consistent(recipe.label_smoothing, recipe.consistency)
    return smoothed(recipe.label_smoothing)


def dev_numbers(model: PreTrainedModel, dev: Task) -> dict[str, float]:
    """The `loss` in nats a token, and the task's score under its name."""
    evaluation = evaluate(model, dev, texts=True)
    return {"loss": evaluation.loss, dev.metric: dev.score(evaluation)}


def training_arguments(
    recipe: ModelRecipe, folder: Path, seed: int, save_every: int, device: str, score: Score | None
) -> TrainingArguments:
    """The Trainer's arguments for a recipe.

    Args:
        recipe: settings of the training.
        folder: folder of the checkpoints.
        seed: seed of dropout.
        save_every: steps between two checkpoints.
        device: `cpu` or `cuda`.
        score: score that compares checkpoints on a development set; None if there is none.

    Returns:
        Arguments whose `max_steps` must still be set once the batches are known.
    """
    return trainer_arguments(
        recipe,
        folder,
        seed,
        save_every,
        device,
        max_steps=1,
        logging_steps=min(100, save_every),
        eval_strategy="no" if score is None else "steps",
        eval_steps=save_every,
        metric_for_best_model=None if score is None else f"eval_{score.name}",
        greater_is_better=None if score is None else score.higher_is_better,
        ddp_find_unused_parameters=False,
    )
