"""By score: heads are pruned in ascending order of their importance (`importance/options.py`).

Random: heads are pruned in a random order, which every other method should beat.

Several seeds give a mean and a range. No data is used.

Stepwise: heads are pruned by ascending score, and scores are updated after every step.

After every step, pruned heads are gated to 0 while the others are scored again. A step of 1 scores
once for the entire order, a step of 0 once for each head. An order is nested: if units are equally
large, a smaller budget for all heads prunes the same units and more. Budgets for sites need an
order of their own: once a site has met its budget, scoring continues for the other sites only.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4, https://arxiv.org/abs/1905.10650

Auto: of several cheap scores, the one whose choice costs the model least under the budget.

Which score predicts best what pruning costs depends on the model. So every candidate ranks the
heads on one half of the examples. The heads that it would keep under the budget are then measured
on the other half, with the others gated to 0. The candidate with the lowest loss there ranks the
heads again on all examples. This takes a ranking and a forward pass for each candidate.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, make_dataclass, replace
from functools import cache
from random import Random as Chance
from typing import final

import numpy as np

from headcount.core import Head, InputError, Kept, Plan, signed_origins, sorted_by
from headcount.importance import SCORES, Scores, score_of, scores
from headcount.models import signature
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.budget import Unit, Units
from headcount.pruning.budget_spec import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Order, Ranking, Selection, ascending, by_mean
from headcount.pruning.options import (
    METHOD_OPTIONS,
    METHODS,
    AutoOptions,
    MethodOptions,
    RandomOptions,
    StepOptions,
)
from headcount.tap import Tap
from headcount.tasks import Task

Room = Mapping[str | None, int]
"""Number of heads still to prune, in all or at each site."""


@dataclass(frozen=True)
class Stepwise(StepOptions, Ranking):
    """A ranking by scores of the heads; heads with higher scores are kept."""

    @property
    def depends_on_batches(self) -> bool:
        """Whether scores depend on which examples share a batch, so on its size."""
        return False

    @property
    def uses_metric(self) -> bool:
        """Whether the scores come from the task's metric, not from its loss."""
        return False

    def passes(self, heads: int, pruned: int) -> float | None:
        """The passes of one scoring, times the steps."""
        step = max(1, round(self.step * heads))
        return self.passes_of_step(heads) * max(1, math.ceil(pruned / step))

    def passes_of_step(self, heads: int) -> float:
        """Passes over the examples that score all heads once, as in `passes`."""
        del heads
        return 1.0

    @abstractmethod
    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """Scores of the heads of the remaining units, while pruned heads are gated to 0.

        Args:
            context: the model, which is gated, and the data.
            left: units that can still be pruned. Other units are pruned already, or at a site that
                has met its budget, whose layers need no score.
        """

    def order(self, context: PruningContext, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, lowest scores first.

        With a budget, scores are updated until the budget is met; the kept heads follow by their
        last scores. A site that has met its own budget loses no more heads. If units differ in
        size, or every group loses equally many, only an order of all heads shows which ones a
        budget prunes, so the order always covers all.

        If the context has a state folder, an interrupted order resumes, and a finished one is read.

        Raises:
            InputError: if the state belongs to another run.
        """
        units = context.units if keep is None else context.units.named(keep)
        if not units.units:
            return {}
        size = max(1, round(self.step * len(units.units)))
        file, key = context.state and context.state / "order.json", self._key(context, units, keep)
        kept = Kept(file, key, "an order of heads", Mapping[Head, float])
        gone, left = kept.get("gone", {}), kept.get("left", {})
        total, is_read = sum(_room(units, {}, keep).values()), True
        # Everything is scored once, even if nothing is pruned, since scores are reported.
        while any((room := _room(units, gone, keep)).values()) or not (gone or left):
            asked = _left(units, gone, room) if gone or left else units.units
            context.progress("ranking", total - sum(room.values()), total)
            found, is_read = self._scored(context, gone, asked), False
            left = {**left, **found}
            gone = {**gone, **{head: found[head] for head in _going(found, units, size, room)}}
            left = by_mean([u for u in units.units if u[0] in left and u[0] not in gone], left)
            kept.keep({"gone": gone, "left": left})
        if not is_read:
            context.progress("ranking", total, total)
        return {**gone, **left}

    def _key(self, context: PruningContext, units: Units, keep: Keep | None) -> str:
        task = context.sample
        return signature(
            context.loaded,
            task.sha256,
            task=task.name,
            n=task.num_examples,
            units=units.sha256[:12],
            by=repr(self),
            plugins=signed_origins([SCORES.origin(self.name)] if self.name in SCORES else []),
            metric=task.signature if self.uses_metric else None,
            max_tokens=context.max_tokens if self.depends_on_batches else None,
            keep=None if isinstance(keep, int | None) else dict(keep),
        )

    def _scored(self, context: PruningContext, gone: Order, left: Sequence[Unit]) -> Order:
        """The remaining units, ordered by their scores in the model without the pruned heads."""
        loaded = context.loaded
        stay = set(loaded.heads) - set(gone)
        gates = Plan.keeping(loaded.heads, stay).gates(loaded.heads)
        with Tap(loaded.model, loaded.anatomy, gates=gates) if gates else nullcontext():
            return ascending(left, self.scores(context, left))


def _room(units: Units, gone: Order, keep: Keep | None) -> dict[str | None, int]:
    """Number of heads still to prune: in all (None), or at each site with its own budget."""
    uneven = units.groups or len({len(unit) for unit in units.units}) > 1
    if keep is None or uneven:
        return {None: sum(map(len, units.units)) - len(gone)}
    if not isinstance(keep, Mapping):
        return {None: max(0, len(units.heads) - keep - len(gone))}
    at = Counter(head.site for head in gone)
    return {
        site: sum(units.heads.counts[site]) - number - at[site] for site, number in keep.items()
    }


def _left(units: Units, gone: Order, room: Room) -> list[Unit]:
    """Units that are not pruned, at sites where more heads are to be pruned."""
    return [
        unit for unit in units.units if unit[0] not in gone and room[_counts_for(unit, room)] > 0
    ]


def _going(found: Order, units: Units, size: int, room: Room) -> tuple[Head, ...]:
    """The heads of the first units, no more at a site than its budget still prunes.

    A budget for all heads may be exceeded, so that steps are the same under a smaller budget.
    """
    unit_of = {head: unit for unit in units.units for head in unit}
    rest, going = Counter(room), []
    for unit in dict.fromkeys(unit_of[head] for head in found):
        where = _counts_for(unit, room)
        if len(going) < size and (where is None or rest[where] > 0):
            going.append(unit)
            rest[where] -= len(unit)
    return tuple(head for unit in going for head in unit)


def _counts_for(unit: Unit, room: Room) -> str | None:
    """The budget that a unit counts towards: that of its site, or of all (None)."""
    return None if None in room else unit[0].site


@final
@dataclass(frozen=True)
class Random(RandomOptions, Ranking):
    """An order drawn with the context's seed; all orders of the units are equally likely."""

    def passes(self, heads: int, pruned: int) -> float | None:
        """None is needed."""
        del heads, pruned
        return 0.0

    def order(self, context: PruningContext, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, in random order."""
        del keep  # all orders are equally likely
        units = list(context.units.units)
        Chance(context.seed).shuffle(units)
        return {head: math.nan for unit in units for head in unit}


@dataclass(frozen=True)
class ByScore(Stepwise):
    """Prunes in ascending order of a score, which is measured again after every step."""

    def passes(self, heads: int, pruned: int) -> float | None:
        """The passes of one scoring, times the steps; None for a score that is learned."""
        return None if SCORES[self.name].is_learned else super().passes(heads, pruned)

    def passes_of_step(self, heads: int) -> float:
        """One pass, with or without gradients."""
        del heads
        return GRADIENTS if SCORES[self.name].needs_gradients else 1.0

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """The score of every head, while pruned heads are gated to 0."""
        score = score_of(self.name, self)
        found = scores(score, context.loaded, context.scored(self.name), context.max_tokens)
        pruned = [head for unit in {*context.units.units} - {*left} for head in unit]
        return score.without(found, pruned)


@cache
def by_score(options: type[MethodOptions]) -> type[ByScore]:
    """The method that has the options of a score and a step."""
    name = options.__name__.removesuffix("Options")
    about = {"__module__": __name__, "__doc__": ByScore.__doc__}
    return make_dataclass(name, (), bases=(options, ByScore), namespace=about, frozen=True)


BY_SCORE: Mapping[str, type[ByScore]] = {
    name: by_score(METHOD_OPTIONS[name]) for name in SCORES.own if name not in METHODS.own
}
"""The method of each of our own scores, by its name."""


GRADIENTS = 3.0
"""Passes that one with gradients takes as long as."""

CANDIDATES = ("gradient", "fisher", "norm", "sink")
"""The scores to try."""


@final
@dataclass(frozen=True)
class Auto(AutoOptions, Method):
    """Tries the scores by gradient, Fisher information, norm and sink, and takes the best."""

    def passes(self, heads: int, pruned: int) -> float | None:
        """Half the examples score heads, the others measure; then the best scores on all."""
        tried = [each.passes(heads, pruned) or 0.0 for each in self._candidates().values()]
        return sum(tried) / 2 + len(tried) / 2 + max(tried)

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Choose by the candidate whose kept heads have the lowest loss on unseen examples.

        Raises:
            InputError: for a budget that the units can't meet, or fewer than two examples.
        """
        first, second = halves(context.sample, context.seed)
        trial = replace(context, train=first, calibration=first.num_examples, state=None)
        losses: dict[str, float] = {}
        context.progress("candidates", 0, len(self._candidates()))
        for number, (name, candidate) in enumerate(self._candidates().items()):
            plan = candidate.choose(trial, keep).plan
            measured = context.watched(second, f"kept by {name}")
            found = evaluate_gated(context.loaded, plan, measured, context.max_tokens, texts=False)
            losses[name] = found.loss
            context.progress("candidates", number + 1, len(self._candidates()))
        best = sorted_by(losses, losses.__getitem__)[0]
        return replace(self._candidates()[best].choose(context, keep), compared=losses)

    def _candidates(self) -> Mapping[str, Method]:
        return {name: BY_SCORE[name](self.step) for name in CANDIDATES}


def halves(task: Task, seed: int) -> tuple[Task, Task]:
    """Two halves of a task's examples, drawn at random.

    Raises:
        InputError: for fewer than two examples.
    """
    if task.num_examples < 2:
        raise InputError(
            f"Expected at least 2 examples, to score heads on one half and measure on the other, "
            f"got {task.num_examples}. Give more data, or name a --method."
        )
    order_N = np.random.default_rng(seed).permutation(task.num_examples)
    middle = task.num_examples // 2
    return task.some(np.sort(order_N[:middle])), task.some(np.sort(order_N[middle:]))
