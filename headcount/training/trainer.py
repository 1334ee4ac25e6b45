"""transformers' Trainer over batches by length."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Seq2SeqTrainer, TrainerCallback
from transformers import Seq2SeqTrainingArguments as Arguments

from headcount.training.bucketed import Batches
from headcount.training.objective import smoothed
from headcount.training.recipe import Recipe


class Examples(Protocol):
    """What an objective makes of the data."""

    @property
    def length_N2(self) -> Int[np.ndarray, "example 2"]:
        """Tokens of both sides."""
        ...

    def collate(self, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """The model's inputs with labels."""
        ...


class BucketedTrainer(Seq2SeqTrainer):
    """Trains on `Batches`; one pass of the Trainer's is the whole training."""

    def __init__(self, examples: Examples, batches: Batches, **options: Any) -> None:
        super().__init__(train_dataset=batches, **options)
        self.examples = examples
        # Else every forward is handed `num_items_in_batch`, down to the attention function.
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> DataLoader:
        """Batch after batch; accelerate deals them out to the processes in turn."""
        assert self.train_dataset is not None
        loader = DataLoader(
            self.train_dataset,
            batch_size=1,
            collate_fn=lambda chosen: self.examples.collate(chosen[0]),
        )
        return self.accelerator.prepare(loader)


def training_arguments(
    recipe: Recipe, out: Path, steps: int, seed: int, save_every: int, device: str, **more: Any
) -> Arguments:
    """The Trainer's arguments of a recipe."""
    return Arguments(
        output_dir=str(out),
        max_steps=steps,
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
        save_total_limit=max(recipe.average, 1),
        logging_steps=min(100, save_every),
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=device != "cpu",
        **more,
    )
