r"""transformers' Trainer over batches grouped by length, with checkpoints that are complete.

Dropout on a CPU with sixteen random bits per mask element.

$$y_i = \frac{x_i m_i}{1 - q}, \qquad P(m_i = 0) = q = \mathrm{round}(2^{16} p) / 2^{16}$$

On a CPU, torch draws a mask element by element in one thread, which takes a fifth of a small
model's step. Here four elements share one 64-bit draw of the same generator, so a resumed training
draws the same masks.

Reference: Dropout: A Simple Way to Prevent Neural Networks from Overfitting (Srivastava et al.,
2014), section 10, https://jmlr.org/papers/v15/srivastava14a.html
Departure: the dropped share is p rounded to a multiple of 1/65,536.
"""

import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import dropout
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader
from transformers import (
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import TRAINER_STATE_NAME

from headcount.core import ModelError, reading
from headcount.training.bucketed import Batches, Parts
from headcount.training.checkpoints import check_resumable, check_whole, remove_early, saving
from headcount.training.optim.muon import factory
from headcount.training.optim.optimization import Optimization

LEVELS = 2**16
DRAW_BYTES = 8
"""Number of bytes in one draw of the generator."""


@final
class FastDropout(TorchFunctionMode):
    """A context that replaces `torch.nn.functional.dropout` on a CPU by `dropped`."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        if func is dropout:
            return _replaced(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _replaced(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if training and 0 < p < 1 and not inplace and input.device.type == "cpu":
        return dropped(input, p)
    return dropout(input, p, training, inplace)


def dropped(x: Tensor, p: float) -> Tensor:
    """Set a share of about p of a tensor to 0, and scale up the rest to keep the mean.

    Args:
        x: any floating-point tensor on the CPU.
        p: 0 < p < 1.
    """
    num_draws = -(-x.numel() * 2 // DRAW_BYTES)
    draws = torch.empty(num_draws, dtype=torch.int64).random_(-(2**63), None)
    level = draws.view(torch.int16)[: x.numel()].view(x.shape)
    num_dropped = min(round(p * LEVELS), LEVELS - 1)
    kept = level >= num_dropped - LEVELS // 2
    return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - num_dropped))


@final
class FiniteLoss(TrainerCallback):
    """Ends a training whose loss is not finite, before the model is saved or evaluated."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Log, and so check, the loss before every checkpoint."""
        control.should_log |= control.should_save

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Check the mean loss since the last log.

        Raises:
            ModelError: if the loss is infinite or NaN.
        """
        numbers = logs or {}
        if not math.isfinite(numbers.get("loss", 0.0)):
            raise ModelError(
                f"Expected a finite training loss, got {numbers['loss']} at step "
                f"{state.global_step}, with learning rate {numbers['learning_rate']:.3g}. Lower "
                "peak or raise warmup, and start again."
            )


class BatchesTrainer(Trainer, ABC):
    """Trains on `Batches`. One epoch of the Trainer is the entire training.

    Args:
        model: the model to train.
        batches: the examples of every batch, in order.
        arguments: arguments of transformers' Trainer.
        optimization: the optimizer with its options.
        callbacks: further callbacks.
        keep: number of latest checkpoints to keep.
        more: further keyword arguments of the Trainer.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        arguments: TrainingArguments,
        optimization: Optimization,
        callbacks: Sequence[TrainerCallback] = (),
        keep: int = 1,
        **more: Any,
    ) -> None:
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=batches,
            callbacks=[FiniteLoss(), *callbacks],
            optimizer_cls_and_kwargs=factory(optimization),
            **more,
        )
        self.remove_callback(PrinterCallback)
        self._batches, self._keep = batches, keep
        # Otherwise `num_items_in_batch` is passed to every forward, down to the attention function.
        self.model_accepts_loss_kwargs = False
        # All labels are at the positions that predict them. For a causal model, the Trainer would
        # skip a column when it counts the tokens that a step's loss is divided by.
        self._loss_shifts_labels = False

    @abstractmethod
    def collate(self, number: int, part_EP: Parts) -> dict[str, Any]:
        """The model's inputs for batch `number` of the training, made of these examples."""

    def go_on(self, whole: Sequence[Path]) -> None:
        """Train from the last checkpoint or from the start; if training had ended, only load it."""
        state = _state_of(whole[-1]) if whole else None
        if state is not None and _has_stopped(state):
            self._load_from_checkpoint(str(whole[-1]))
            self.state = state  # `train` would take one more step before it checks
        else:
            if whole:
                check_resumable(whole[-1])
            self.train(resume_from_checkpoint=str(whole[-1]) if whole else None)

    def get_train_dataloader(self) -> DataLoader:
        """A loader of single batches, which accelerate deals out to the processes in turn."""
        loader = DataLoader(
            self._batches,
            batch_size=1,
            collate_fn=lambda numbered: self.collate(*numbered[0]),
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)

    def compute_loss_context_manager(self) -> ExitStack:
        """The Trainer's own contexts, plus those of `quicker_steps`."""
        contexts = super().compute_loss_context_manager()
        contexts.enter_context(quicker_steps(self.args.device))
        return contexts

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self.args.output_dir or ".") / f"checkpoint-{self.state.global_step}"
        with saving(folder, self.is_world_process_zero()):
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            remove_early(folder.parent, self._keep, self.state.best_global_step)


@contextmanager
def quicker_steps(device: torch.device) -> Iterator[None]:
    """Use our fast dropout and, on CPUs, attention made of plain products.

    On CPUs, the backward pass of fused sdpa took a third of each step on short sentences.
    """
    attention = sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()
    with FastDropout(), attention:
        yield


def _state_of(checkpoint: Path) -> TrainerState:
    """The Trainer's state in a checkpoint, once its files are those that were saved."""
    check_whole(checkpoint)
    file = checkpoint / TRAINER_STATE_NAME
    with reading(file, "the state of a training"):
        state = TrainerState.load_from_json(str(file))
        _has_stopped(state)
    return state


def _has_stopped(state: TrainerState) -> bool:
    """Whether training had ended, by patience or the number of steps, when this was saved."""
    saved: Any = state.stateful_callbacks
    return saved["TrainerControl"]["args"]["should_training_stop"]


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
