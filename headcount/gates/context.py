"""Gating: a `with` block of learnable gates on heads, and a callback for any Trainer in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import (
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from headcount.core import InputError, LayerId, ModelError
from headcount.gates.head_gates import HeadGates
from headcount.models import GATES
from headcount.tap import Anatomy, AnyModel, Gates, Tap, examined, input_device, intercepted


@contextmanager
def gating(model: AnyModel, gates: HeadGates, anatomy: Anatomy | None = None) -> Iterator[None]:
    """Multiply heads' outputs by gates. In training mode, every forward pass draws new gates.

    In the block the gates are a submodule of the model: their parameters belong to the model
    (an optimizer made there learns them), they share its mode, and its checkpoints hold them.
    After the block nothing of ours remains on the model.

    Gradient checkpointing runs layers again in the backward pass with the most recent draw.
    Therefore run the backward pass of each forward pass before the next forward pass.

    Args:
        model: any model that `examine` accepts, or what `load` returns.
        gates: Hard Concrete, subset or fixed gates.
        anatomy: the result of `examine(model)`; if None, the model is examined now.

    Raises:
        ModelError: if the gates do not fit this model, or it has gates already.
    """
    model, anatomy = examined(model, anatomy)
    if GATES in model._modules:
        raise ModelError(
            f"Expected a model without gates, got a {type(model).__name__} that is in a gating "
            "block already. Leave that block first."
        )
    gates.to(input_device(model)).train(model.training)
    drawn = _Drawn(gates)
    _check_fits(model, anatomy, gates)
    model.add_module(GATES, gates)
    try:
        with Tap(model, anatomy) as tap, drawn.by_forward(model):
            tap.gates = drawn
            yield
    finally:
        del model._modules[GATES]


@final
class _Drawn(Mapping[LayerId, Tensor]):
    """The gates of the current forward pass.

    Gates are drawn again for every forward pass of the model (or of its body, encoder or decoder
    when called alone), and when the mode changes during one. The draw is made before the first
    layer runs, because gradient checkpointing would repeat a draw made inside a layer.
    """

    def __init__(self, gates: HeadGates) -> None:
        self._gates, self._depth = gates, 0
        self._drawn: Gates | None = None
        self._in_training = gates.training

    @contextmanager
    def by_forward(self, model: PreTrainedModel) -> Iterator[None]:
        wholes = {model, model.base_model}
        if model.config.is_encoder_decoder:
            wholes |= {model.get_encoder(), model.get_decoder()}
        with intercepted(wholes, self._before, self._after, after_errors=True):
            yield

    def _before(self, *_: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._drawn = None
            self._now()

    def _after(self, *_: Any) -> None:
        self._depth -= 1

    def _now(self) -> Gates:
        if self._drawn is None or self._in_training != self._gates.training:
            self._drawn, self._in_training = self._gates(), self._gates.training
        assert self._drawn is not None
        return self._drawn

    def __getitem__(self, place: LayerId) -> Tensor:
        return self._now()[place]

    def __iter__(self) -> Iterator[LayerId]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def _check_fits(model: PreTrainedModel, anatomy: Anatomy, gates: HeadGates) -> None:
    counts = anatomy.heads.counts
    was_training = gates.training
    given = gates.eval()()  # evaluation mode makes no draw
    gates.train(was_training)
    for (site, layer), gate_H in given.items():
        if layer >= len(counts.get(site, ())) or len(gate_H) != counts[site][layer]:
            raise ModelError(
                f"Expected gates for the heads of {type(model).__name__} ({anatomy.heads}), got "
                f"{len(gate_H)} for layer {layer} of {site}. Make them from the model's own "
                "`heads`."
            )


@final
class GateTraining(TrainerCallback):
    r"""Trains the gates of a `gating` block along with the model.

    In every step the penalty's gradient is added to that of the gates' parameters. The optimizer's
    update of them is then scaled to a learning rate of their own:

    $$\theta \leftarrow \theta + \frac{\eta_{gates}}{\eta} \Delta\theta$$

    where $\eta$ is the optimizer's own peak rate for them: the rate its schedule started from (for
    `OneCycleLR`, the highest), or the rate that the caller gives.

    So the penalty works with whatever loss the Trainer has, after accumulation, clipping and the
    exchange between processes. One optimizer, one schedule and one checkpoint hold everything, and
    weight decay does not affect the gates.

    Args:
        gates: the gates of the block.
        rate: the gates' learning rate when that of the weights is at its peak.
        peak: that peak, if the optimizer does not show it: for schedules whose factors are far
            from 1, as in Vaswani et al. (2017).
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
        """Check that the optimizer can train the gates.

        Raises:
            InputError: if the optimizer lacks the gates' parameters or has no rate above 0 for
                them; if gradients are still scaled (fp16) when the penalty is added; if gradient
                checkpointing gives gates no gradient; or if one process has several GPUs.
        """
        if args.n_gpu > 1:
            raise InputError(
                f"Expected a process for each of the {args.n_gpu} GPUs, since gates belong to one "
                "copy of the model, got one process. Start the script with `torchrun "
                "--nproc-per-node`, or name one GPU in CUDA_VISIBLE_DEVICES."
            )
        peaks = {
            id(each): self._peak_of(group)
            for group in kwargs["optimizer"].param_groups
            for each in group["params"]
        }
        if any(id(parameter) not in peaks for parameter in self._parameters()):
            raise InputError(
                "Expected an optimizer with the gates' parameters, got one without. Train, and "
                "make the optimizer, inside `with gating(model, gates)`. Sharded parameters "
                "(FSDP, DeepSpeed) can't be gated."
            )
        self._peaks = [peaks[id(parameter)] for parameter in self._parameters()]
        if not all(self._peaks):
            raise InputError(
                "Expected an optimizer with a learning rate above 0, from which to scale that of "
                "the gates, got none. Give GateTraining its peak. To train gates alone, set "
                "requires_grad to False for the model's parameters."
            )
        if _is_reentrant(kwargs["model"]):
            raise InputError(
                "Expected gradient checkpointing that is not reentrant, got reentrant, in which "
                "gates get no gradient. Give gradient_checkpointing_kwargs="
                "{'use_reentrant': False}."
            )
        if args.fp16 and not args.max_grad_norm:
            raise InputError(
                "Expected bf16, or fp16 with max_grad_norm above 0, got fp16 without clipping. "
                "Set one of these."
            )

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Update the gates' schedules."""
        self.gates.advance(state.global_step / max(1, state.max_steps))

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Add the penalty's gradient and zero the parameters, so that the step alone remains."""
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
        """Apply the scaled step."""
        for parameter, before, peak in zip(
            self._parameters(), self._before, self._peaks, strict=True
        ):
            parameter.data.mul_(self.rate / peak).add_(before)
        self.gates.settle()

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Add the gates' numbers to the loss's entry in the Trainer's history."""
        if state.log_history and "loss" in state.log_history[-1]:
            state.log_history[-1].update(self.gates.numbers())

    def _peak_of(self, group: dict[str, Any]) -> float:
        """Peak rate of an optimizer's group, stored in the group and its checkpoints; 0 if none.

        The current rate is no substitute: during warm-up it is 0, and when training resumes the
        schedule may have lowered it.
        """
        if self.peak is not None:
            return self.peak
        return group.get("max_lr") or group.setdefault("initial_lr", group["lr"]) or 0.0

    def _parameters(self) -> list[Tensor]:
        return list(self.gates.parameters())


def _is_reentrant(model: nn.Module) -> bool:
    """Whether a layer uses reentrant gradient checkpointing, torch's default."""
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
