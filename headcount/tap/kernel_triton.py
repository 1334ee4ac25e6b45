"""The kernel for GPUs: a model's own fused attention, and one sweep in Triton beside it.

Fused attention never writes weights to memory, and neither does the sweep: given the log-sum-exp of
each query's scores, which fused attention knows, it computes the weights a second time and reduces
them where they are. Sums of the weights, which must be 1, are a check of every batch.

It was compiled and compared with the blocks in Triton's interpreter, but not run on a device yet.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headcount.core import ModelError, amount
from headcount.tap.kernel_blocks import AttentionCall
from headcount.tap.listener import Counted, Reduction, Statistics
from headcount.tap.seen_keys import MaskFacts

TRITON_STATE: Final = "not run on a device yet"
"""What is known of the kernel, which is used only if it is asked for."""

IS_INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run in Triton's interpreter, on a CPU."""

MOST_DIM = 256
"""Largest size of a head."""

MOST_COLUMNS = 64
"""Largest number of columns that weights are multiplied with at once."""

MOST_WRONG = {torch.float32: 1e-3, torch.bfloat16: 1e-2, torch.float16: 1e-2}
"""Largest difference of a sum of weights from 1, by the number format of queries and keys."""

_OPERATIONS: Any = torch.ops.aten
_CHOOSING = _OPERATIONS.scaled_dot_product_attention.default
_ASKED = (
    _OPERATIONS._scaled_dot_product_efficient_attention.default,
    _OPERATIONS._scaled_dot_product_cudnn_attention.default,
)
"""Fused attention that returns the log-sum-exp if it is asked to, by the fifth argument."""
_FUSED = (
    *_ASKED,
    _OPERATIONS._scaled_dot_product_flash_attention.default,
    _OPERATIONS._scaled_dot_product_flash_attention_for_cpu.default,
)


@final
class LogSums(TorchDispatchMode):
    """Inside, keeps the log-sum-exp of the operation that torch chooses for fused attention."""

    found: Tensor | None = None

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call an operation of torch."""
        if function is _CHOOSING:
            with self:
                return function.decompose(*args, **(kwargs or {}))
        if function in _ASKED:
            args = (*args[:4], True, *args[5:])
        result = function(*args, **(kwargs or {}))
        if function in _FUSED:
            self.found = result[1].flatten(2)[..., : args[0].shape[2]]
        return result


@final
@dataclass(frozen=True)
class Shape:
    """The shape of a kernel's tiles, and how it computes them."""

    queries: int
    keys: int
    warps: int
    stages: int


SHAPES = {
    (True, False): {128: Shape(64, 64, 4, 3), 256: Shape(64, 32, 8, 3)},
    (True, True): {256: Shape(64, 32, 8, 3)},
    (False, False): {64: Shape(64, 32, 8, 3), 256: Shape(32, 32, 8, 3)},
    (False, True): {128: Shape(32, 16, 4, 2), 256: Shape(16, 16, 8, 2)},
}
"""Shapes that need no more registers than there are, for heads of at most some size, by whether
numbers are of 16 bits and whether tiles of a mask or of biases are read."""


@final
@dataclass(frozen=True, eq=False)
class _Tokens:
    """What the kernel has to know of a batch's tokens."""

    content_BK: Tensor
    special_BS: Tensor
    first_content_2B: Tensor
    measured_BQ: Tensor
    attending_BQ: Tensor
    offsets: Tensor
    every_21Q: Tensor
    """Where the keys of a query begin and end that sees all."""

    @classmethod
    def of(cls, counted: Counted) -> "_Tokens":
        """The facts of the tokens that count."""
        is_content_BK, device = counted.is_content_BK, counted.is_key_BK.device
        num_keys, num_queries = is_content_BK.shape[1], counted.is_attending_BQ.shape[1]
        every_21Q = torch.zeros(2, 1, num_queries, dtype=torch.int32, device=device)
        every_21Q[1] = num_keys
        return cls(
            _bytes(is_content_BK),
            counted.special_BS,
            torch.stack([counted.first_content(0), counted.first_content(1)]).int(),
            _bytes(counted.is_measured_BQ),
            _bytes(counted.is_attending_BQ),
            torch.tensor(counted.offsets, dtype=torch.int32, device=device),
            every_21Q,
        )


