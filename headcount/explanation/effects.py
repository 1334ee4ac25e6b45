"""Effects: what every head and several heads together do to the prediction of one prompt."""

from collections.abc import Mapping, Sequence
from typing import assert_never, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import Head, InputError, LayerId, added
from headcount.explanation.attribution import attribute, gradients, products
from headcount.explanation.prompts import ExplainOptions
from headcount.explanation.runs import Case, Change, Outputs, Row, Run, aligned
from headcount.models import Loaded
from headcount.tap import AttentionLayer, evaluating, heard, without_cache
from headcount.vocabulary import EFFECTS, EffectName

FIFTHS = 5
"""Number of ranges of layers whose looks are knocked out together."""

Effect = Float[np.ndarray, " head"]
"""One number for each head that is measured."""


@final
class Measured:
    """The runs of a case, with and without its second prompt.

    Args:
        loaded: the model.
        case: the prompt.
        means: mean outputs of all heads; None if none is replaced by its mean.
    """

    def __init__(self, loaded: Loaded, case: Case, means: Outputs | None) -> None:
        self._loaded, self._case, self._means = loaded, case, means
        self._clean = [Run(loaded, row) for row in case.rows]
        self._corrupt = [Run(loaded, row) for row in case.corrupt or ()]
        self.value = sum(run.value for run in self._clean)
        """What is predicted, in nats."""
        self.second = sum(run.value for run in self._corrupt) if self._corrupt else np.nan
        """The same in the second prompt; NaN without one."""
        self.log_probability = self._clean[0].log_probability
        """Log-probability of the target."""

    def replaced(
        self, effect: EffectName, sets: Sequence[Sequence[Head]]
    ) -> Float[np.ndarray, " set"]:
        """By how much each of some sets of heads raises what is predicted."""
        runs, sign = self._clean, 1
        if effect == "restored":
            runs, sign = self._corrupt, -1
        before = self.value if sign == 1 else self.second
        after = np.zeros(len(sets))
        for number, run in enumerate(runs):
            outputs = self._outputs(effect, number)
            after += run.values([Change(heads, outputs) for heads in sets])
        return sign * (before - after)

    def _outputs(self, effect: EffectName, number: int) -> Outputs | None:
        """What takes the place of the heads' outputs in a row; None for a knockout."""
        case, clean = self._case, self._clean[number].outputs
        match effect:
            case "knockout":
                return None
            case "zero":
                return {layer: torch.zeros_like(output[:1]) for layer, output in clean.items()}
            case "mean":
                assert self._means is not None
                return self._means
            case "restored":
                assert case.corrupt is not None
                return aligned(case.corrupt[number], clean)
            case "corrupt":
                return aligned(case.rows[number], self._corrupt[number].outputs)
            case "attribution" | "gradient" | "estimate":
                raise AssertionError(f"{effect} replaces no head")
            case _:
                assert_never(effect)

    def by_gradient(self, heads: Sequence[Head]) -> dict[EffectName, Effect]:
        """Gradient x output, and the estimate of patching if there is a second prompt."""
        found: dict[EffectName, Effect] = {"gradient": np.zeros(len(heads))}
        for number, (row, run) in enumerate(zip(self._case.rows, self._clean, strict=True)):
            slopes = gradients(self._loaded, row)
            found["gradient"] += _of(heads, products(slopes, run.outputs))
            if self._corrupt:
                other = aligned(row, self._corrupt[number].outputs)
                change = {layer: out - other[layer] for layer, out in run.outputs.items()}
                estimate = found.setdefault("estimate", np.zeros(len(heads)))
                estimate += _of(heads, products(slopes, change))
        return found


