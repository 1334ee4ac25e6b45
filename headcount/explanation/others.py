"""Others: what the heads outside a circuit output.

`second`: what they output in the second prompt, as MIB has it; `mean`: their mean outputs; `zero`;
`resample`: what they output in another prompt of the file, the mean over a few draws, with tokens
aligned from the end (of a shorter prompt, the first token stands for all before it). The effect of
a plug-in that replaces heads can take their place, too.

Reference: MIB (Mueller et al., 2025), section 3, https://arxiv.org/abs/2504.13151; for resampling,
    Causal Scrubbing (Chan et al., 2022), https://www.alignmentforum.org/posts/JvZhhzycHu2Yd57RN
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.core import Head, InputError
from headcount.explanation.changes import Outputs
from headcount.explanation.effects import EFFECTS, Corrupt, Mean, Replacement, Zero
from headcount.explanation.plan import Plan
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.runs import Case, from_end

RESAMPLES = 5
"""Number of other prompts whose outputs take the place of a prompt's."""


@final
@dataclass(frozen=True)
class Others:
    """What the heads outside a circuit output."""

    name: str
    about: str
    """What that is, as the end of a sentence: "the other heads give ...". """
    of: Callable[[int], Sequence[Replacement]]
    """What takes the place of their outputs in a prompt of some number, the mean over several."""

    def left(
        self, n: int, runs: PromptRuns, sets: Sequence[Sequence[Head]]
    ) -> Float[np.ndarray, " set"]:
        """What is predicted of prompt n if all heads of a set are such others."""
        return runs.value - np.mean([each.lost(runs, sets) for each in self.of(n)], 0)


def others_of(plan: Plan) -> list[Others]:
    """What the plan names.

    Raises:
        InputError: for an effect that replaces no outputs in the prompt.
    """
    return [_others(plan, name) for name in plan.others]


_OURS: Mapping[str, tuple[type[Replacement], str]] = {
    "second": (Corrupt, "their outputs in the second prompt"),
    "mean": (Mean, "their mean outputs"),
    "zero": (Zero, "zero"),
}


def _others(plan: Plan, name: str) -> Others:
    if name == "resample":
        about = f"their outputs in another prompt (the mean over {RESAMPLES} draws)"
        return Others(name, about, partial(_resampled, plan))
    effect, about = _OURS.get(name) or (EFFECTS.find(name), "")
    if not issubclass(effect, Replacement) or effect.into_second or "looks" in effect.needs:
        raise InputError(
            f"Expected {', '.join(_OURS)}, resample or an effect that replaces what heads give in "
            f"the prompt, for the heads outside a circuit, got {name}. Name another."
        )
    return Others(name, about or f"something else ({effect.label})", partial(_fixed, (effect(),)))


def _fixed(replacements: Sequence[Replacement], n: int) -> Sequence[Replacement]:
    return replacements


def _resampled(plan: Plan, n: int) -> Sequence[Replacement]:
    """Other prompts of the file, drawn for a prompt."""
    random = np.random.default_rng((plan.options.seed, n))
    rest = [each for number, each in enumerate(plan.cases) if number != n]
    drawn = random.permutation(len(rest))[:RESAMPLES]
    return [_Resampled(plan, rest[number]) for number in drawn]


@final
class _Resampled(Replacement):
    """Outputs in another prompt."""

    name = "resample"

    def __init__(self, plan: Plan, other: Case) -> None:
        self._runs = PromptRuns(plan.loaded, replace(other, corrupt=None), None)

    def outputs(self, prompt: PromptRuns, row: int) -> Outputs:
        """Outputs in the other prompt, aligned from the end."""
        run = self._runs.clean[min(row, self._runs.num_rows - 1)]
        return from_end(prompt.clean[row].outputs, run.outputs)
