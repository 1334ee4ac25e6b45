"""Equality: a compact model computes what the gated model computes, head by head and in all.

In every sample run the numbers that enter an output projection are compared for each head that is
kept, as a share of that head's norm, and so are those that leave it. So a head counts by itself,
however little it adds to the outputs. The compact model continues with the gated model's numbers,
so that no layer amplifies what an earlier one rounded. Outputs of both models are compared, too,
without such help but with room for rounding.

What differs by more than rounding does once is computed again in wider formats, in which only a
fault is left. A head that no wider format can judge, for lack of memory or of code, is judged by
the outputs alone.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.compaction.neurons import FeedForward, kept_neurons, named_feed_forwards, plan_gated
from headcount.core import Head, LayerId, ModelError, Plan, free_memory, reason
from headcount.tap import (
    ERRORS,
    ROOM,
    TOLERANCE,
    Anatomy,
    AttentionLayer,
    SampleRun,
    difference,
    evaluating,
    exact_products,
    head_limit,
    input_device,
    intercepted,
    sample_runs,
)

COMPACT, RELOADED = "compact", "reloaded"
"""Forms of a model with fewer heads, as errors name them."""

_HALF = (torch.float16, torch.bfloat16)
_WIDER = dict.fromkeys(_HALF, torch.float32) | {torch.float32: torch.float64}
"""Formats in which models are compared that differ: deep ones amplify what theirs rounds off."""


def check_equal(
    model: PreTrainedModel,
    anatomy: Anatomy,
    plan: Plan,
    smaller: PreTrainedModel,
    inputs: Mapping[str, Tensor] | None = None,
    form: str = COMPACT,
) -> float:
    """Raise an error unless a compact model equals the gated model in every sample run.

    Args:
        model: The model with all heads.
        anatomy: Its attention layers.
        plan: The kept heads.
        smaller: The compact model.
        inputs: Inputs of the user's own; made up if None.
        form: Form of the smaller model, `COMPACT` or `RELOADED`.

    Returns:
        Largest difference of a head, or of a layer's output, as a share of its norm.

    Raises:
        ModelError: If it does not run, or if a head or the outputs differ by more than rounding.
    """
    kind, largest = f"{form} {type(model).__name__}", 0.0
    fed = named_feed_forwards(model, anatomy, plan, inputs)
    for where, run in sample_runs(model, inputs).items():
        comparison, dtype = _Comparison(anatomy, plan, fed, run), model.dtype
        try:
            with _exactly(model):
                gated = comparison.gated(model)
        except ERRORS:
            if run.cached:  # some stock models fail with a cache
                continue
            raise
        try:
            with _exactly(smaller):
                found = comparison.apart(smaller, gated)
        except ERRORS as error:
            raise ModelError(
                f"{type(model).__name__} does not run with fewer {_what(plan)} {where}, so it can "
                "be gated but not made smaller: its own code needs all of them "
                f"({reason(error)})."
            ) from error
        with suppress(*ERRORS):  # some models run in one format alone
            while (wider := _WIDER.get(dtype)) and found.is_off(dtype):
                if found.outputs <= found.limit(dtype) and not _has_room(model, wider):
                    break
                found, dtype = _apart_in(wider, model, smaller, comparison), wider
        _check(found, dtype, kind, where)
        largest = max(largest, found.share)
    return largest


def _what(plan: Plan) -> str:
    """What a plan prunes."""
    return "heads and neurons" if plan.neurons else "heads"


def _check(found: "_Apart", dtype: torch.dtype, kind: str, where: str) -> None:
    """Raise an error for what is off; heads are judged in float64 only."""
    name, reasons = str(dtype).removeprefix("torch."), _REASONS[kind.partition(" ")[0]]
    if found.outputs > found.limit(dtype):
        raise ModelError(
            f"Expected the {kind} to differ from the gated one by at "
            f"most {found.limit(dtype):g} of the largest output, got {found.outputs:.2g} {where}, "
            f"computed in {name}. {reasons[0]}"
        )
    if dtype == torch.float64 and found.is_off(dtype):
        raise ModelError(
            f"Expected {found.worst} of the {kind} to differ from the gated "
            f"one's by at most {_limit(dtype):g} of its norm, got {found.share:.2g} "
            f"{where}, computed in {name}. {reasons[1]}"
        )


_WRONG = "The files do not hold what was saved. Nothing was written; check the disk and try again."
_REASONS = {
    COMPACT: (
        "Its attention combines all heads, so it can be gated but not made smaller.",
        "What it computes depends on heads that are pruned, so it can be gated but not made "
        "smaller.",
    ),
    RELOADED: (_WRONG, _WRONG),
}
"""Why the outputs, and why a head, may differ, by form."""


def _limit(dtype: torch.dtype) -> float:
    """Largest difference of a head, as a share of its norm; many softmaxes round to float32."""
    return head_limit(dtype, is_narrowed=True)


@contextmanager
def _exactly(model: PreTrainedModel) -> Iterator[None]:
    with evaluating(model), exact_products(), torch.no_grad():
        yield


def _has_room(model: PreTrainedModel, dtype: torch.dtype) -> bool:
    """Whether a copy of a model in another format fits into memory."""
    free = free_memory() if input_device(model).type == "cpu" else None
    needed = sum(each.numel() for each in model.parameters()) * dtype.itemsize
    return free is None or 2 * needed <= free


@final
@dataclass(frozen=True)
class _Apart:
    """How far a compact model is from the gated one in one run."""

    outputs: float
    """Largest difference of outputs, as a share of the largest output."""
    share: float
    """Largest difference of what enters or leaves an output projection, as a share of its norm."""
    worst: str
    """What differs so."""

    def limit(self, dtype: torch.dtype) -> float:
        """The limit of outputs, which have room for rounding where all calls are equal."""
        return (ROOM if self.share <= _limit(dtype) else TOLERANCE)[dtype]

    def is_off(self, dtype: torch.dtype) -> bool:
        """Whether something differs by more than rounding does once."""
        return self.outputs > self.limit(dtype) or self.share > _limit(dtype)


def _apart_in(
    dtype: torch.dtype, model: PreTrainedModel, smaller: PreTrainedModel, before: "_Comparison"
) -> _Apart:
    """The same in another format; memory holds one copy at a time.

    Raises:
        ArithmeticError: If a model's outputs are not finite there, as where padding sees nothing.
    """
    batch = before.run.batch
    floats = {name: each.to(dtype) for name, each in batch.items() if each.is_floating_point()}
    run = replace(before.run, batch={**batch, **floats})
    comparison = _Comparison(before.anatomy, before.plan, before.fed, run)
    own = copy.deepcopy(model)
    nn.Module.to(own, dtype)
    with _exactly(own):
        gated = comparison.gated(own)
    own = copy.deepcopy(smaller)
    nn.Module.to(own, dtype)
    with _exactly(own):
        found = comparison.apart(own, gated)
    if not isfinite(found.outputs):
        raise ArithmeticError(f"outputs in {dtype} are not finite")
    return found


@final
@dataclass(frozen=True, eq=False)
class _End:
    """The last map of a layer: an output projection, or the second of a feed-forward network."""

    path: str
    layer_id: LayerId
    columns: Tensor
    """Columns of what is kept."""
    names: list[str]
    """What these are, in parts of equal size; none if nothing is kept."""

    @classmethod
    def of_heads(cls, layer: AttentionLayer, plan: Plan, anatomy: Anatomy) -> "_End":
        """The output projection of a layer, each of whose kept heads is a part."""
        kept = plan.of_layer(anatomy.heads, layer.site, layer.layer)
        columns = torch.arange(layer.num_heads * layer.head_dim).view(layer.num_heads, -1)
        names = [f"head {Head(layer.site, layer.layer, index)}" for index in kept]
        return cls(layer.output or "", layer.layer_id, columns[list(kept)].flatten(), names)

    @classmethod
    def of_neurons(cls, layer: FeedForward, plan: Plan) -> "_End":
        """The second map of a network, whose kept neurons are one part: some are hardly active."""
        kept, place = kept_neurons(plan, layer), layer.layer_id
        names = [f"the neurons of {place.site} {place.layer}"] if kept else []
        return cls(layer.output, place, torch.tensor(kept, dtype=torch.long), names)


@final
class _Comparison:
    """Compares what enters and leaves the last maps of layers in one sample run of both models.

    Args:
        anatomy: Attention layers of the model with all heads.
        plan: The kept heads and neurons.
        fed: The feed-forward networks that lose neurons.
        run: The sample run.
    """

    def __init__(
        self, anatomy: Anatomy, plan: Plan, fed: Sequence[FeedForward], run: SampleRun
    ) -> None:
        self.anatomy, self.plan, self.run = anatomy, plan, run
        self.fed = fed
        self._ends = [
            *(_End.of_heads(each, plan, anatomy) for each in anatomy.layers if each.output),
            *(_End.of_neurons(each, plan) for each in fed),
        ]
        self._expected = dict[str, deque[Tensor]]()
        """What goes into and out of each last map in the gated model, call by call."""
        self._share, self._worst = 0.0, ""

    def gated(self, model: PreTrainedModel) -> list[Tensor]:
        """The gated model's outputs; what its kept heads compute is remembered."""

        def enter(end: _End, given: Tensor) -> None:
            if end.names:
                self._remember(end, given[..., end.columns].clone())

        with (
            plan_gated(model, self.anatomy, self.plan, self.fed),
            self._hearing(model, enter, self._remember),
        ):
            return self.run.outputs(model)

    def apart(self, smaller: PreTrainedModel, gated: list[Tensor]) -> _Apart:
        """How far the compact model is from the gated one, which ran before."""

        def enter(end: _End, given: Tensor) -> Tensor | None:
            if not end.names:
                return None  # nothing of it comes out
            found = given.unflatten(-1, (len(end.names), -1))
            return self._compare(end, found, end.names).flatten(-2)

        def leave(end: _End, given: Tensor) -> Tensor:
            name = f"the output of {end.layer_id}"
            return self._compare(end, given[..., None, :], [name])[..., 0, :]

        outputs = difference(self.run.outputs(smaller), gated)
        with self._hearing(smaller, enter, leave):
            self.run.outputs(smaller)
        return _Apart(outputs, self._share, self._worst)

    @contextmanager
    def _hearing(
        self,
        model: PreTrainedModel,
        enter: Callable[["_End", Tensor], Tensor | None],
        leave: Callable[["_End", Tensor], Tensor | None],
    ) -> Iterator[None]:
        """Inside, what enters and leaves the last maps passes through functions."""
        ends = {model.get_submodule(each.path): each for each in self._ends}
        with intercepted(
            ends,
            lambda module, given: enter(ends[module], given),
            lambda module, output: leave(ends[module], output),
        ):
            yield

    def _remember(self, end: "_End", given: Tensor) -> None:
        self._expected.setdefault(end.path, deque()).append(given)

    def _compare(self, end: "_End", found: Tensor, names: Sequence[str]) -> Tensor:
        """Note how far some numbers are from the gated model's, which take their place."""
        expected = self._expected[end.path].popleft().reshape(found.shape)
        apart, size = (
            self._at_tokens(each.double().norm(dim=-1).nan_to_num())
            for each in (found - expected, expected)
        )
        share_K = apart.amax(0) / size.square().mean(0).sqrt().clamp_min(1e-30)
        if (largest := share_K.max().item()) > self._share:
            self._share, self._worst = largest, names[int(share_K.argmax())]
        return expected

    def _at_tokens(self, each: Tensor) -> Tensor:
        """Numbers of every part at tokens that are no padding: [token, part]."""
        for mask in self.run.masks:
            if mask.shape == each.shape[:2]:
                return each[mask.to(each.device)]
        return each.reshape(-1, each.shape[-1])
