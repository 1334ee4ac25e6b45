"""Another processor, simulated: matrix products and attention round otherwise than here.

How a product is summed up depends on the processor and on the place of a number in the matrix, so
its last bit does. With `HEADCOUNT_LAST_BITS=SEED` the last bit of every number that a product of
matrices (linear layers, projections, scores, weights times values, and their gradients) or fused
attention returns is flipped, or not, by a hash of the number's mantissa, its place and the seed. So
the same computation has the same result twice, and another than here; and half of a number is
computed as the number is, as everywhere.

The kernels of a CPU are replaced, below autograd, `torch.func` and autocast, which see nothing of
it. Not replaced is what has no numbers: fake and meta tensors, so whatever traces with them
(`torch.export`, the export to ONNX). What is traced with numbers (`torch.jit.trace`) is left alone:
it would keep our steps.

Left as they are: numbers whose last bits are 0, since sums of whole numbers are the same
everywhere, and with them 0, infinity and NaN; and products with one term, which all processors
round alike.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

PRODUCTS = (
    "addmm",
    "mm",
    "bmm",
    "baddbmm",
    "addmm.out",
    "mm.out",
    "bmm.out",
    "baddbmm.out",
    "addmv",
)
"""Products of matrices: their last two tensors are multiplied."""

ATTENTION = ("_scaled_dot_product_flash_attention_for_cpu",)

_BITS = {torch.float64: 64, torch.float32: 32, torch.float16: 16, torch.bfloat16: 16}
_SHORT = {torch.float64: 2**20 - 1, torch.float32: 2**8 - 1, torch.float16: 7, torch.bfloat16: 3}
"""The last bits that are all 0 in a number that is taken for exact."""

_BELOW = {64: 0, 32: 0, 16: -(2**14) - 2**13}
"""Hashes below flip: a half of all, and an eighth in half precision, whose products are summed in
float32, so that processors differ in few of them."""

_MANTISSA = {
    torch.float64: 2**52 - 1,
    torch.float32: 2**23 - 1,
    torch.float16: 2**10 - 1,
    torch.bfloat16: 2**7 - 1,
}
"""The bits of a number that its sign and a power of two leave as they are."""

_INTEGERS = {64: (torch.int64, np.int64), 32: (torch.int32, np.int32), 16: (torch.int16, np.int16)}
_FACTORS = {64: 0x1E3779B97F4A7C15, 32: 0x1E3779B1, 16: 0x3779}
"""Odd numbers whose products spread over the highest bits (Knuth's multiplicative hash)."""

_library = torch.library.Library("aten", "IMPL")


def install(seed: int) -> None:
    """Compute as another processor from now on, in this process; a second call changes nothing.

    Args:
        seed: which processor.
    """
    if "elsewhere" in vars(torch):  # under another name, by sitecustomize.py
        return
    setattr(torch, "elsewhere", seed)  # noqa: B010
    with warnings.catch_warnings(action="ignore"):  # that kernels are replaced
        for name in (*PRODUCTS, *ATTENTION):
            _library.impl(name, _elsewhere(name, seed), "CPU", with_keyset=True)


def _elsewhere(name: str, seed: int) -> Callable[..., Any]:
    """A kernel, rounding otherwise."""
    here = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed

    def kernel(keys: Any, *args: Any, **options: Any) -> Any:
        found = here(keys, *args, **options)
        if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
            return found
        first = found[0] if isinstance(found, tuple) else found
        if name in ATTENTION or _num_terms(args) > 1:
            with torch._C.DisableTorchFunction():
                flip(first, seed)
        return found

    return kernel


def _num_terms(args: tuple[Any, ...]) -> int:
    """Number of products that each number is the sum of."""
    tensors = [each for each in args if isinstance(each, Tensor)]
    return tensors[-2].shape[-1] + (len(tensors) > 2)


def flip(found: Tensor, seed: int) -> None:
    """Flip the last bits of a tensor's numbers in place, where the hash is so."""
    if found.dtype not in _BITS or not found.numel():
        return
    width = _BITS[found.dtype]
    of_torch, of_numpy = _INTEGERS[width]
    bits = found.detach().view(of_torch).numpy()
    factor = of_numpy(_FACTORS[width])
    hashed = np.arange(bits.size, dtype=of_numpy).reshape(bits.shape)
    hashed += of_numpy(seed)
    hashed *= factor
    hashed ^= bits & of_numpy(_MANTISSA[found.dtype])
    hashed *= factor
    flips = hashed < _BELOW[width]
    flips &= (bits & of_numpy(_SHORT[found.dtype])) != 0
    bits ^= flips
