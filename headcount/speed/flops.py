"""FLOPs: multiplications and additions of matrix products, counted while a model runs.

Counted by torch's `FlopCounterMode`: linear maps, convolutions, and attention's two products. A
multiplication and an addition are two; the mask of a decoder spares none. Softmax, norms and
activations are not counted: they are few, but not free.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

Work = Callable[[], object]
"""What is run and counted, or timed; it brings its own inputs."""


def counter() -> FlopCounterMode:
    """A context that counts FLOPs, fused attention on the CPU among them.

    torch has formulas for the fused kernels of GPUs only: on a CPU it passes over attention.
    """
    of_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(display=False, custom_mapping={of_cpu: _fused_attention})


def flops(work: Work) -> int:
    """FLOPs of one call."""
    with counter() as counted:
        work()
    return counted.get_total_flops()


def _fused_attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """FLOPs of scores and of their product with the values, from shapes."""
    batch, num_heads, num_queries, head_dim = query
    num_keys, value_dim = value[-2:]
    return 2 * batch * num_heads * num_queries * num_keys * (head_dim + value_dim)
