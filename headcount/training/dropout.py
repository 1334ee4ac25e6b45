r"""Dropout whose masks take sixteen random bits an element, on a CPU.

$$y_i = \frac{x_i m_i}{1 - q}, \qquad P(m_i = 0) = q = \mathrm{round}(2^{16} p) / 2^{16}$$

torch draws a mask there element by element in one thread: a fifth of a small model's step. Here
four elements share one 64-bit draw of the same generator, so a resumed training goes on with the
same masks.

Reference: Dropout: A Simple Way to Prevent Neural Networks from Overfitting (Srivastava et al.,
2014), section 10, https://jmlr.org/papers/v15/srivastava14a.html
Departure: the share that is dropped is p rounded to 1/65,536.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.overrides import TorchFunctionMode

LEVELS = 2**16
DRAW_BYTES = 8
"""Of one draw of the generator."""


@final
class FastDropout(TorchFunctionMode):
    """While this is entered, `torch.nn.functional.dropout` on a CPU is `dropped`."""

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
    """A tensor of which a share of about p is set to 0, the rest scaled up to keep its mean.

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
