r"""Gate training: a callback by which any transformers Trainer learns gates.

In every step the gradient of the penalty joins that of the gates' parameters, and what the
optimizer then does to them is scaled to a learning rate of their own:

$$\theta \leftarrow \theta + \frac{\eta_{gates}}{\eta} \Delta\theta$$

with $\eta$ the optimizer's own rate for them at its peak: that which its schedule began with (of a
`OneCycleLR` the highest), or which the caller names.

So the penalty joins whatever loss the Trainer has, after accumulation, clipping and the exchange
between processes; one optimizer, one schedule and one checkpoint hold everything; and weight decay
leaves the gates alone.
"""

from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headcount.errors import InputError
from headcount.gates.head_gates import HeadGates


@final
class GateTraining(TrainerCallback):
    """Trains the gates of a `gating` block along with the model.

    Args:
        gates: those of the block.
        rate: their learning rate where that of the weights is at its peak.
        peak: that peak, if the optimizer does not tell: where a schedule's factors end far from 1,
            as those of Vaswani et al. (2017).
    """

    def __init__(
        self, gates: HeadGates, rate: int | float = 0.1, peak: int | float | None = None
    ) -> None:
        self.gates, self.rate, self.peak = gates, rate, peak
        self._before: list[Tensor] = []
        self._peaks: list[float] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """See that the optimizer has the gates.

        Raises:
            InputError: if it does not, or with no rate above 0, or gradients are scaled when the
                penalty joins them, or layers are run again so that gates get no gradient, or one
                process has several GPUs.
        """
        if args.n_gpu > 1:
            raise InputError(
                f"a process for each of the {args.n_gpu} GPUs was expected, since gates are of "
                "one copy of the model: start the script with `torchrun --nproc-per-node`, or name "
                "one GPU in CUDA_VISIBLE_DEVICES"
            )
        peaks = {
            id(each): self._peak_of(group)
            for group in kwargs["optimizer"].param_groups
            for each in group["params"]
        }
        if any(id(parameter) not in peaks for parameter in self._parameters()):
            raise InputError(
                "an optimizer with the gates' parameters was expected; this one has none of them: "
                "train, and make the optimizer, inside `with gating(model, gates)`; sharded "
                "parameters (FSDP, DeepSpeed) can't be gated"
            )
        self._peaks = [peaks[id(parameter)] for parameter in self._parameters()]
        if not all(self._peaks):
            raise InputError(
                "a learning rate above 0 of the optimizer was expected, by which the gates' own is "
                "reached; came none: give GateTraining its peak; to train gates alone, let the "
                "model's parameters need no gradient"
            )
        if _is_reentrant(kwargs["model"]):
            raise InputError(
                "gradient checkpointing that is not reentrant was expected, since gates get no "
                "gradient in the other: give gradient_checkpointing_kwargs={'use_reentrant': False}"
            )
        if args.fp16 and not args.max_grad_norm:
            raise InputError(
                "bf16, or fp16 with max_grad_norm above 0, was expected; came fp16 without clipping"
            )

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Set the gates' schedules."""
        self.gates.advance(state.global_step / max(1, state.max_steps))

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Add the penalty's gradient; set the parameters to 0, so that the step leaves its size."""
        penalty = self.gates.penalty()
        if penalty.requires_grad:
            parameters = self._parameters()
            for parameter, gradient in zip(
                parameters, torch.autograd.grad(penalty, parameters), strict=True
            ):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        self._before = [parameter.detach().clone() for parameter in self._parameters()]
        for parameter in self._parameters():
            parameter.data.zero_()

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Take the scaled step."""
        for parameter, before, peak in zip(
            self._parameters(), self._before, self._peaks, strict=True
        ):
            parameter.data.mul_(self.rate / peak).add_(before)
        self.gates.settle()

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Put the gates' numbers beside the loss in the Trainer's history."""
        if state.log_history and "loss" in state.log_history[-1]:
            state.log_history[-1].update(self.gates.numbers())

    def _peak_of(self, group: dict[str, Any]) -> float:
        """Of a group of the optimizer, noted in it, so that its checkpoint holds it; 0 for none.

        A schedule that warms up is at 0 now, and one that has none may have lowered the rate when
        a training is resumed.
        """
        if self.peak is not None:
            return self.peak
        return group.get("max_lr") or group.setdefault("initial_lr", group["lr"]) or 0.0

    def _parameters(self) -> list[Tensor]:
        return list(self.gates.parameters())


def _is_reentrant(model: nn.Module) -> bool:
    """Whether a layer runs again in torch's older way, which is torch's default."""
    runs = [
        getattr(module, "_gradient_checkpointing_func", None)
        for module in model.modules()
        if getattr(module, "gradient_checkpointing", False)
    ]
    return any(
        run is checkpoint
        or (isinstance(run, partial) and run.keywords.get("use_reentrant") is not False)
        for run in runs
    )
