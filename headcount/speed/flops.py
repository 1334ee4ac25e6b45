"""FLOPs: multiplications and additions of matrix products, counted while a model runs.

torch's `FlopCounterMode` counts linear maps, convolutions, and attention's two products. A
multiplication and an addition are two FLOPs; a decoder's mask saves none. Softmax, norms and
activations are not counted: they are few, but not free.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

Work = Callable[[], object]
"""A call to count or time, with its inputs bound."""


def counter() -> FlopCounterMode:
    """A context that counts FLOPs, including fused attention on the CPU.

    torch has formulas only for fused GPU kernels; on a CPU it would skip attention.
    """
    of_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(display=False, custom_mapping={of_cpu: _fused_attention})


def flops(work: Work) -> int:
    """FLOPs of one call."""
    with counter() as counted:
        work()
    return counted.get_total_flops()


def _fused_attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """FLOPs of the scores and of their product with the values, computed from shapes."""
    batch, num_heads, num_queries, head_dim = query
    num_keys, value_dim = value[-2:]
    return 2 * batch * num_heads * num_queries * num_keys * (head_dim + value_dim)
