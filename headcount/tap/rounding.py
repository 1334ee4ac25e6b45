r"""Rounding: every limit on how far two correct ways to compute the same numbers may be apart.

A model amplifies rounding from layer to layer, by no factor that is known before. So what attention
computes is compared at each call, where the same queries, keys and values go in, head by head:

$$\lVert o_q - o'_q \rVert \le \ell \, \lVert o \rVert
+ \sum_k A(q, k) \, \big( (e^{\delta(q, k) + \bar\delta(q)} - 1) \, \lVert v_k - o_q \rVert
+ 4 \epsilon \, \lVert v_k \rVert \big), \qquad \delta = 4 \epsilon \, t(q, k)$$

The norm of o is the root mean square over queries, the limit is `head_limit`, and the sum is how
far an output moves when scores and weights are rounded to a relative step of epsilon (the format's
`eps`); delta-bar is the mean of delta under the weights. t is the size of the score; where its d
terms are added up in that format, it is the sum of their sizes, which may cancel, times
1 + sqrt(d) / 4. Outputs of whole models have room for rounding (`ROOM`): they show that every call
was seen and used.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

EXACT = 1e-10
"""Largest difference in float64, as a share of a head's norm."""

NARROWED = 1e-6
"""The same of functions that round to float32 inside, most often in the softmax."""

UNITS = 4
"""Largest difference in half precision, in units of the last place of a head's norm."""

TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}
"""Largest difference of outputs, as a share of the largest output (or of 1 if that is larger),
that needs no measure of what rounding alone does."""

ROOM = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 2.5e-2}
"""The same where every attention call was already compared by itself."""

SPREADS = 8
"""Largest difference of outputs, in multiples of what rounding alone does there: how far two runs
of the same model are apart that compute the same in another order."""


ALONE = TOLERANCE | {torch.float16: 2.5e-2}
"""The same where outputs alone are compared; a tap computes weights in float32, where the stock
model rounds every step to half precision."""

MOST = {dtype: 10 * room for dtype, room in ROOM.items()}
"""Largest difference that can be rounding there."""


def head_limit(dtype: torch.dtype, is_narrowed: bool = False) -> float:
    """Largest difference between the outputs of one head at one call, as a share of its norm.

    Args:
        dtype: Number format that attention is computed in.
        is_narrowed: Whether the function rounds to float32 inside.
    """
    if dtype == torch.float64:
        return NARROWED if is_narrowed else EXACT
    return 1e-5 if dtype == torch.float32 else UNITS * torch.finfo(dtype).eps


def difference(ours: Sequence[Tensor], stock: Sequence[Tensor]) -> float:
    """Largest difference, as a share of the largest output (or of 1 if that is larger).

    It is infinite where the outputs are not of the same sizes.
    """
    if [each.shape for each in ours] != [each.shape for each in stock]:
        return math.inf
    sizes = [largest(each) for each in stock]
    apart = [largest(a - b) for a, b in zip(ours, stock, strict=True)]
    return max(apart) / max([1.0, *filter(math.isfinite, sizes)])


def largest(tensor: Tensor) -> float:
    """The largest size of a number in a tensor; infinite if one is not a number."""
    low, high = (each.item() for each in tensor.aminmax())
    return math.inf if math.isnan(low) else max(-low, high)
