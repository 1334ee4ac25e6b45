"""Kernels: who computes the weights and statistics of attention calls, chosen in one place.

A kernel computes a block's weights from its scores and fills in the statistics that a listener asks
for. All kernels find the same numbers, except for rounding.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import InputError, KernelName, check_choice
from headcount.tap.anatomy import Anatomy
from headcount.tap.attention_weights import AttentionCall, Cut
from headcount.tap.kernel_blocks import Blocks
from headcount.tap.kernel_sweep import Sweep
from headcount.tap.kernel_triton import IS_INTERPRETED, Triton
from headcount.tap.listener import Block, Statistics
from headcount.tap.placement import input_device

LONG = 128
"""Number of tokens of the longest text from which "auto" chooses the sweep: below, measures cost
more than attention, and the sweep spares little."""


@runtime_checkable
class Kernel(Protocol):
    """Computes the weights and statistics of a layer's attention."""

    @property
    def name(self) -> str:
        """Its name, as users choose it."""
        ...

    @property
    def left(self) -> Collection[str]:
        """Why calls were left to the blocks so far."""
        ...

    def takes(self, call: AttentionCall, statistics: Statistics) -> bool:
        """Whether the kernel can compute an attention call; blocks takes what others don't."""
        ...

    def begin(self, call: AttentionCall, asked: Statistics, size: int) -> "Attending | Tensor":
        """Begin a layer, in blocks of at most `size` weights.

        A kernel that has no blocks fills in the statistics, and returns the layer's outputs
        [batch, query, head, dim].
        """
        ...

    def check(self) -> None:
        """Check what was computed since the last check, once a batch."""
        ...


@runtime_checkable
class Attending(Protocol):
    """Computes the weights of one layer, a block at a time."""

    size: int
    """Number of weights in a block."""

    def over(self, cuts: Iterable[Cut], attend: Callable[[Cut], None]) -> None:
        """Attend to all blocks."""
        ...

    def weights(self, rows: slice, heads: slice, queries: slice) -> tuple[Tensor, slice]:
        """The weights of a block and their keys."""
        ...

    def fill(self, block: Block) -> None:
        """Fill in the statistics of a block whose products are there."""
        ...

    def end(self) -> None:
        """Fill in what is left, after all blocks."""
        ...


BLOCKS = Blocks()


@final
@dataclass(frozen=True)
class Chosen:
    """The kernel of a model."""

    kernel: Kernel
    why: str | None = None
    """Why it is another one than was asked for; None if it is not."""


def chosen(name: KernelName, model: PreTrainedModel, anatomy: Anatomy, longest: int) -> Chosen:
    """The kernel for a model's attention.

    Args:
        name: "auto" is the sweep where numba is installed, it can compute the model and texts are
            long; else the blocks. Triton is only chosen by its name.
        model: the model that is tapped.
        anatomy: its attention layers.
        longest: number of tokens of the longest text.

    Raises:
        InputError: if a kernel is asked for whose compiler is not installed.
    """
    check_choice("kernel", name, KernelName)
    wanted = "sweep" if name == "auto" and longest >= LONG and find_spec("numba") else name
    if wanted not in _COMPILED:
        return Chosen(BLOCKS)
    make, compiler, brought = _COMPILED[wanted]
    if find_spec(compiler) is None:
        raise InputError(
            f"Expected {compiler} for the kernel {name}, but it is not installed. Install "
            f"{brought}, or pass --kernel blocks."
        )
    why = unsuited(wanted, model, anatomy)
    if why is None:
        return Chosen(make())
    return Chosen(BLOCKS, None if name == "auto" else why)


_COMPILED: dict[str, tuple[Callable[[], Kernel], str, str]] = {
    "sweep": (Sweep, "numba", "headcount[fast]"),
    "triton": (Triton, "triton", "a build of torch for CUDA, which brings it along"),
}
"""Kernels that are compiled: how to make them, what compiles them, and what it comes with."""


def unsuited(name: str, model: PreTrainedModel, anatomy: Anatomy) -> str | None:
    """Why a compiled kernel can't compute a model's attention; None if it can."""
    device = input_device(model).type
    if name == "sweep" and device != "cpu":
        return f"the model is on {device}, and the kernel sweep runs on a CPU"
    if name == "triton" and device != "cuda" and not IS_INTERPRETED:
        return f"the model is on {device}, and the kernel triton runs on a GPU"
    if model.dtype == torch.float64:
        return f"the model is in float64, and the kernel {name} computes in float32"
    if anatomy.eager:
        return "the model's own eager function computes its weights"
    if all(layer.by_own_softmax for layer in anatomy.layers):
        return "the model takes a softmax of its own"
    return None
