r"""Attention check: at each call, stock function, tap and a plain softmax agree, head by head.

$$o_h = \mathrm{softmax}(s\,Q_h K_h^\top + \text{bias} + \text{mask})\, V_h$$

The same queries, keys, values, mask and scale go to all of them, in float64 and in the model's own
number format, before the output projection. So no layer amplifies what another one rounded, and
the model's outputs need not be compared to the last digits. Limits are in `rounding`.

Where the plain softmax is not what a model computes (learned sinks), the model's own eager function
takes its place, in float64. No more than one layer's attention is in memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from headcount.core import Head, ModelError, reason
from headcount.tap.anatomy import Anatomy, AttentionLayer
from headcount.tap.attention_interface import stock_function
from headcount.tap.blocking import narrowed
from headcount.tap.call import Call, implementation_of
from headcount.tap.changes import TorchCalls
from headcount.tap.exact_attention import Exact, in_double, seeing_BHQ
from headcount.tap.listener import Block, FunctionListener
from headcount.tap.placement import head_group
from headcount.tap.rounding import head_limit
from headcount.tap.sample_inputs import ERRORS
from headcount.tap.tap import Tap

_FUSED, _WEIGHTS, _STOCK = "fused", "weights", "stock"


@final
@dataclass(frozen=True)
class Fault:
    """A head whose output at one call is not that of the plain softmax."""

    way: str
    """What computed it: the stock function, fused attention, or computed weights."""
    module: str
    head: Head
    share: float
    """The difference, as a share of the head's norm."""
    limit: float
    """The limit without the room that large scores have."""
    dtype: torch.dtype

    @property
    def sentence(self) -> str:
        """What differs where, and by how much."""
        way = {
            _STOCK: "the stock attention function",
            _FUSED: "fused attention",
            _WEIGHTS: "attention by computed weights",
        }[self.way]
        dtype = str(self.dtype).removeprefix("torch.")
        return (
            f"{way} differs from a plain softmax by {self.share:.2g} of the norm of head "
            f"{self.head} in {dtype} (limit {self.limit:.2g}, {self.module})"
        )


@final
@dataclass(frozen=True)
class _Way:
    """What one function returned for a call, and to what step it rounds scores and weights."""

    name: str
    output_BQHD: Tensor
    limit: float
    eps: float


