"""Circuits: what is left of predictions with the best heads by each ranking.

What is measured is defined in circuit_rows.py. A prompt's best heads are those by the mean effects
over the other half of the prompts, so no prompt chooses its own circuit; scores that were
measured on other data choose the same heads for all. Heads are ranked by their score with its sign,
and by its size.

What the heads outside a circuit output (`second`): what they output in the second prompt, as MIB
has it; `mean`: their mean outputs; `zero`; `resample`: what they output in another prompt of the
file, the mean over a few draws, with tokens aligned from the end (of a shorter prompt, the first
token stands for all before it). The effect of a plug-in that replaces heads can take their place,
too.

Reference: MIB (Mueller et al., 2025), section 3, https://arxiv.org/abs/2504.13151; for resampling,
    Causal Scrubbing (Chan et al., 2022), https://www.alignmentforum.org/posts/JvZhhzycHu2Yd57RN
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, InputError, Progress, silent
from headcount.explanation.changes import Outputs
from headcount.explanation.circuit_rows import (
    SIGNED,
    AreaRow,
    ComplementRow,
    Curve,
    Order,
    areas,
    sizes_of,
)
from headcount.explanation.effects import EFFECTS, Corrupt, Mean, Replacement, Zero
from headcount.explanation.plan import Plan
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.result import SPLIT_FROM
from headcount.explanation.runs import Case, from_end
from headcount.explanation.singles import Halves
from headcount.numbers import within
from headcount.results import RANDOM

RESAMPLES = 5
"""Number of other prompts whose outputs take the place of a prompt's."""