def attributions(
    loaded: Loaded, case: Case, heads: Sequence[Head]
) -> tuple[Effect, Mapping[str, float], float] | None:
    """Direct attribution to heads and to other parts, and the logit; None if it is not exact."""
    effect_H, parts, logit = np.zeros(len(heads)), dict[str, float](), 0.0
    for row in case.rows:
        found = attribute(loaded, row)
        if found is None:
            return None
        effect_H += _of(heads, found.heads)
        logit += found.logit
        parts = added(parts, found.parts)
    return effect_H, parts, logit


def _of(heads: Sequence[Head], values: Mapping[LayerId, Float[np.ndarray, " _"]]) -> Effect:
    return np.array([values[head.layer_id][head.index] for head in heads])


def mean_outputs(loaded: Loaded, rows: Sequence[Row]) -> Outputs:
    """The mean output of every head over all tokens of some rows."""
    sums, counts = dict[LayerId, Tensor](), dict[LayerId, int]()

    def add(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        here_QHD = output_BQHD[0].double()
        sums[layer.layer_id] = sums.get(layer.layer_id, 0) + here_QHD.sum(0, keepdim=True)
        counts[layer.layer_id] = counts.get(layer.layer_id, 0) + len(here_QHD)

    body = loaded.model.base_model
    with evaluating(loaded.model), torch.inference_mode():
        with heard(loaded.model, loaded.anatomy, head_outputs=add):
            for row in rows:
                body(**row.inputs(loaded), **without_cache(body))
    return {layer: sum_1HD / counts[layer] for layer, sum_1HD in sums.items()}


def ranges(loaded: Loaded, case: Case) -> list[tuple[int, int]]:
    """The first and the last layer of each range: single ones, fifths, all."""
    look = case.rows[0].look
    num = 0 if look is None else len(loaded.heads.counts[look.site])
    size = -(-num // FIFTHS)
    fifths = [(first, min(first + size, num) - 1) for first in range(0, num, size or 1)]
    return list(dict.fromkeys([*((each, each) for each in range(num)), *fifths, (0, num - 1)]))


def between(loaded: Loaded, case: Case, first: int, last: int) -> list[Head]:
    """The heads of some layers that look at the word."""
    look = case.rows[0].look
    assert look is not None
    return [head for head in loaded.heads if head.site == look.site and first <= head.layer <= last]


def heads_of(loaded: Loaded, options: ExplainOptions) -> list[Head]:
    """The heads to measure.

    Raises:
        InputError: for one that the model lacks.
    """
    named = {loaded.heads.named(name): name for name in options.heads}
    for head, name in named.items():
        if head not in loaded.heads:
            raise InputError(
                f"Expected heads of {loaded.name} ({loaded.heads}), got {name}. Name others."
            )
    return [*named] or [*loaded.heads]


def effects_of(loaded: Loaded, cases: Sequence[Case], options: ExplainOptions) -> list[EffectName]:
    """The effects to measure; by default those that need no second prompt where one lacks.

    Raises:
        InputError: if one was asked for that needs a second prompt, and there is none.
    """
    can_block = loaded.anatomy.can_block and not any(
        layer.by_own_softmax for layer in loaded.anatomy.layers
    )
    unseen = next((case.prompt for case in cases if case.rows[0].look is None), None)
    if "knockout" in options.effects and unseen is not None:
        raise InputError(
            f"{unseen.origin}: expected a word to be looked at, which the target "
            f"{unseen.target!r} is not in the prompt. Name one as --key."
        )
    can_block &= unseen is None
    without = next((case.prompt for case in cases if case.corrupt is None), None)
    needing = [name for name in options.effects if EFFECTS[name].needs_second]
    if needing and without is not None:
        raise InputError(
            f"{without.origin}: expected a second prompt for the effect {needing[0]}, got none. "
            "Give one as --corrupt, or in the file of prompts."
        )
    return [
        entry.key
        for entry in EFFECTS.values()
        if (entry.key in options.effects if options.effects else entry.key != "gradient")
        and (without is None or not entry.needs_second)
        and (entry.key != "knockout" or can_block)
    ]
