"""Checks: sample runs in which the tapped model must equal the stock model."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.tap.anatomy import Anatomy
from headcount.tap.attention_interface import dispatching, eager_function, plain_attention
from headcount.tap.call import Call, implementation_of
from headcount.tap.listener import Listener
from headcount.tap.rounding import MOST, SPREADS, TOLERANCE, difference, largest
from headcount.tap.sample_inputs import ERRORS
from headcount.tap.sample_run import SampleRun
from headcount.tap.tap import Tap

Outputs = list[Tensor]


@final
class Check:
    """A run in which the tapped model must equal the stock model.

    Args:
        model: The model.
        sample: What it reads.
        like: The check whose outputs this one's repeat. The stock model runs here only where the
            tapped model does not return what the stock model returned there.
    """

    def __init__(
        self, model: PreTrainedModel, sample: SampleRun, like: "Check | None" = None
    ) -> None:
        self.model, self.sample, self._like = model, sample, like

    @cached_property
    def stock(self) -> Outputs:
        """The stock model's outputs."""
        return self.run()

    @cached_property
    def runs(self) -> bool:
        """Whether the stock model runs; some fail with a cache."""
        with suppress(*ERRORS if self.sample.cached else ()):
            return self.stock is not None
        return False

    @property
    def is_finite(self) -> bool:
        """Whether the stock model's outputs are finite, as far as they are known."""
        return "stock" not in vars(self) or all(map(math.isfinite, map(largest, self.stock)))

    @property
    def _likely(self) -> Outputs | None:
        """What the stock model returns, unless caches or masks of ones change it."""
        like = self._like
        return None if like is None else self.sample.repeated(like.sample, like.stock)

    def run(self) -> Outputs:
        """The model's outputs as it is now."""
        return self.sample.outputs(self.model)

    def tapped(self, anatomy: Anatomy, listener: Listener | None) -> Outputs | None:
        """The tapped model's outputs; None if its own eager function can't take its format."""
        try:
            with Tap(self.model, anatomy, listener):
                return self.run()
        except ERRORS:
            if anatomy.eager:  # eager functions of some models can't take half precision
                return None
            raise

    def apart(
        self, found: Outputs | None, anatomy: Anatomy, enough: float | None = None
    ) -> list[float]:
        """The largest differences from the stock model at tokens, and at padding if compared.

        Each is a share of the largest output, and infinite for a model that does not run.

        Where padding can see nothing, nobody reads what comes out, and two ways to compute it may
        differ: scores of minus infinity are rounded in half precision, and sdpa returns zeros where
        eager attention returns a mean. There, only the outputs of visible tokens are compared.

        Args:
            found: The outputs.
            anatomy: The model's attention layers.
            enough: Differences from what the stock model returned in the check that this one is
                like that are small enough; None to run the stock model in this one.
        """
        if found is None:
            return [math.inf]
        if enough is not None and (likely := self._likely) is not None:
            apart = [difference(*pair) for pair in self._parts(found, likely, anatomy)]
            if max(apart) <= enough:
                return apart
        if not self.runs:  # there is nothing to compare with
            return [0.0]
        return [difference(*pair) for pair in self._parts(found, self.stock, anatomy)]

    def is_equal(self, apart: list[float], limit: float, alone: bool) -> bool:
        """Whether outputs equal the stock model's, up to a limit or to rounding.

        Rounding is what the stock model itself differs by, at tokens and at padding each, when it
        computes the same in another order.

        Args:
            apart: What `apart` found for the outputs.
            limit: Largest difference that needs no measure of rounding.
            alone: Whether nothing but outputs is compared; then rounding has a limit, too.
        """
        for number, each in enumerate(apart):
            if math.isinf(each):
                return False
            if each > limit:
                rounding = SPREADS * self.spreads[number]
                if not each <= (min(rounding, MOST[self.model.dtype]) if alone else rounding):
                    return False
        return True

    def in_float32(self) -> "Check":
        """The same of a copy of the model in float32, which takes twice the memory of half."""
        own = copy.deepcopy(self.model).float()
        floats = {
            name: each.float()
            for name, each in self.sample.batch.items()
            if each.is_floating_point()
        }
        return Check(own, replace(self.sample, batch={**self.sample.batch, **floats}))

    def unrest(self) -> float:
        """How far two runs of the stock model are apart: above 0 if it draws random numbers."""
        return difference(self.run(), self.stock)

    def rounding(self) -> float:
        """How far transformers' own eager attention and sdpa are apart at visible tokens.

        It is 0 if the model does not run in both, or uses another implementation.
        """
        with suppress(*ERRORS):
            return difference(*self._at_tokens(self._otherwise(), self.stock))
        return 0.0

    @cached_property
    def spreads(self) -> tuple[float, float]:
        """How far the stock model's own outputs are apart, at tokens and at padding.

        The same is computed by its other implementation (eager for sdpa), and row by row. What does
        not run is left out. A model that draws random numbers has none: that is no rounding.
        """
        spreads = [0.0, 0.0]
        if self.unrest() > TOLERANCE[self.model.dtype]:
            return 0.0, 0.0
        for run in (self._otherwise, self._row_by_row):
            with suppress(*ERRORS):
                found = run()
                for number, pair in enumerate(self._at_both(found, self.stock)):
                    apart = difference(*pair)  # infinite where rows were not the first axis
                    spreads[number] = max(spreads[number], apart if math.isfinite(apart) else 0.0)
        return spreads[0], spreads[1]

    def _otherwise(self) -> Outputs:
        """The outputs with eager attention for sdpa, or with sdpa for eager attention."""
        others: dict[str | None, tuple[str, Callable[[Call], Tensor]]] = {
            "eager": ("sdpa", plain_attention),
            "sdpa": ("eager", _by_eager),
        }
        own = implementation_of(self.model)
        if own not in others:
            return self.stock
        other, attend = others[own]
        with dispatching(self.model, attend, other):
            return self.run()

    def _row_by_row(self) -> Outputs:
        """The outputs of single rows, put together."""
        batch = self.sample.batch
        num_rows = len(next(iter(batch.values())))
        rows = [
            replace(self.sample, batch={name: each[row : row + 1] for name, each in batch.items()})
            for row in range(num_rows)
        ]
        found = [row.outputs(self.model) for row in rows]
        return [torch.cat(parts) for parts in zip(*found, strict=True)]

    def _parts(
        self, found: Outputs, others: Outputs, anatomy: Anatomy
    ) -> Iterator[tuple[Outputs, Outputs]]:
        """The outputs to compare: at tokens and, where padding has outputs, at padding."""
        is_half = self.model.dtype in (torch.float16, torch.bfloat16)
        if is_half or anatomy.implementation is not None:
            yield self._at_tokens(found, others)
        else:
            yield from self._at_both(found, others)

    def _at_tokens(self, found: Outputs, others: Outputs) -> tuple[Outputs, Outputs]:
        """The outputs of two runs with zeros at padding."""
        return [*map(self._visible, found)], [*map(self._visible, others)]

    def _at_both(self, found: Outputs, others: Outputs) -> Iterator[tuple[Outputs, Outputs]]:
        """The outputs at tokens, and those that are left at padding."""
        shown, stock = self._at_tokens(found, others)
        yield shown, stock
        if all(mask.all() for mask in self.sample.masks):  # no padding
            return
        if [each.shape for each in found] == [each.shape for each in others]:
            hidden = [a - b for a, b in zip(found, shown, strict=True)]
            yield hidden, [a - b for a, b in zip(others, stock, strict=True)]

    def _visible(self, output: Tensor) -> Tensor:
        """An output with zeros at padded positions."""
        for mask in self.sample.masks:
            if output.shape[:2] == mask.shape:
                return output.where(mask.reshape(*mask.shape, *[1] * (output.ndim - 2)), 0)
        return output


def checks_of(model: PreTrainedModel, runs: Mapping[str, SampleRun]) -> dict[str, Check]:
    """A check of each run, by its description."""
    checks = {name: Check(model, run) for name, run in runs.items() if run.like is None}
    return {
        name: checks[name] if run.like is None else Check(model, run, checks[run.like])
        for name, run in runs.items()
    }


def _by_eager(call: Call) -> Tensor:
    return eager_function(call.module)(*call.tensors, **call.kwargs)[0]