@final
class AttentionCheck:
    """Compares attention at every call of a model that runs inside `checking`.

    Args:
        model: The model, not tapped.
        anatomy: Its attention layers, and which arithmetic the tap uses.
        hear: Called with every block of weights.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        anatomy: Anatomy,
        hear: Callable[[Block], None] | None = None,
    ) -> None:
        self.model, self.anatomy, self._hear = model, anatomy, hear
        self.differences = dict[str, float]()
        """Largest difference of the tap from the plain softmax, as a share of a head's norm."""
        self.fault: Fault | None = None
        """The first head that differs."""
        self.unfit = dict[str, str]()
        """Paths of modules whose calls can't be compared so, and why."""
        self.can_block = True
        """Whether heads that were kept from keys gave them no weight, where that was checked."""
        self._is_whole = True
        self._odd_HK: Tensor | None = None
        """The keys that heads are kept from, while they are."""
        modules = map(model.get_submodule, anatomy.by_module())
        self._names = {each: implementation_of(each) for each in modules}
        self._is_split = head_group(model) is not None
        self._stock = dict[nn.Module, Callable[[Call], Tensor]]()
        self._call: Call | None = None
        self._fused = Tap(model, anatomy)
        self._weighing = Tap(model, anatomy, FunctionListener(self._see))
        self._tap = Tap(model, anatomy, FunctionListener(self._see))

    @property
    def is_standard(self) -> bool:
        """Whether all layers call functions of transformers' own: they get masks of known forms."""
        return all(
            name == "eager"
            or (name == "sdpa" and stock_function(module, name) is sdpa_attention_forward)
            for module, name in self._names.items()
        )

    @contextmanager
    def checking(self, whole: bool = True) -> Iterator[None]:
        """Inside, the model is tapped with a listener, and its calls are compared.

        Args:
            whole: Whether calls of a model in float32 are compared in float64, too, and the tap
                also computes every call with every second head kept from every second key, by both
                its ways. Calls of a model in half precision are always compared in float64.
        """
        self._is_whole = whole
        with self._tap, self._tap.calling(self._keep), self._tap.returning(self._attended):
            yield

    def _keep(self, layer: AttentionLayer, call: Call) -> None:
        self._call = call

    def _attended(self, layer: AttentionLayer, output: Tensor) -> None:
        call, self._call = self._call, None
        if call is None:  # a softmax of its own
            return
        if self._is_whole and self.can_block:
            self._check_blocked(layer, call)
        if self.fault is None:
            try:
                if call.module not in self._stock:
                    self._stock[call.module] = self._stock_of(call.module)
                self._check(layer, call, output, self._stock[call.module])
            except (*ERRORS, ModelError) as error:
                self.unfit.setdefault(layer.module, reason(error))

    def _stock_of(self, module: nn.Module) -> Callable[[Call], Tensor]:
        """The function that a module calls without us, if it takes masks of the same form."""
        name = self._names[module] or implementation_of(self.model) or "sdpa"
        if self._is_split:
            raise ModelError("its heads are split over processes")
        masks = AttentionMaskInterface._global_mapping.get(name)
        if name not in ("sdpa", "eager") and masks not in (None, sdpa_mask):
            raise ModelError(f"{name} takes masks of a form of its own")
        function = stock_function(module, name)
        is_unmasked = name not in ("sdpa", "eager") and masks is None  # it never gets one

        def stock(call: Call) -> Tensor:
            if is_unmasked:
                call = replace(call, mask=None)
            return function(*call.tensors, **call.kwargs)[0]

        return stock

    def _check(
        self, layer: AttentionLayer, call: Call, weighed: Tensor, stock: Callable[[Call], Tensor]
    ) -> None:
        """Compare all ways to compute a call, in float64 and in the model's own format."""
        dtype, double = call.query.dtype, in_double(call)
        widening, found = _Widening(), dict[str, Tensor]()
        is_fused = self._names[call.module] == "sdpa" and not self.anatomy.eager
        with nullcontext() if is_fused else widening:  # fused attention asks for no format
            exact = Exact.of(double, seeing_BHQ(call), self.anatomy.eager)
            if self._is_whole or dtype != torch.float32:
                found[_STOCK] = stock(double)
                for tap, way in ((self._fused, _FUSED), (self._weighing, _WEIGHTS)):
                    found[way] = tap.attended(layer, double)
        limit = head_limit(torch.float64, widening.is_narrowed)
        step = torch.finfo(torch.float32 if widening.is_narrowed else torch.float64).eps
        ways = [_Way(way, output, limit, step) for way, output in found.items()]
        if dtype != torch.float64:  # a model in float64 may round inside
            eps = torch.finfo(dtype).eps
            # headcount computes weights in float32 at least
            wide = eps if self.anatomy.eager else torch.finfo(torch.float32).eps
            limit = head_limit(dtype)
            ways += [
                _Way(_STOCK, stock(call), limit, eps),
                _Way(_FUSED, self._fused.attended(layer, call), limit, eps),
                _Way(_WEIGHTS, weighed, limit, wide),
            ]
        fault, largest = _compared(layer, exact, ways)
        self.fault = self.fault or fault
        for way, share in zip(ways, largest, strict=True):
            if way.output_BQHD.dtype == dtype and way.name != _STOCK:
                self.differences[way.name] = max(self.differences.get(way.name, 0.0), share)

    def _check_blocked(self, layer: AttentionLayer, call: Call) -> None:
        """Keep every second head from every second key, and compare the tap's two ways."""
        num_heads, num_keys = call.query.shape[1], call.key.shape[2]
        odd_HK = torch.zeros(num_heads, num_keys, dtype=torch.bool, device=call.query.device)
        odd_HK[::2, 1::2] = True
        self._odd_HK = odd_HK
        try:
            mask, empty = narrowed(call.mask, odd_HK[None, :, None], call.query, call.key)
            call, eps = replace(call, mask=mask), torch.finfo(call.query.dtype).eps
            ways = [
                _Way(name, tap.attended(layer, call, empty), head_limit(call.query.dtype), eps)
                for name, tap in ((_FUSED, self._fused), (_WEIGHTS, self._weighing))
            ]
            exact = Exact.of(in_double(call), ~empty[..., 0], self.anatomy.eager)
            fault, _ = _compared(layer, exact, ways)
        except ERRORS:  # an eager function of the model's own takes masks of one head only
            self.can_block = False
        else:
            self.can_block = self.can_block and fault is None
        finally:
            self._odd_HK = None

    def _see(self, block: Block) -> None:
        if self._odd_HK is not None:
            reached_BHQK = block.weights_BHQK * self._odd_HK[block.heads, None]
            self.can_block = self.can_block and not reached_BHQK.any()
        elif self._hear is not None:
            self._hear(block)


