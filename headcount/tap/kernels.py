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
from headcount.tap.kernel_blocks import AttentionCall, Blocks, Cut
from headcount.tap.kernel_sweep import NUMBA, Sweep, machine_code
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
    warning: str | None = None
    """What a user loses, if that could be helped: another kernel than was asked for, or time."""


def chosen(name: KernelName, model: PreTrainedModel, anatomy: Anatomy, longest: int) -> Chosen:
    """The kernel for a model's attention.

    Args:
        name: "auto" is the sweep where numba works, it can compute the model and texts are long;
            else the blocks. Triton is only chosen by its name.
        model: the model that is tapped.
        anatomy: its attention layers.
        longest: number of tokens of the longest text.

    Raises:
        InputError: if a kernel is asked for whose compiler does not work.
    """
    check_choice("kernel", name, KernelName)
    wanted = ("sweep" if longest >= LONG else "blocks") if name == "auto" else name
    if wanted == "blocks":
        return Chosen(BLOCKS)
    if (why := unsuited(wanted, model, anatomy)) is not None:
        return Chosen(BLOCKS, None if name == "auto" else f"{_IN_BLOCKS}: {why}")
    if wanted == "triton":
        if find_spec("triton") is None:
            brought = "Install a build of torch for CUDA, which brings it along"
            raise _refusal(wanted, "triton is not installed", brought)
        return Chosen(Triton())
    code = machine_code()
    if code.why is None:
        return Chosen(Sweep(), None if code.is_kept else UNKEPT)
    if name == "sweep":
        raise _refusal(wanted, code.why, f"Run {_NUMBA}")
    return Chosen(BLOCKS, f"{_IN_BLOCKS}: {without_numba(code.why)}")


def _refusal(kernel: str, why: str, remedy: str) -> InputError:
    return InputError(
        f"Expected a compiler for the kernel {kernel}, but {why}. {remedy}, or pass "
        "--kernel blocks."
    )


_IN_BLOCKS = "attention was computed in blocks"
_NUMBA = f"pip install 'numba>={NUMBA}'"

UNKEPT = (
    "the kernel sweep was compiled for this process alone (about 3 s), since no cache folder can "
    "be written; set NUMBA_CACHE_DIR to a folder that can"
)
"""Why the sweep costs some seconds in every process."""


def without_numba(why: str) -> str:
    """Why there is no sweep, and what one would spare."""
    return f"{why}; {_NUMBA} measures texts of {LONG} tokens or more in down to half the time"


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