@final
@dataclass(frozen=True)
class Others:
    """What the heads outside a circuit output."""

    plan: Plan
    """The prompts, and the heads."""
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
    """What the plan names, one by one.

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
        return Others(plan, name, about, partial(_resampled, plan))
    effect, about = _OURS.get(name) or (EFFECTS.find(name), "")
    if not issubclass(effect, Replacement) or effect.into_second or "looks" in effect.needs:
        raise InputError(
            f"Expected {', '.join(_OURS)}, resample or an effect that replaces what heads give in "
            f"the prompt, for the heads outside a circuit, got {name}. Name another."
        )
    about = about or f"something else ({effect.label})"
    return Others(plan, name, about, partial(_fixed, (effect(),)))


def elsewhere_of(others: Others, cases: Sequence[Case]) -> Others:
    """The same others in prompts of other templates."""
    options = replace(others.plan.options, others=(others.name,))
    plan = Plan.of(others.plan.loaded, cases, options, others.plan.texts)
    return _others(plan, others.name)


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


@final
@dataclass(frozen=True, eq=False)
class Ends:
    """What is predicted with all heads as they are, and with none."""

    others: Others
    """What heads give that are not as they are."""
    whole_N: Float[np.ndarray, " prompt"]
    nothing_N: Float[np.ndarray, " prompt"]

    @property
    def plan(self) -> Plan:
        """The prompts, and the heads."""
        return self.others.plan

    def row(self) -> ComplementRow:
        """The means over prompts, and the interval of their difference."""
        gain = self.plan.blocks.within(self.whole_N - self.nothing_N)
        return ComplementRow(
            self.others.name, self.others.about, float(self.nothing_N.mean()), *gain
        )

    @property
    def can_judge(self) -> bool:
        """Whether all heads raise what is predicted, beyond chance."""
        row = self.row()
        return row.gain > 0 and not row.low <= 0

    def seen(self) -> str:
        """What is predicted with all heads and with none."""
        row, whole = self.row(), float(self.whole_N.mean())
        return (
            f"got {whole:.2f} nats with all of them and {row.nothing:.2f} where they give "
            f"{self.others.about}, a difference of {within(row.gain, row.low, row.high)} over "
            f"{len(self.whole_N)} prompts"
        )


def ends_of(plan: Plan) -> tuple[list[Ends], list[str]]:
    """The ends of every curve, and why some others can't be judged by.

    Raises:
        InputError: for fewer prompts than have halves, or predictions that need no head.
    """
    if len(plan.cases) < SPLIT_FROM:
        raise InputError(
            f"Expected at least {SPLIT_FROM} prompts for a circuit, since each half chooses "
            f"the heads for the other, got {len(plan.cases)}. Give a file of --prompts."
        )
    every, others = [[*plan.units]], others_of(plan)

    def of_prompt(n: int, runs: PromptRuns) -> list[float]:
        return [runs.value, *(float(each.left(n, runs, every)[0]) for each in others)]

    whole_N, *nothings = np.array(plan.measured(of_prompt, "", silent)).T
    if whole_N.max() <= 0 and all(case.prompt.against for case in plan.cases):
        raise InputError(
            "Expected prompts of which the model prefers some target to its rival, got "
            f"{len(plan.cases)} in which it prefers the rival ({whole_N.mean():.2f} nats). What it "
            "can't do has no circuit. Give others, or swap targets and rivals."
        )
    pairs = zip(others, nothings, strict=True)
    found = [Ends(each, whole_N, nothing_N) for each, nothing_N in pairs]
    if not any(each.can_judge for each in found):
        raise InputError(
            f"Expected heads that raise what is predicted, {found[0].seen()}. A circuit is judged "
            "by the share of it that is left. Give more prompts, or others."
        )
    faults = [
        f"no circuit is judged where other heads give {each.others.about}, since the heads don't "
        f"raise what is predicted beyond chance ({each.seen()})"
        for each in found
        if not each.can_judge
    ]
    return [each for each in found if each.can_judge], faults


@final
@dataclass(frozen=True, eq=False)
class Ranked:
    """The heads by one ranking, the best first."""

    ranking: str
    order: Order
    halves: Sequence[Halves]
    """For either half of the prompts; of random heads, several draws."""
    are_of_halves: bool
    """Whether each half chose for the other."""


def curves_of(
    ends: Sequence[Ends],
    ranked: Sequence[Ranked],
    progress: Progress,
    sizes: Int[np.ndarray, " size"] | None = None,
) -> list[Curve]:
    """The curve of every ranking, with all others; processes share the prompts.

    Args:
        ends: what is predicted with all heads, and with none.
        ranked: the rankings.
        progress: called with the number of prompts done.
        sizes: numbers of heads, none and all among them. By default those of `sizes_of`: MIB's only
            for random heads, and for every ranking under the second and later of `ends`, unless the
            options name what the other heads give.
    """
    plan, heads = ends[0].plan, ends[0].plan.units
    brief = set() if plan.options.others else {end.others.name for end in ends[1:]}

    def sizes_in(end: Ends, ranking: str) -> Int[np.ndarray, " size"]:
        few = end.others.name in brief or ranking == RANDOM
        return sizes_of(len(heads), few) if sizes is None else sizes

    wanted = [(end, each, sizes_in(end, each.ranking)) for each in ranked for end in ends]

    def of_prompt(n: int, runs: PromptRuns) -> list[Float[np.ndarray, " size"]]:
        """What is left of a prompt with each number of best heads, by curve."""
        found = dict[str, Mapping[Kept, float]]()
        curves = [(end.others.name, _kept(each, sizes, n)) for end, each, sizes in wanted]
        for end in ends:
            own = [curve for name, curve in curves if name == end.others.name]
            sets = [*dict.fromkeys(kept for curve in own for draws in curve for kept in draws)]
            gone = [
                [head for number, head in enumerate(heads) if number not in kept] for kept in sets
            ]
            left = end.others.left(n, runs, gone).tolist()  # equal sets run once
            found[end.others.name] = dict(zip(sets, left, strict=True))
        return [
            np.array([np.mean([found[name][kept] for kept in draws]) for draws in curve])
            for name, curve in curves
        ]

    left = plan.measured(of_prompt, "circuits", progress)
    return [
        _curve(end, each, sizes, np.stack(left_N), heads)
        for (end, each, sizes), left_N in zip(wanted, zip(*left, strict=True), strict=True)
    ]


Kept = frozenset[int]
"""Numbers of the units of a circuit."""


def _kept(ranked: Ranked, sizes: Int[np.ndarray, " size"], n: int) -> list[list[Kept]]:
    """The circuits of each size between none and all for a prompt, one a draw of random heads."""
    return [
        [frozenset(halves[n % 2][:size].tolist()) for halves in ranked.halves]
        for size in sizes[1:-1]
    ]


def _curve(
    end: Ends,
    ranked: Ranked,
    sizes: Int[np.ndarray, " size"],
    left_NK: Float[np.ndarray, "prompt inner"],
    heads: Sequence[Head],
) -> Curve:
    """The curve of one ranking."""
    ends = (end.nothing_N[:, None], left_NK, end.whole_N[:, None])
    gained_NK = np.concatenate(ends, 1) - end.nothing_N[:, None]
    names = [[str(heads[number]) for number in order] for order in ranked.halves[0]]
    shared = [
        float(np.mean([len({*one[:size]} & {*other[:size]}) for one, other in ranked.halves]))
        if ranked.are_of_halves
        else float("nan")
        for size in sizes
    ]
    return Curve(
        end.others.name,
        ranked.ranking,
        ranked.order,
        sizes,
        gained_NK,
        shared,
        names if ranked.ranking != RANDOM else [],
        end.plan.blocks,
    )


def areas_of(curves: Sequence[Curve]) -> Iterator[AreaRow]:
    """The areas of every ranking; random heads have one order."""
    by = {(each.others, each.ranking, each.order): each for each in curves}
    for (others, ranking, order), curve in by.items():
        if order == SIGNED:
            yield from areas(curve, by.get((others, ranking, "size"), curve))
