r"""Training on batches of similar length, with the Trainer of transformers.

Batches by length: examples of similar length together, up to a budget of padded tokens.

Every epoch shuffles all examples, divides them into pools of about a hundred batches each, sorts
each pool by length, cuts it into batches and shuffles all batches. So the examples of a batch are
similar in the length of their longer side (not of both), and meet other examples in every epoch.
Batch i of a training can be found without running those before it, so a training resumes with the
batch at which it stopped.

All epochs have as many batches as the first. An epoch with more batches drops some; an epoch with
fewer repeats some.

Examples can be concatenated in pairs, which change in every epoch.

Reference: Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation
(Kondo et al., 2021), section 3, https://arxiv.org/abs/2104.08478
Departure: pairs replace their two examples, with no separator symbol between them.

Checkpoints are complete, see `checkpoints`.

Dropout on a CPU with sixteen random bits per mask element.

$$y_i = \frac{x_i m_i}{1 - q}, \qquad P(m_i = 0) = q = \mathrm{round}(2^{16} p) / 2^{16}$$

On a CPU, torch draws a mask element by element in one thread, which takes a fifth of a small
model's step. Here four elements share one 64-bit draw of the same generator, so a resumed training
draws the same masks.

Reference: Dropout: A Simple Way to Prevent Neural Networks from Overfitting (Srivastava et al.,
2014), section 10, https://jmlr.org/papers/v15/srivastava14a.html
Departure: the dropped share is p rounded to a multiple of 1/65,536.
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import dropout
from torch.utils.data import DataLoader, Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME

from headcount.core import InputError, amount, reading
from headcount.training.callbacks import FiniteLoss, Paced
from headcount.training.checkpoints import check_resumable, check_whole, remove_early, saving
from headcount.training.config import Optimization
from headcount.training.muon import Instead, factory

NO_PART = -1
"""Stands in for the second part of an example that is not in a pair."""

POOL = 100
"""Approximate number of batches in a pool of examples."""

Parts = Int[np.ndarray, "row part"]
"""Indices of the one example, or two concatenated examples, in each row."""

Numbered = tuple[int, Parts]
"""A batch's number in the training, and its examples."""


@final
@dataclass(frozen=True)
class Pairing:
    """How many examples are concatenated in pairs; none by default."""

    share: float = 0.0
    """Share of the examples to concatenate, as far as `longest` allows."""
    longest: int = 256
    """Largest number of tokens on a side of a pair."""


ALONE = Pairing()
"""No pairs."""


@final
class Batches(Dataset):
    """All batches of all epochs.

    Args:
        length_NS: number of tokens on each side of every example.
        max_tokens: the largest number of examples in a batch times its longest side; a longer
            example is a batch of its own.
        epochs: number of passes over the examples.
        seed: seed of the order.
        multiple: the number of batches in an epoch is rounded down to a multiple of this, so that
            all steps of all processes get equally many; the batches left out vary by epoch.
        pairing: which examples are concatenated in pairs.

    Raises:
        InputError: if there are fewer batches than `multiple`.
    """

    def __init__(
        self,
        length_NS: Int[np.ndarray, "example side"],
        max_tokens: int,
        epochs: int,
        *,
        seed: int,
        multiple: int = 1,
        pairing: Pairing = ALONE,
    ) -> None:
        self._length_NS, self._epochs, self._seed = length_NS, epochs, seed
        self._max_tokens, self._pairing = max_tokens, pairing
        self._epoch, self._batches = 0, self._planned(0)
        num_batches = len(self._batches)
        self.per_epoch = num_batches // multiple * multiple
        if not self.per_epoch:
            remedy = (
                "Start fewer processes, or lower accumulate."
                if len(length_NS) < multiple
                else f"Set batch_tokens lower than {max_tokens}."
            )
            raise InputError(
                f"Expected at least {amount(multiple, 'batch')}, one for each process and "
                f"accumulated gradient, got {num_batches} from the data. {remedy}"
            )

    def __len__(self) -> int:
        return self.per_epoch * self._epochs

    def __getitem__(self, index: int) -> Numbered:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._planned(epoch)
        return index, self._batches[place % len(self._batches)]

    def _planned(self, epoch: int) -> list[Parts]:
        generator = np.random.default_rng((self._seed, epoch))
        order_N = generator.permutation(len(self._length_NS))
        part_EP, length_ES = paired(self._length_NS, order_N, self._pairing)
        order_E = _sorted_in_pools(length_ES.max(1), self._max_tokens, generator)
        found = cuts(length_ES[order_E].max(1), self._max_tokens)
        return [part_EP[order_E[found[number]]] for number in generator.permutation(len(found))]


def _sorted_in_pools(
    length_E: Int[np.ndarray, " row"], max_tokens: int, generator: np.random.Generator
) -> Int[np.ndarray, " row"]:
    """Row order: random pools, sorted by length, alternately ascending and descending.

    So the batch at the border of two pools has similar lengths too.
    """
    size = max(1, int(POOL * max_tokens / length_E.mean()))
    pool_E = generator.permutation(len(length_E)) // size
    return np.lexsort((np.where(pool_E % 2, -length_E, length_E), pool_E))


def paired(
    length_NS: Int[np.ndarray, "example side"],
    order_N: Int[np.ndarray, " example"],
    pairing: Pairing,
) -> tuple[Parts, Int[np.ndarray, "row side"]]:
    """Rows with the first share of the examples in pairs and the others alone, and their lengths.

    A pair has no end symbol in its middle. Pairs that would be too long are not formed.
    """
    num_pairs = int(pairing.share * len(order_N) / 2)
    if not num_pairs:
        return order_N[:, None], length_NS[order_N]
    pair_EP = order_N[: 2 * num_pairs].reshape(-1, 2)
    length_ES = length_NS[pair_EP].sum(1) - 1
    fits_E = (length_ES <= pairing.longest).all(1)
    alone_N = np.concatenate([order_N[2 * num_pairs :], pair_EP[~fits_E].flatten()])
    alone_EP = np.stack([alone_N, np.full(len(alone_N), NO_PART)], 1)
    return (
        np.concatenate([pair_EP[fits_E], alone_EP]),
        np.concatenate([length_ES[fits_E], length_NS[alone_N]]),
    )


def cuts(length_N: Int[np.ndarray, " example"], max_tokens: int) -> list[slice]:
    """Slices that cut a sequence of examples into batches of at most `max_tokens` padded tokens."""
    found, first, longest = [], 0, 0
    for index, length in enumerate(length_N.tolist()):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > max_tokens:
            found.append(slice(first, index))
            first, longest = index, length
    return [*found, slice(first, len(length_N))]


LEVELS = 2**16
DRAW_BYTES = 8
"""Number of bytes in one draw of the generator."""


def fast_dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """What takes the place of `torch.nn.functional.dropout`: `dropped` on a CPU."""
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
            callbacks=[FiniteLoss(), Paced(), *callbacks],
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
    with Instead({dropout: fast_dropout}), attention:
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
