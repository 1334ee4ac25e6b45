"""Arithmetic: which one computes a model's attention weights, and how equal they are.

headcount's own is tried first, then the model's own eager function. Either must equal the stock
model: at each call, head by head (`attention_check`), and in the model's outputs, with room for
rounding. Modules whose calls can't be compared are compared by the model's outputs alone.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import ModelError, reason
from headcount.tap.anatomy import Anatomy, AttentionLayer
from headcount.tap.attention_check import AttentionCheck
from headcount.tap.call import implementation_of
from headcount.tap.check import Check
from headcount.tap.listener import Block, FunctionListener
from headcount.tap.rounding import ALONE, ROOM, TOLERANCE
from headcount.tap.sample_inputs import ERRORS


def with_arithmetic(
    model: PreTrainedModel, anatomy: Anatomy, checks: Mapping[str, Check]
) -> tuple[Anatomy, list[Tensor]]:
    """The anatomy with the first arithmetic under which the tapped model equals the stock model.

    Returns:
        The anatomy, and the outputs of the tapped model in the first check.
    """
    trials = list[_Trial]()
    for eager in (False, True):
        trials.append(_Trial(model, replace(anatomy, eager=eager), checks))
        if trials[-1].run():
            return trials[-1].found, trials[-1].outputs
    for path, layers in anatomy.by_module().items():
        if len({layer.site for layer in layers}) > 1:
            raise ModelError(
                f"Expected an encoder and a decoder with attention of their own, but those of "
                f"{type(model).__name__} share {path}, and the tapped model differs: "
                f"{trials[0].failed}. The module can't know its side."
            )
    check = checks[trials[0].where]
    unrest, apart = check.unrest(), check.rounding()
    if unrest > trials[0].limit:
        why = (
            f"The stock model's own outputs of two runs on the same inputs differ by {unrest:.2g}: "
            "it draws random numbers in evaluation, so nothing can be compared. Set what makes it "
            "draw (a mask ratio, a number of samples) to 0, or load a class without it."
        )
    elif apart > trials[0].limit and implementation_of(model) == "sdpa":
        why = (
            f"transformers' own sdpa and eager attention of this model differ by {apart:.2g} "
            "there, and sdpa shows no weights. Load the model with attn_implementation='eager', "
            "and use it in Python."
        )
    else:
        why = (
            "Its attention does something that the attention function is not informed of, so the "
            "model is refused."
        )
    raise ModelError(
        f"Expected the tapped {type(model).__name__} to equal the stock model, but "
        f"{trials[0].failed} {trials[0].where} (with the model's own eager attention: "
        f"{trials[1].failed}). {why}"
    )


@final
class _Trial:
    """Whether the tapped model equals the stock model under one arithmetic."""

    def __init__(
        self, model: PreTrainedModel, candidate: Anatomy, checks: Mapping[str, Check]
    ) -> None:
        self.model, self.candidate, self.checks = model, candidate, checks
        self.totals = _Totals(TOLERANCE[model.dtype])
        self.attention = AttentionCheck(model, candidate, hear=self.totals.add)
        self.differences = dict[str, float]()
        self.outputs = list[Tensor]()
        self.where, self.failed = next(iter(checks)), ""
        """The check that failed, and how."""

    @property
    def limit(self) -> float:
        """Largest difference of outputs that needs no measure of rounding."""
        return (ALONE if self.alone else ROOM)[self.model.dtype]

    @property
    def alone(self) -> tuple[str, ...]:
        """Paths of the modules that are compared by the model's outputs alone."""
        own = (layer.module for layer in self.candidate.layers if layer.by_own_softmax)
        return tuple(dict.fromkeys((*own, *self.attention.unfit)))

    @property
    def found(self) -> Anatomy:
        """The anatomy with what was found."""
        layers = tuple(
            replace(layer, has_learned_sink=self.totals.lack(layer))
            for layer in self.candidate.layers
        )
        differences = self.attention.differences | self.differences
        return replace(
            self.candidate, layers=layers, differences=differences, by_outputs=self.alone
        )

    def run(self) -> bool:
        """Whether all calls and outputs are equal.

        Outputs of the calls that are compared are those of the tap's weights. So the tap itself
        need not run on every batch, unless it does more than to compute such calls.
        """
        found = dict[str, list[Tensor]]()
        if any(not layer.by_own_softmax for layer in self.candidate.layers):
            for where, check in self.checks.items():
                self.where = where
                try:
                    with self.attention.checking():
                        found[where] = check.run()
                except ERRORS as error:
                    if not self.candidate.eager:
                        raise
                    self.failed = reason(error)  # some eager functions can't take half precision
                    return False
                if self.attention.fault is not None:
                    self.failed = self.attention.fault.sentence
                    return False
        for number, (where, check) in enumerate(self.checks.items()):
            self.where, runs = where, list[list[Tensor] | None]()
            if number == 0 or self.alone or where not in found:
                heard = FunctionListener(self.totals.add)
                runs = [check.tapped(self.candidate, each) for each in (heard, None)]
                self.outputs = self.outputs or runs[1] or []
            else:
                runs = [found[where]]
            if not all(self._is_equal(check, outputs) for outputs in runs):
                return False
        return True

    def _is_equal(self, check: Check, outputs: list[Tensor] | None) -> bool:
        """Whether the tapped model's outputs are equal in one check."""
        apart = check.apart(outputs, self.candidate)
        largest = max(apart)
        self.differences["outputs"] = max(self.differences.get("outputs", 0.0), largest)
        if check.is_equal(apart, self.limit, alone=bool(self.alone)):
            return True
        if self.model.dtype in _HALF and not self.alone and self._is_equal_in_float32(check):
            return True
        self.failed = f"its outputs differ by {largest:.2g} (limit {self.limit:g})"
        return False

    def _is_equal_in_float32(self, check: Check) -> bool:
        """Whether outputs are equal in float32, so that all calls are seen and used.

        Every call was compared in half precision, which a model near its limits amplifies.
        """
        with suppress(*ERRORS):  # no memory, or weights that are elsewhere
            wide = check.in_float32()
            found = wide.tapped(self.candidate, None)
            apart = wide.apart(found, self.candidate)
            return wide.is_equal(apart, ROOM[torch.float32], alone=False)
        return False


_HALF = (torch.float16, torch.bfloat16)


@final
class _Totals:
    """Remembers in which layers the weights of a query add up to less or to more than 1."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self._less, self._more = set[AttentionLayer](), set[AttentionLayer]()

    def add(self, block: Block) -> None:
        """Add the weights of a block; padding that sees no key may have weights of 0."""
        total_BHQ = block.weights_BHQK.sum(-1)
        if ((total_BHQ > 0) & (total_BHQ < 1 - self.tolerance)).any():
            self._less.add(block.layer)
        if (total_BHQ > 1 + self.tolerance).any():
            self._more.add(block.layer)

    def lack(self, layer: AttentionLayer) -> bool:
        """Whether the layer's weights add up to less than 1, and never to more."""
        return layer in self._less - self._more
