r"""One optimizer with Muon for the layers' matrices and AdamW for everything else.

$$B_t = \mu B_{t-1} + (1 - \mu) G_t, \qquad
  W_t = (1 - \eta \lambda) W_{t-1} - 0.2 \sqrt{\max(m, n)} \, \eta \, \mathrm{NS}_5(G'_t)$$

G is the gradient of an m x n matrix W, and G' = mu B + (1 - mu) G (Nesterov). NS5 stands for five
Newton-Schulz iterations, which bring all singular values near 1; mu = 0.95, lambda = 0.1. The
factor gives Muon's steps the size of AdamW's, so both share one learning rate eta.

AdamW trains embeddings, biases, norms and output heads (a language model's output layer, a
classifier), without weight decay.

torch runs the iterations in bfloat16, which takes three times as long as float32 on CPUs without
bfloat16 units. On those, they run in float32.

References: Muon (Jordan et al., 2024), https://kellerjordan.github.io/posts/muon/
Muon is Scalable for LLM Training (Liu et al., 2025), section 2.2, https://arxiv.org/abs/2502.16982
Departure: the AdamW part has no weight decay, as in training without Muon.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headcount.tap import TorchCalls
from headcount.training.config import Optimization

BFLOAT16_UNITS = ("amx_bf16", "avx512_bf16", "bf16", "sve_bf16")
"""Capabilities, by torch's names, any of which makes a CPU's bfloat16 fast."""


@final
class Instead(TorchCalls):
    """A context in which other functions are called in place of some of torch's.

    Args:
        functions: what is called, by the function that it replaces, which it may call itself.
    """

    def __init__(self, functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._functions = functions

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call what replaces a function, or the function itself."""
        return self._functions.get(function, function)(*args, **kwargs)


@final
class MuonAdamW(Optimizer):
    """Both optimizers behind one interface, with the parameter groups of both.

    Args:
        model: the model to train.
        lr: learning rate of all groups; a schedule changes it.
        beta2: AdamW's beta2; its beta1 is 0.9.
    """

    def __init__(self, model: nn.Module, lr: float, beta2: float) -> None:
        matrices = _matrices(model)
        chosen = {id(matrix) for matrix in matrices}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in chosen]
        self._parts: dict[str, Optimizer] = {}
        if matrices:
            self._parts["muon"] = Muon(matrices, lr=lr, adjust_lr_fn="match_rms_adamw")
        if rest:
            self._parts["adamw"] = AdamW(
                rest, lr=lr, betas=(0.9, beta2), weight_decay=0.0, fused=True
            )
        super().__init__(self._groups(), {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take one step with both optimizers."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for name, part in self._parts.items():
            with _quicker_iterations() if name == "muon" else nullcontext():
                part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The states of both optimizers, by name."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of both optimizers."""
        for name, part in self._parts.items():
            part.load_state_dict(state_dict[name])
        self.param_groups = self._groups()  # loading creates new groups

    def _groups(self) -> list[dict[str, Any]]:
        return [group for part in self._parts.values() for group in part.param_groups]


def _float32(matrix: Tensor, **options: Any) -> Tensor:
    """What takes the place of `Tensor.bfloat16`: float32 on a CPU."""
    if matrix.device.type == "cpu":
        return matrix.to(torch.float32, copy=True)  # Muon changes it in place
    return matrix.bfloat16(**options)


def _quicker_iterations() -> AbstractContextManager[object]:
    known = torch.cpu.get_capabilities()
    has_units = any(known.get(name) for name in BFLOAT16_UNITS)
    return nullcontext() if has_units else Instead({Tensor.bfloat16: _float32})


def factory(optimization: Optimization) -> tuple[Any, dict[str, Any]] | None:
    """Factory and arguments of the optimizer for transformers' Trainer; None for its own AdamW."""
    if optimization.optimizer == "adamw":
        return None
    # The Trainer calls whatever is not an optimizer class, then passes the model to the result.
    return lambda: MuonAdamW, {"lr": optimization.peak, "beta2": optimization.beta2}


def _matrices(model: nn.Module) -> list[Tensor]:
    """Weight matrices of the linear maps in a transformer's body, without embeddings and output."""
    whole = next((m for m in model.modules() if isinstance(m, PreTrainedModel)), None)
    body, output = (whole.base_model, whole.get_output_embeddings()) if whole else (model, None)
    others = [m for m in model.modules() if isinstance(m, nn.Embedding)]
    others += [output] if output is not None else []
    kept = {id(m.weight) for m in others}
    maps = {id(m.weight): m.weight for m in body.modules() if isinstance(m, nn.Linear | Conv1D)}
    return [w for key, w in maps.items() if key not in kept and w.requires_grad]