@final
@dataclass(frozen=True, eq=False)
class _Seen:
    """What a mask shows: an interval of keys for each query, or else what the mask says."""

    spans_2BQ: Tensor | None = None
    is_causal: bool = False
    """Whether each query sees the keys up to its own, and no others are left out."""

    @classmethod
    def of(cls, mask: Tensor, facts: MaskFacts) -> "_Seen":
        """The intervals of a mask, on its device."""
        every = facts.every(mask)
        spans_2BQ = None if every is None else every.spans_2BQ
        if spans_2BQ is None:
            return cls()
        num_queries, num_keys = mask.shape[2:]
        causal_2Q = torch.stack([torch.zeros(num_queries), torch.arange(num_queries) + 1])
        is_causal = 1 < num_queries == num_keys and bool((spans_2BQ == causal_2Q[:, None]).all())
        return cls(spans_2BQ.to(mask.device).contiguous(), is_causal)


@final
class Triton:
    """One sweep in Triton beside a model's own fused attention."""

    name = "triton"

    def __init__(self) -> None:
        self.left = set[str]()
        self._tokens = WeakKeyDictionary[Counted, _Tokens]()
        self._seen = WeakKeyDictionary[MaskFacts, _Seen]()
        self._wrong: dict[torch.device, Tensor] = {}

    def takes(self, call: AttentionCall, statistics: Statistics) -> bool:
        """Whether the kernel can compute an attention call; it remembers why not."""
        why = _unsuited(call, statistics)
        if why is not None:
            self.left.add(why)
        return why is None

    def begin(self, call: AttentionCall, asked: Statistics, size: int) -> Tensor:
        """Compute a layer at once: its statistics, and its outputs, which are returned."""
        assert asked.counted is not None
        if asked.counted not in self._tokens:
            self._tokens[asked.counted] = _Tokens.of(asked.counted)
        seen = _Seen()
        if call.mask is not None and call.facts is not None:
            if call.facts not in self._seen:
                self._seen[call.facts] = _Seen.of(call.mask, call.facts)
            seen = self._seen[call.facts]
        device = call.query.device
        if device not in self._wrong:
            self._wrong[device] = torch.zeros(1, dtype=torch.int32, device=device)
        with torch.cuda.device_of(call.query):
            return _Sweeping(call, asked, self._tokens[asked.counted], seen).run(
                self._wrong[device]
            )

    def check(self) -> None:
        """Check the sums of all weights since the last check.

        Raises:
            ModelError: if some are not 1.
        """
        wrong = sum(int(each) for each in self._wrong.values())
        self._wrong.clear()
        if wrong:
            raise ModelError(
                "Expected the weights of every query to add up to 1 in the kernel triton, but "
                f"those of {amount(wrong, 'query')} don't: fused attention has other "
                "scores than the kernel. Pass --kernel blocks."
            )


def _unsuited(call: AttentionCall, statistics: Statistics) -> str | None:
    """Why the kernel can't compute a call; None if it can."""
    tensors = (call.query, call.key, call.value)
    reasons = {
        "maps of words or patches are read": statistics.counted is None or statistics.needs_map,
        "the model's own eager function computes weights": call.is_eager,
        "scores are blocked": call.empty is not None,
        "there are gradients": torch.is_grad_enabled() and any(x.requires_grad for x in tensors),
        f"numbers are {call.query.dtype}": call.query.dtype not in MOST_WRONG,
        f"heads have more than {MOST_DIM} dimensions": call.query.shape[-1] > MOST_DIM,
        "heads have learned sinks": call.kwargs.get("s_aux") is not None,
        f"the model is on {call.query.device}": not (call.query.is_cuda or IS_INTERPRETED),
    }
    return next((why for why, holds in reasons.items() if holds), None)


