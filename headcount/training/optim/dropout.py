r"""Dropout on a CPU with sixteen random bits per mask element.

$$y_i = \frac{x_i m_i}{1 - q}, \qquad P(m_i = 0) = q = \mathrm{round}(2^{16} p) / 2^{16}$$

On a CPU, torch draws a mask element by element in one thread, which takes a fifth of a small
model's step. Here four elements share one 64-bit draw of the same generator, so a resumed training
draws the same masks.

Reference: Dropout: A Simple Way to Prevent Neural Networks from Overfitting (Srivastava et al.,
2014), section 10, https://jmlr.org/papers/v15/srivastava14a.html
Departure: the dropped share is p rounded to a multiple of 1/65,536.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.overrides import TorchFunctionMode

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
