"""The Trainer that trains from scratch by a recipe, with a task as its development set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from transformers import EarlyStoppingCallback, PreTrainedModel, TrainingArguments

from headcount.tasks import Task, evaluate
from headcount.training.batches_trainer import BatchesTrainer
from headcount.training.bucketed import Batches, Parts
from headcount.training.consistency import consistent, twice
from headcount.training.examples import Examples
from headcount.training.muon import factory
from headcount.training.objective import TrainingLoss, smoothed
from headcount.training.optimization import trainer_arguments
from headcount.training.recipe import Recipe


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
        patience: evaluations without a better score after which training stops; None for never.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        examples: Examples,
        batches: Batches,
        arguments: TrainingArguments,
        dev: Task | None = None,
        patience: int | None = None,
    ) -> None:
        super().__init__(
            model, batches, arguments,
            [] if patience is None else [EarlyStoppingCallback(patience)],
            recipe.average,
            eval_dataset=dev,
            compute_loss_func=_loss(recipe),
            optimizer_cls_and_kwargs=factory(recipe),
        )  # fmt: skip
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


def _loss(recipe: Recipe) -> TrainingLoss:
    if recipe.consistency:
        return consistent(recipe.label_smoothing, recipe.consistency)
    return smoothed(recipe.label_smoothing)


def dev_numbers(model: PreTrainedModel, dev: Task) -> dict[str, float]:
    """The `loss` in nats a token, and the task's score under its name."""
    evaluation = evaluate(model, dev, texts=True)
    return {"loss": evaluation.loss, dev.metric: dev.score(evaluation)}


def training_arguments(
    recipe: Recipe, folder: Path, seed: int, save_every: int, device: str, score: Score | None
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