def _compared(
    layer: AttentionLayer, exact: "Exact", ways: Sequence[_Way]
) -> tuple[Fault | None, list[float]]:
    """The first head that differs from the plain softmax, and the largest difference of each way.

    Differences are shares of a head's norm.
    """
    fault, found = None, [0.0] * len(ways)
    norm_H = exact.norms(ways[0].output_BQHD)
    for queries in exact.chunks():
        chunk = exact.chunk(queries)
        apart_WBHQ = chunk.apart([way.output_BQHD[:, queries] for way in ways])
        share_WBHQ = apart_WBHQ / norm_H.clamp_min(1e-30)[:, None]
        largest = share_WBHQ.flatten(1).amax(1).tolist()
        found = [*map(max, found, largest)]
        for number, way in enumerate(ways):
            if largest[number] <= way.limit:
                continue
            apart_BHQ, share_BHQ = apart_WBHQ[number], share_WBHQ[number]
            in_double = way.output_BQHD.dtype == torch.float64
            allowed_BHQ = way.limit * norm_H[:, None] + chunk.moved_BHQ(way.eps, in_double)
            over_BHQ = (apart_BHQ > allowed_BHQ) | apart_BHQ.isinf()
            if fault is None and over_BHQ.any():
                share_H = share_BHQ.where(over_BHQ, 0).amax((0, 2))
                head = int(share_H.argmax())
                fault = Fault(
                    way.name,
                    layer.module,
                    Head(layer.site, layer.layer, head),
                    share_H[head].item(),
                    way.limit,
                    way.output_BQHD.dtype,
                )
    return fault, found


@final
class _Widening(TorchCalls):
    """Inside, what is computed in float64 stays in float64, also in functions that ask for float32.

    Most eager functions take their softmax in float32. What still becomes narrower is noticed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_narrowed = False

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function of torch, with float64 for the format that it is to make of float64."""
        if not any(_is_double(each) for each in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        if function is Tensor.float:
            return args[0]
        args = tuple(map(_widened, args))
        kwargs = {name: _widened(each) for name, each in kwargs.items()}
        result = function(*args, **kwargs)
        if isinstance(result, Tensor) and result.is_floating_point():
            self.is_narrowed = self.is_narrowed or result.dtype != torch.float64
        return result


_NARROWER = (torch.float32, torch.bfloat16, torch.float16)


def _is_double(each: object) -> bool:
    return isinstance(each, Tensor) and each.dtype == torch.float64


def _widened(each: Any) -> Any:
    """float64 for a narrower format; anything else as it is."""
    return torch.float64 if isinstance(each, torch.dtype) and each in _NARROWER else each
