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
from headcount.tap.check import Check, Outputs
from headcount.tap.listener import Block
from headcount.tap.rounding import ALONE, ROOM, TOLERANCE
from headcount.tap.sample_inputs import ERRORS, UNPADDED


def with_arithmetic(
    model: PreTrainedModel, anatomy: Anatomy, checks: Mapping[str, Check]
) -> tuple[Anatomy, Check, Outputs]:
    """The anatomy with the first arithmetic under which the tapped model equals the stock model.

    Returns:
        The anatomy, and where the tap ran without a listener, with what came out.
    """
    trials = list[_Trial]()
    for eager in (False, True):
        trials.append(_Trial(model, replace(anatomy, eager=eager), checks))
        if trials[-1].run():
            return trials[-1].found, checks[trials[-1].bare], trials[-1].outputs
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
        self.outputs: Outputs = []
        self.bare = next((where for where in checks if where == UNPADDED), next(iter(checks)))
        """The check in which the tap runs without a listener; no other needs as few tokens."""
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
            self.candidate,
            layers=layers,
            differences=differences,
            by_outputs=self.alone,
            can_block=self.attention.can_block,
        )

    def run(self) -> bool:
        """Whether all calls and outputs are equal.

        The tap runs with a listener on every batch but `bare`, and without one on that. Where calls
        can't be compared, it runs both ways on all.
        """
        found, first = dict[str, Outputs | None](), next(iter(self.checks))
        for where in self.checks:
            if (where == first or where != self.bare) and not self._compared(where, found):
                return False
        if self.alone and self.bare not in found and not self._compared(self.bare, found):
            return False
        for where, check in self.checks.items():
            self.where, runs = where, [found[where]] if where in found else []
            if where == self.bare or (self.alone and check.runs):
                runs.append(check.tapped(self.candidate, None))
            if where == self.bare:
                self.outputs = runs[-1] or []
            if not all(self._is_equal(check, outputs) for outputs in runs):
                return False
        return True

    def _compared(self, where: str, found: dict[str, Outputs | None]) -> bool:
        """Whether all calls in one check are equal; adds the model's outputs to what was found."""
        self.where, check = where, self.checks[where]
        try:
            with self.attention.checking(whole=not found):
                found[where] = check.run()
        except ERRORS as error:
            if not check.runs:
                return True
            if not self.candidate.eager:
                raise
            self.failed = reason(error)  # some eager functions can't take half precision
            return False
        if self.attention.fault is not None:
            self.failed = self.attention.fault.sentence
        return self.attention.fault is None

    def _is_equal(self, check: Check, outputs: list[Tensor] | None) -> bool:
        """Whether the tapped model's outputs are equal in one check."""
        # In half precision the stock model may overflow where the tapped one does not
        is_safe = self.model.dtype not in _HALF and self.attention.is_standard
        enough = self.limit if is_safe and not self.alone else None
        apart = check.apart(outputs, self.candidate, enough)
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
