"""The Trainer that trains from scratch by a recipe, with a task as its development set.

After the training the last checkpoints are averaged into the final model. If there is a development
set, the checkpoint with the best score on it (transformers' Trainer keeps it) becomes the model
instead if it beats the average there.

Reference for averaging: Attention Is All You Need (Vaswani et al., 2017), section 6.1,
https://arxiv.org/abs/1706.03762
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss
from transformers import PreTrainedModel, TrainingArguments
from transformers.utils import SAFE_WEIGHTS_NAME
from transformers.utils.generic import ModelOutput

from headcount.papers.pretraining.examples import Collate, Encoded
from headcount.papers.pretraining.recipe import ModelRecipe
from headcount.tasks import IGNORED, Task, evaluate
from headcount.training import (
    Batches,
    BatchesTrainer,
    Parts,
    Targets,
    check_whole,
    soft_cross_entropy,
    whole_checkpoints,
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
class RecipeTrainer(BatchesTrainer):
    """Trains a model on examples by a recipe.

    Args:
        model: the model to train.
        recipe: settings of the training.
        encoded: the text.
        collate: makes the model's inputs of it.
        batches: the examples of every batch, in order.
        arguments: arguments of transformers' Trainer.
        dev: the development set, if there is one.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: ModelRecipe,
        encoded: Encoded,
        collate: Collate,
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
            compute_loss_func=consistent(recipe.label_smoothing, recipe.consistency)
            if recipe.consistency
            else smoothed(recipe.label_smoothing),
        )
        self.dev, self._encoded, self._collate = dev, encoded, collate
        self._twice = recipe.consistency > 0

    @property
    def steps_per_epoch(self) -> float:
        """Number of steps in one pass over the data."""
        arguments = self.args
        per_step = arguments.world_size * arguments.gradient_accumulation_steps
        return self._batches.per_epoch / per_step

    def collate(self, number: int, part_EP: Parts) -> dict[str, Any]:
        """The model's inputs and labels for one batch."""
        inputs = self._collate(self._encoded, number, part_EP)
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


def dev_numbers(model: PreTrainedModel, dev: Task) -> dict[str, float]:
    """The `loss` in nats a token, and the task's score under its name."""
    evaluation = evaluate(model, dev, texts=True)
    return {"loss": evaluation.loss, dev.metric: dev.score(evaluation)}


@final
@dataclass(frozen=True)
class Candidate:
    """One set of weights that may become the model."""

    name: str
    checkpoints: tuple[Path, ...]
    dev: dict[str, float] = field(default_factory=dict)
    """`loss` in nats a token, and the score; empty without a development set."""


def candidates(folder: Path, best: int | None, average: int) -> list[Candidate]:
    """The average of the last checkpoints, and the best checkpoint, that of step `best`."""
    last = whole_checkpoints(folder)[-average:]
    steps = [path.name.removeprefix("checkpoint-") for path in last]
    name = f"average of steps {', '.join(steps)}" if len(last) > 1 else f"step {steps[0]}"
    found = [Candidate(name, tuple(last))]
    # The Trainer's path of the best checkpoint is not used: it is wrong once the folder has moved.
    if best is not None and [folder / f"checkpoint-{best}"] != last:
        found.append(Candidate(f"step {best}, the best one", (folder / f"checkpoint-{best}",)))
    return found


def averaged(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of some checkpoints, summed in float64."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in checkpoints:
        check_whole(path)
        with safe_open(path / SAFE_WEIGHTS_NAME, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (it is no dict)
                weight = file.get_tensor(name)
                kinds[name] = weight.dtype
                sums[name] = sums.get(name, 0) + weight.double()
    return {name: (total / len(checkpoints)).to(kinds[name]) for name, total in sums.items()}


def set_weights(model: PreTrainedModel, checkpoints: tuple[Path, ...]) -> None:
    """Set a model's weights to the mean over some checkpoints."""
    weights = averaged(checkpoints)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = set(model.all_tied_weights_keys)
    assert not unexpected and set(missing) <= tied, (missing, unexpected)
    model.tie_weights()


def choose(model: PreTrainedModel, found: list[Candidate], dev: Task | None) -> list[Candidate]:
    """The candidates with their scores, best first; the model gets the weights of the best."""
    if dev is None:
        ranked = found
    else:
        judged = []
        for candidate in found:
            set_weights(model, candidate.checkpoints)
            judged.append(replace(candidate, dev=dev_numbers(model, dev)))
        sign = -1 if dev.higher_is_better else 1
        metric = dev.metric
        ranked = sorted(judged, key=lambda candidate: sign * candidate.dev[metric])
    set_weights(model, ranked[0].checkpoints)
    return ranked
