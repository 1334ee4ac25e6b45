"""Tensor parallelism: models of which each process has some heads of every layer.

transformers splits the projections (`tp_plan`): process r of n computes heads rH/n to (r+1)H/n of a
layer's H, and the output projections add up what all of them make. Where heads are looked at, every
process gathers the queries, keys and values of all heads and computes all of the layer's attention,
so that numbers are those of one process, under the same names, and none has to be collected later.
Where heads are only gated, each process gates its own. Gradients cross both ways: that of a part is
the part of the gradient, and that of the whole is put together of all parts.
"""

from typing import Any, final

import torch
from torch import Tensor, distributed
from transformers import PreTrainedModel

from headcount.core import ModelError, amount


@final
class HeadGroup:
    """The processes that have the heads of a model's layers, each an equal part, in order.

    Args:
        group: torch's group of the processes.
    """

    def __init__(self, group: distributed.ProcessGroup) -> None:
        self._group = group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)

    def all(self, part: Tensor, dim: int) -> Tensor:
        """The whole of which each process has a part, along a dimension."""
        return _Whole.apply(part, dim, self)  # type: ignore[no-any-return]

    def own(self, whole: Tensor, dim: int) -> Tensor:
        """The part of this process, along a dimension, of what all of them have."""
        return _Part.apply(whole, dim, self)  # type: ignore[no-any-return]

    def gathered(self, part: Tensor, dim: int) -> Tensor:
        """`all`, without a gradient."""
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in range(self.size)]
        distributed.all_gather(parts, part, group=self._group)
        return torch.cat(parts, dim)

    def cut(self, whole: Tensor, dim: int) -> Tensor:
        """`own`, without a gradient."""
        return whole.chunk(self.size, dim)[self.rank]


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, dim: int, group: HeadGroup) -> Tensor:
        ctx.place = dim, group
        return group.gathered(part, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        dim, group = ctx.place
        return group.cut(grads[0], dim), None, None


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, dim: int, group: HeadGroup) -> Tensor:
        ctx.place = dim, group
        return group.cut(whole, dim).clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        dim, group = ctx.place
        return group.gathered(grads[0], dim), None, None


def head_group(model: PreTrainedModel) -> HeadGroup | None:
    """The processes that transformers split a model's heads over; None if it is whole.

    Raises:
        ModelError: if it was split in another way as well, or its heads can't be shared equally.
    """
    mesh = getattr(model, "_device_mesh", None)
    if mesh is None or mesh.size() < 2:
        return None
    size, name = getattr(model, "_tp_size", None), type(model).__name__
    if size != mesh.size():
        raise ModelError(
            f"Expected a {name} whose heads alone are split over processes (tensor parallelism), "
            f"got one that is split over a mesh of {mesh.size()}, of which {size} share the heads. "
            "Pass tp_size alone, or load it with device='tp:N', which makes a copy of the model "
            "for every N processes."
        )
    return HeadGroup(mesh.get_group() if mesh.ndim == 1 else mesh.get_group("tp"))


def check_divides(config: Any, size: int) -> None:
    """Check that each of some processes gets as many heads, and whole ones.

    Args:
        config: the model's configuration.
        size: the number of processes.

    Raises:
        ModelError: if not; names the number of heads.
    """
    text = config.get_text_config()
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(text, name, None)
        if isinstance(heads, int) and heads % size:
            what = name.removeprefix("num_").replace("_", " ").replace("key value", "key/value")
            raise ModelError(
                f"Expected {what} that {amount(size, 'process')} can share equally, got {heads}. "
                "Start a number of processes that divides it."
            )


def check_not_split(model: PreTrainedModel, what: str) -> None:
    """Check that a model is not split over processes, for something that needs it whole.

    Raises:
        ModelError: if it is.
    """
    if head_group(model) is not None:
        raise ModelError(
            f"Expected a {type(model).__name__} that is whole in this process for {what}, got one "
            "whose heads are split over several (tensor parallelism). Load it on one device, or "
            "with device='auto'."
        )


def whole_numbers(tensor: Tensor) -> Tensor:
    """The numbers of a weight of which each process has a part; all processes must ask together."""
    whole = getattr(tensor, "full_tensor", None)  # to import DTensor takes time
    return tensor if whole is None else whole()