@final
class _Sweeping:
    """One layer that is swept."""

    def __init__(
        self, call: AttentionCall, asked: Statistics, tokens: _Tokens, seen: _Seen
    ) -> None:
        from headcount.tap import device_sweep

        self._kernels: Any = device_sweep
        self._call, self._asked, self._tokens, self._seen = call, asked, tokens, seen
        self._size = call.query.shape[:3]
        is_dense = call.mask is not None and seen.spans_2BQ is None
        has_tiles = is_dense or call.kwargs.get("position_bias") is not None
        self._dim = max(16, _power(call.query.shape[-1]))
        self._is_half = call.query.dtype != torch.float32
        shapes = SHAPES[self._is_half, has_tiles]
        self._shape = shapes[min(size for size in shapes if size >= self._dim)]
        if IS_INTERPRETED:  # where a program costs more than a large tile
            self._shape = Shape(32, 32, 1, 1)

    def run(self, wrong: Tensor) -> Tensor:
        """Fill in the statistics, and count wrong sums; returns the outputs."""
        call, asked = self._call, self._asked
        output, lse = self._fused()
        given = self._given()
        if lse is None:
            lse = call.query.new_empty(self._size, dtype=torch.float32)
            self._launch(self._kernels.log_sums, *given, lse)
        given = (*given, lse.reshape(self._size).contiguous())
        first, *others = [*_parts(asked.columns_BHKC, asked.masses_BHQC)] or [_NO_PART]
        column = asked.numbers.get(Reduction.COLUMN)
        fixed = None if column is None else torch.zeros_like(column, dtype=torch.long)
        self._sweep(given, self._statistics(fixed, wrong), first)
        if column is not None and fixed is not None:
            column.copy_(fixed * self._kernels.UNIT)
        if output is None:  # no operation of torch has a soft cap
            value = call.repeated(call.value).to(call.dtype)
            output = value.new_zeros(*self._size, value.shape[-1])
            others += _parts(value, output)
            output = output.transpose(1, 2)
        for each in others:
            self._sweep(given, _NO_STATISTICS, each)
        return output.to(call.value.dtype)

    def _fused(self) -> tuple[Tensor | None, Tensor | None]:
        """The outputs of the model's own fused attention, and the log-sum-exp if it knows it."""
        call, mask = self._call, self._call.mask
        if call.kwargs.get("softcap") is not None:
            return None, None
        is_causal = self._seen.is_causal and call.kwargs.get("position_bias") is None
        tensors = (call.query, call.key, call.value, None if is_causal else mask)
        with LogSums() as sums:
            kwargs: dict[str, Any] = call.kwargs | {"is_causal": is_causal}
            output, _ = sdpa_attention_forward(call.module, *tensors, **kwargs)
        return output, sums.found

    def _given(self) -> tuple[Any, ...]:
        """Queries, keys, what is seen, and what is added to scores."""
        call, tokens, kwargs = self._call, self._tokens, self._call.kwargs
        query, key = _vectors(call.query), _vectors(call.key)
        heads, num_queries, dim = query.shape[1:]
        attending_BQ, spans_2BQ = tokens.attending_BQ, self._seen.spans_2BQ
        mask: Tensor | None = None
        if spans_2BQ is None:
            spans_2BQ, mask = tokens.every_21Q, call.mask
            if call.facts is not None and call.facts.sees_BQ is not None:
                attending_BQ = attending_BQ * call.facts.sees_BQ
        shared, spans_b = heads // key.shape[1], spans_2BQ.stride(1) * (spans_2BQ.shape[1] > 1)
        masks, position = (None, 0, 0, 0, 0), (None, 0, 0, 0)
        if mask is not None:
            mask = _bytes(mask) if mask.dtype == torch.bool else mask
            masks = (mask, *mask.expand(len(query), heads, *mask.shape[2:]).stride())
        if (bias := kwargs.get("position_bias")) is not None:
            position = (bias, *bias.expand(1, heads, *bias.shape[2:]).stride()[1:])
        cap = kwargs.get("softcap")
        return (
            (query, *query.stride()[:3], heads, num_queries),
            (key, *key.stride()[:3], shared, key.shape[2], dim),
            (spans_2BQ, spans_2BQ.stride(0), spans_b, attending_BQ),
            (float(call.scaling), None if cap is None else float(cap), *position, *masks),
        )

    def _statistics(self, fixed: Tensor | None, wrong: Tensor) -> tuple[Any, ...]:
        """Tokens that count, and where what is asked for is written."""
        tokens, its = self._tokens, self._asked.numbers.get
        special_BS, offsets = tokens.special_BS, tokens.offsets
        facts = (tokens.first_content_2B, tokens.measured_BQ, len(special_BS))
        listed = (special_BS, special_BS.shape[1], offsets, len(offsets), math.prod(self._size))
        peaks = (its(Reduction.PEAK), its(Reduction.PEAK_KEY), its(Reduction.PEAK_LATER))
        at = (its(Reduction.FIRST), its(Reduction.DIAGONALS), its(Reduction.PEAK_SPECIAL))
        content = None if all(each is None for each in peaks) else tokens.content_BK
        sums = (its(Reduction.ENTROPY), its(Reduction.NONE), fixed)
        most_wrong = MOST_WRONG[self._call.query.dtype]
        return (content, *facts), peaks, listed, at, (*sums, wrong, most_wrong)

    def _sweep(
        self, given: tuple[Any, ...], statistics: tuple[Any, ...], part: tuple[Any, ...]
    ) -> None:
        """Take one sweep over the scores."""
        how, width = "tf32x3" if self._is_half else "ieee", max(16, _power(part[-1]))
        self._launch(self._kernels.sweep, *given, *statistics, part, COLUMNS=width, MASSES_HOW=how)

    def _launch(self, kernel: Any, *given: Any, **options: Any) -> None:
        """Run a kernel over all queries."""
        shape, (batch, heads, num_queries) = self._shape, self._size
        kernel[-(-num_queries // shape.queries), batch * heads](
            *given,
            QUERIES=shape.queries,
            KEYS=shape.keys,
            DIM=self._dim,
            IS_INTERPRETED=IS_INTERPRETED,
            num_warps=shape.warps,
            num_stages=shape.stages,
            **options,
        )


_NONE = (None, None, None)
_NO_STATISTICS = ((*_NONE, 0), _NONE, (None, 0, None, 0, 0), _NONE, (*_NONE, None, 0.0))
_NO_PART = (None, 0, 0, 0, None, 0, 0, 0)
"""What a sweep is given that finds no statistics, or no products."""


def _parts(columns_BHKC: Tensor | None, masses_BHQC: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Columns that weights are multiplied with, not too many at once, and places for products."""
    if columns_BHKC is None or masses_BHQC is None:
        return
    for at in range(0, columns_BHKC.shape[-1], MOST_COLUMNS):
        part = columns_BHKC[..., at : at + MOST_COLUMNS]
        masses = masses_BHQC[..., at : at + MOST_COLUMNS]
        yield part, *part.stride()[:3], masses, *masses.stride()[2:], part.shape[-1]


def _vectors(tensor: Tensor) -> Tensor:
    """Queries or keys whose dimensions lie beside each other."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _bytes(is_true: Tensor) -> Tensor:
    """Booleans as integers; kernels know no booleans."""
    return is_true.contiguous().view(torch.int8)


def _power(size: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, size - 1).bit_length()
