"""Plan: which effects of which heads are measured on which prompts, and the loop over these."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, final

from headcount.core import Head, InputError, Progress, spread
from headcount.explanation.blocks import Blocks
from headcount.explanation.changes import Outputs
from headcount.explanation.effects import EFFECTS, Effect, Estimate, Gradient, Replacement
from headcount.explanation.mlps import units_of
from headcount.explanation.options import ExplainOptions
from headcount.explanation.prompt_runs import PromptRuns, mean_outputs
from headcount.explanation.runs import Case, Row
from headcount.models import Loaded

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """What is measured to explain some predictions."""

    loaded: Loaded
    cases: Sequence[Case]
    options: ExplainOptions
    texts: Sequence[Row]
    """What heads' mean outputs are over; the prompts if there are none."""
    heads: Sequence[Head]
    """The heads to measure."""
    units: Sequence[Head]
    """The same, and behind them the MLPs, if circuits are made of these, too."""
    effects: Sequence[Effect]
    others: Sequence[str]
    """What the heads outside circuits output, by name; none without circuits."""
    means: Outputs | None
    """Mean outputs of all heads; None if nothing needs them."""
    blocks: Blocks
    """Which prompts share names."""

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        cases: Sequence[Case],
        options: ExplainOptions,
        texts: Sequence[Row],
        failed: Collection[object] = (),
    ) -> "Plan":
        """The plan for some prompts, without effects that have failed.

        Raises:
            InputError: for heads that the model lacks, or effects that the prompts don't allow.
        """
        heads, effects = _heads(loaded, options), _effects(loaded, cases, options)
        effects = [each for each in effects if type(each) not in failed]
        others, means = _others(cases, options), None
        if "mean" in others or any("means" in each.needs for each in effects):
            means = mean_outputs(loaded, texts or [case.rows[0] for case in cases])
        blocks = Blocks.of([case.prompt for case in cases])
        units = [*heads, *units_of(cases[0].rows[0].mlps)]
        return cls(loaded, cases, options, texts, heads, units, effects, others, means, blocks)

    def runs(self, n: int) -> PromptRuns:
        """The runs of prompt n."""
        return PromptRuns(self.loaded, self.cases[n], self.means)

    def measured(
        self, of_prompt: Callable[[int, PromptRuns], T], doing: str, progress: Progress
    ) -> list[T]:
        """What is measured of each prompt, from its number and its runs; processes share them."""
        numbers, steps = range(len(self.cases)), partial(progress, doing)
        return [*spread(lambda n: of_prompt(n, self.runs(n)), numbers, "prompts", steps)]

    @property
    def replacements(self) -> list[Replacement]:
        """The effects that replace heads."""
        return [each for each in self.effects if isinstance(each, Replacement)]

    @property
    def knockout(self) -> Replacement | None:
        """The effect that blocks looks, if it is measured."""
        return next((each for each in self.replacements if "looks" in each.needs), None)


def _heads(loaded: Loaded, options: ExplainOptions) -> list[Head]:
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


def _effects(loaded: Loaded, cases: Sequence[Case], options: ExplainOptions) -> list[Effect]:
    """The effects to measure; by default those that need nothing that a prompt lacks.

    For a circuit, that is the cheapest one by default.

    Raises:
        InputError: if one was asked for that needs what a prompt lacks.
    """
    order = [*EFFECTS]
    named = sorted(map(EFFECTS.find, {*options.effects}), key=lambda each: order.index(each.name))
    _check_needs(named, cases)
    lacking = {*_lacking(loaded, cases)}
    wanted = named or [each for each in EFFECTS.usable() if each.by_default]
    if options.circuit and not named:  # others would cost more than the circuits
        wanted = [Gradient if "second" in lacking else Estimate]
    return [each() for each in wanted if not each.needs & lacking]


def _others(cases: Sequence[Case], options: ExplainOptions) -> tuple[str, ...]:
    """What heads outside circuits output: by default what the second prompt has, and means.

    Raises:
        InputError: for a second prompt that is lacking.
    """
    without = next((case.prompt for case in cases if case.corrupt is None), None)
    if "second" in options.others and without is not None:
        raise InputError(
            f"{without.origin}: expected a second prompt, which gives the outputs of the heads "
            "outside a circuit, got none. Give one, or choose --others mean."
        )
    default = ("mean",) if without is not None else ("second", "mean")
    return (options.others or default) if options.circuit else ()


def _lacking(loaded: Loaded, cases: Sequence[Case]) -> Iterator[str]:
    """What effects need that some prompt, or the model, lacks."""
    own = any(layer.by_own_softmax for layer in loaded.anatomy.layers)
    if own or not loaded.anatomy.can_block or any(case.rows[0].look is None for case in cases):
        yield "looks"
    if any(case.corrupt is None for case in cases):
        yield "second"
    if any(case.rows[0].at is not None for case in cases):
        yield "all tokens"


def _check_needs(named: Sequence[type[Effect]], cases: Sequence[Case]) -> None:
    """Check that prompts have what the effects need that were asked for."""
    unseen = next((case.prompt for case in cases if case.rows[0].look is None), None)
    if unseen is not None and any("looks" in each.needs for each in named):
        raise InputError(
            f"{unseen.origin}: expected a word to be looked at, which the target "
            f"{unseen.target!r} is not in the prompt. Name one as --key."
        )
    without = next((case.prompt for case in cases if case.corrupt is None), None)
    needing = [each.name for each in named if "second" in each.needs]
    if needing and without is not None:
        raise InputError(
            f"{without.origin}: expected a second prompt for the effect {needing[0]}, got none. "
            "Give one as --corrupt, or in the file of prompts."
        )
