"""Packed sequences: several pictures or windows in one row of tokens, attended to one by one.

Towers that read pictures of any shape (Qwen2.5-VL) put the patches of all pictures in one row, and
say with `cu_seqlens` where each picture or window begins. Under fused attention of packed sequences
a module calls attention once; otherwise once for each of them. Here it always calls once: the
module is given one sequence, and a mask keeps every query to its own picture or window. The numbers
are the same, and a layer is one map again.

A model may also say (`Laid`) that the row holds pictures of one size, and in which order patches
are. Then each picture is a row of its own, and its patches stand in lines.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import pairwise
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from headcount.tap.call import Call, implementation_of
from headcount.tap.seen_keys import additive

NAME = "cu_seqlens"
"""The argument that says where sequences begin and end, in all of transformers."""


@runtime_checkable
class Laid(Protocol):
    """A model whose packed sequences are pictures of one size."""

    num_pictures: int
    """Number of pictures of the forward pass that runs."""
    order_N: Int64[Tensor, " patch"] | None
    """Which token of a picture each patch is, line by line; None if tokens stay as they are."""


def packed_modules(model: nn.Module) -> list[nn.Module]:
    """The innermost modules that are told where sequences begin."""
    found = [each for each in model.modules() if _is_told(each)]
    return [each for each in found if not any(other in found for other in [*each.modules()][1:])]


def _is_told(module: nn.Module) -> bool:
    if "forward" in vars(module):
        return NAME in signature(module.forward).parameters
    return _takes_ends(type(module))


@cache
def _takes_ends(kind: type[nn.Module]) -> bool:
    return NAME in signature(kind.forward).parameters


@final
class Packed:
    """Makes one call of attention of several, in a `with` block.

    Args:
        model: any transformers model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = packed_modules(model)
        self._laid = model if isinstance(model, Laid) else None
        self._ends: dict[nn.Module, tuple[int, ...]] = {}
        self._masks: dict[tuple[object, ...], Tensor] = {}

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Inside, modules are given one sequence."""
        with ExitStack() as stack:
            for module in self._modules:
                # In front, since a context around this one joins sequences, too
                handle = module.register_forward_pre_hook(
                    self._join, with_kwargs=True, prepend=True
                )
                stack.callback(handle.remove)
            yield

    def around(self, attend: Callable[[Call], Tensor]) -> Callable[[Call], Tensor]:
        """An attention function that is given joined calls, each with a mask if it needs one."""

        def attended(call: Call) -> Tensor:
            ends = self._ends.pop(call.module, None)
            if ends is None or call.query.shape[2] != ends[-1]:
                return attend(call)
            if self._laid is None:
                return attend(self._masked(call, ends))
            return self._in_rows(call, ends, self._laid, attend)

        return attended if self._modules else attend

    def _join(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        place = [*signature(module.forward).parameters].index(NAME)
        ends = kwargs.get(NAME, args[place] if place < len(args) else None)
        if not isinstance(ends, Tensor):  # one sequence
            return args, kwargs
        self._ends[module] = tuple(ends.tolist())
        whole = torch.stack([ends[0], ends[-1]])
        if NAME in kwargs:
            return args, kwargs | {NAME: whole}
        return (*args[:place], whole, *args[place + 1 :]), kwargs

    def _masked(
        self, call: Call, ends: Sequence[int], order_N: Int64[Tensor, " patch"] | None = None
    ) -> Call:
        """The call with a mask that keeps queries to their own sequence."""
        if len(ends) <= 2 or call.mask is not None:
            return call
        is_added = implementation_of(call.module) == "eager"
        form = call.query.dtype if is_added else torch.bool, call.query.device
        key = (*ends, *form, None if order_N is None else tuple(order_N.tolist()))
        if key not in self._masks:
            self._masks[key] = _mask(ends, order_N, *form)
        return replace(call, mask=self._masks[key])

    def _in_rows(
        self, call: Call, ends: Sequence[int], laid: Laid, attend: Callable[[Call], Tensor]
    ) -> Tensor:
        """Attention with a row for each picture, whose patches stand line by line."""
        number, order_N = laid.num_pictures, laid.order_N
        length = ends[-1] // number
        place_N = torch.arange(length) if order_N is None else order_N
        place_N = place_N.to(call.query.device)
        parts = {
            name: getattr(call, name)
            .unflatten(2, (number, length))[0]
            .transpose(0, 1)[:, :, place_N]
            for name in ("query", "key", "value")
        }
        first = [end for end in ends if end <= length]
        output_BNHD = attend(self._masked(replace(call, **parts), first, place_N))
        return output_BNHD[:, place_N.argsort()].flatten(0, 1)[None]


def _mask(
    ends: Sequence[int],
    order_N: Int64[Tensor, " token"] | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Which tokens see each other, [1, 1, query, key]."""
    sizes = torch.tensor([end - start for start, end in pairwise(ends)], device=device)
    number_N = torch.arange(len(sizes), device=device).repeat_interleave(sizes)
    number_N = number_N if order_N is None else number_N[order_N]
    sees_11NN = (number_N[:, None] == number_N)[None, None]
    return sees_11NN if dtype == torch.bool else additive(sees_11NN, dtype)
