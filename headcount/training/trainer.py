"""transformers' Trainer over batches by length, with a task as its development set."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from torch import nn
from torch.utils.data import DataLoader
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerState,
)
from transformers.trainer import TRAINER_STATE_NAME

from headcount.tasks import Task, Translation, evaluate
from headcount.training.bucketed import Batches
from headcount.training.checkpoints import remove_early, saving
from headcount.training.diverged import FiniteLoss
from headcount.training.dropout import FastDropout
from headcount.training.examples import Examples
from headcount.training.objective import smoothed
from headcount.training.recipe import Recipe


@final
@dataclass(frozen=True)
class Score:
    """What says which of two checkpoints is better."""

    name: str
    higher_is_better: bool


@final
class BucketedTrainer(Seq2SeqTrainer):
    """Trains on `Batches`: one pass of the Trainer's is the whole training.

    Args:
        model: what is trained.
        recipe: how.
        examples: make the model's inputs.
        batches: which examples come when.
        arguments: of transformers' Trainer, see `training_arguments`.
        dev: the development set, if there is one.
        patience: evaluations without a better score after which training stops; None for never.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        examples: Examples,
        batches: Batches,
        arguments: Seq2SeqTrainingArguments,
        dev: Task | None = None,
        patience: int | None = None,
    ) -> None:
        task: Any = dev
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=batches,
            eval_dataset=task,
            compute_loss_func=smoothed(recipe.label_smoothing),
            callbacks=[
                FiniteLoss(),
                *([] if patience is None else [EarlyStoppingCallback(patience)]),
            ],
        )
        self.remove_callback(PrinterCallback)
        self.dev, self._examples, self._batches = dev, examples, batches
        self._keep = recipe.average
        # Else every forward is handed `num_items_in_batch`, down to the attention function.
        self.model_accepts_loss_kwargs = False

    @property
    def steps_per_epoch(self) -> float:
        """Steps of one pass over the data."""
        arguments = self.args
        per_step = arguments.world_size * arguments.gradient_accumulation_steps
        return self._batches.per_epoch / per_step

    def go_on(self, whole: Sequence[Path]) -> None:
        """Train from the last of some checkpoints, or from the start; not if it stopped there."""
        state = TrainerState.load_from_json(str(whole[-1] / TRAINER_STATE_NAME)) if whole else None
        if state is not None and _has_stopped(state):
            self.state = state  # `train` would make one step more before it looks
        else:
            self.train(resume_from_checkpoint=str(whole[-1]) if whole else None)

    def get_train_dataloader(self) -> DataLoader:
        """Batch after batch; accelerate deals them out to the processes in turn."""
        loader = DataLoader(
            self._batches,
            batch_size=1,
            collate_fn=lambda numbered: self._examples.collate(*numbered[0]),
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)

    def compute_loss_context_manager(self) -> ExitStack:
        """The Trainer's own, with our dropout."""
        contexts = super().compute_loss_context_manager()
        contexts.enter_context(FastDropout())
        return contexts

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

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self.args.output_dir or ".") / f"checkpoint-{self.state.global_step}"
        with saving(folder, self.is_world_process_zero()):
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            remove_early(folder.parent, self._keep, self.state.best_global_step)


def _has_stopped(state: TrainerState) -> bool:
    """Whether patience or the number of steps had ended the training when this was saved."""
    saved: Any = state.stateful_callbacks
    return saved["TrainerControl"]["args"]["should_training_stop"]


def dev_numbers(model: PreTrainedModel, dev: Task) -> dict[str, float]:
    """`loss` in nats a token, and the task's score by its name."""
    evaluation = evaluate(model, dev, texts=isinstance(dev, Translation))
    loss = float(np.sum(evaluation.loss_N) / np.sum(evaluation.count_N))
    return {"loss": loss, dev.metric: dev.score(evaluation)}


def training_arguments(
    recipe: Recipe, folder: Path, seed: int, save_every: int, device: str, score: Score | None
) -> Seq2SeqTrainingArguments:
    """The Trainer's arguments of a recipe.

    Args:
        recipe: how the model is trained.
        folder: of the checkpoints.
        seed: of dropout.
        save_every: steps between two checkpoints.
        device: `cpu` or `cuda`.
        score: by which checkpoints are compared on a development set; None if there is none.

    Returns:
        Arguments whose `max_steps` is yet to be set, once the batches are known.
    """
    return Seq2SeqTrainingArguments(
        output_dir=str(folder),
        max_steps=1,
        gradient_accumulation_steps=recipe.accumulate,
        learning_rate=recipe.peak,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=recipe.warmup,
        adam_beta2=recipe.beta2,
        max_grad_norm=recipe.clip,
        optim="adamw_torch_fused",
        bf16=recipe.precision == "bfloat16",
        use_cpu=device == "cpu",
        seed=seed,
        save_steps=save_every,
        # The Trainer would remove earlier ones before the new one is whole.
        save_total_limit=None,
        logging_steps=min(100, save_every),
        logging_nan_inf_filter=False,
        eval_strategy="no" if score is None else "steps",
        eval_steps=save_every,
        metric_for_best_model=None if score is None else f"eval_{score.name}",
        greater_is_better=None if score is None else score.higher_is_better,
        restore_callback_states_from_checkpoint=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=device != "cpu",
        ddp_find_unused_parameters=False,
    )
