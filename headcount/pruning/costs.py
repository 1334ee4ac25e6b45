"""Costs of a compact model: its latency, its speedup and its size, for the limits of a budget."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from headcount.compaction import compact
from headcount.core import InputError, Kept, Plan, by_one
from headcount.models import Loaded, revision
from headcount.numbers import percent
from headcount.pruning.budget import pruned_heads
from headcount.pruning.budget_spec import OPTIONS, TIMING, BudgetSpec
from headcount.pruning.context import PruningContext
from headcount.pruning.limit import Chosen, Cost, Found, budget_key, largest_cost
from headcount.pruning.methods.method import Selection
from headcount.pruning.together import ChosenTogether, Together, check_reachable, measured_savings
from headcount.results import SizeRecord, SpeedRecord
from headcount.speed import (
    Options,
    TimeModel,
    cases_of,
    compare_speed,
    latency,
    parameter_bytes,
    takes_tokens,
)
from headcount.speed import record as speed_record
from headcount.tap import input_device
from headcount.tasks import Task, TaskBatch

CORRECTIONS = 3
"""Number of times that savings are corrected by the time of the model that they chose."""
CLOSE = 0.01
"""Share of the dense model's time that a choice may stay below its budget."""


def milliseconds(loaded: Loaded, task: Task, rounds: int = 9) -> float:
    """Median time over rounds of one forward pass with the example of median length alone.

    In translation, the reference is the decoder's input, without a search.
    """
    inputs = median_example(task).to(input_device(loaded.model)).inputs
    return by_one(lambda: 1000 * latency(loaded.model, inputs, rounds))


def median_example(task: Task) -> TaskBatch:
    """The example of median length, alone."""
    median = np.argsort(task.length_N, kind="stable")[task.num_examples // 2]
    return task.batch(median[None])


def compacted(loaded: Loaded, plan: Plan, origin: str | None) -> Loaded:
    """The compact model, with its tokenizer."""
    fitting = replace(plan, model=revision(loaded.model))
    return replace(loaded, model=compact(loaded, fitting, origin), inputs=None)


@final
@dataclass(frozen=True, eq=False)
class Costs:
    """What compact models cost, for the limits that a budget has."""

    limit: BudgetSpec
    """The budget."""
    context: PruningContext
    """The model and what can be pruned."""
    dev: Task
    """The data whose median length is timed."""
    timing: Options | None = None
    """The case to time; None to time nothing unless the budget is a speedup."""

    def checked(self) -> dict[str, Cost]:
        """What a choice costs, for each limit.

        Raises:
            InputError: If even the model without any head that can be pruned misses a limit, or
                the case to time does not fit the model or the memory.
        """
        loaded = self.context.loaded
        if self.timing is not None and takes_tokens(loaded.model):
            cases_of(loaded, loaded, self._options())
        if not self.limit.costs:
            return {}
        costs: dict[str, Cost] = {"latency": self._latency, "size": self._size}
        fewest = self._fewest()
        if self.limit.size is not None:
            self._check_reached("size", self._size(fewest), "has {} of the bytes")
        if self.limit.speedup is not None:
            model = self._time_model(fewest.plan)
            said = f"takes {{}} of the time ({model.timing.case})"
            self._check_reached("speedup", model.share(fewest.plan), said)
            costs["speedup"] = lambda selection: model.share(selection.plan)
        return costs

    def together(self) -> Chosen:
        """The heads and neurons that meet the budget, which lose least information.

        A speedup is measured on the compact model that is chosen, and savings are corrected by what
        was measured, `CORRECTIONS` times at most.

        Raises:
            InputError: If the budget is no speedup and no size, or can't be met.
        """
        context = self.context
        key = budget_key(self.limit, "heads and neurons", context, self.dev)
        file = context.state and context.state / "together.json"
        state = Kept(file, key, "a choice of heads and neurons", ChosenTogether)
        found = state.once("choice", self._together)
        plan, tried = found.plan, dict(found.tried)
        keep = len(plan.kept_heads(context.loaded.heads))
        selection = Selection(plan, context.loaded, found.scores)
        return Chosen(selection, keep, Found(keep, tried) if tried else None)

    def _together(self) -> ChosenTogether:
        limit, context = self.limit, self.context
        cost, fewest = self._cost_of_plan(), self._fewest().plan
        savings = measured_savings(context, fewest, cost)
        largest = largest_cost(limit, limit.costs[0])
        check_reachable(context, fewest, savings, largest)
        choice = Together.of(context)
        tried = dict[int, float]()
        selection = choice.choose(savings, largest)
        for _ in range(CORRECTIONS if limit.speedup is not None else 0):
            found = cost(selection.plan)
            tried[len(selection.plan.kept_heads(context.loaded.heads))] = found
            if largest - CLOSE < found <= largest:
                break
            promised = choice.promised(savings, selection.plan)
            savings = savings.scaled((1 - found) / (1 - promised))
            selection = choice.choose(savings, largest)
        plan = selection.plan
        return ChosenTogether(plan.kept, plan.neurons, selection.scores, tried)

    def _cost_of_plan(self) -> Callable[[Plan], float]:
        """The cost of a plan's compact model, as a share of the dense one's."""
        loaded = self.context.loaded
        if self.limit.costs not in (["speedup"], ["size"]):
            raise InputError(
                "Expected --speedup or --size, to prune neurons beside heads (--neurons), and no "
                "other limit but --max-drop. Heads and neurons share one budget."
            )

        def cost(plan: Plan) -> float:
            smaller = compacted(loaded, plan, None)
            if self.limit.size is not None:
                return parameter_bytes(smaller.model) / parameter_bytes(loaded.model)
            found = compare_speed(loaded, smaller, self._options(), progress=self.context.progress)
            return 1 / found.timings[0].speedup.value

        return cost

    def _fewest(self) -> Selection:
        """The choice that keeps no head that can be pruned."""
        loaded, units = self.context.loaded, self.context.units
        gone = pruned_heads(tuple(loaded.heads), units, units.possible()[0])
        return Selection(Plan.keeping(loaded.heads, {*loaded.heads} - {*gone}), loaded)

    def _check_reached(self, name: str, cost: float, said: str) -> None:
        """Raise an error if even the smallest model does not meet a limit."""
        if cost > (largest := largest_cost(self.limit, name)):
            still, most = said.format(percent(cost, 1)), percent(largest, 1)
            raise InputError(
                f"Expected a {name} that fewer heads can reach, but without any head that can be "
                f"pruned the model still {still}, more than {most}. Ask for less "
                f"({OPTIONS[name]})."
            )

    def _options(self) -> Options:
        """The case to time: the median length of the data, unless another was given."""
        options = self.timing or TIMING
        length = options.length
        if not length:
            inputs = median_example(self.dev).inputs
            tokens = inputs.get("input_ids", inputs.get("decoder_input_ids"))
            length = (1,) if tokens is None else (tokens.shape[1],)
        return replace(options, length=length, modes=("forward",))

    def _time_model(self, fewest: Plan) -> TimeModel:
        """The time of each plan; measured once, before anything long."""
        loaded = self.context.loaded
        smallest = compacted(loaded, fewest, None)
        return TimeModel.measured(loaded, smallest, fewest, self._options(), self.context.progress)

    def speed(self, smaller: Loaded) -> SpeedRecord | None:
        """The pruned model beside the dense one in one case; None if nothing is timed.

        Raises:
            InputError: If it can't be timed, but the budget is a speedup.
        """
        if self.timing is None and self.limit.speedup is None:
            return None
        loaded, progress = self.context.loaded, self.context.progress
        try:
            found = compare_speed(loaded, smaller, self._options(), progress=progress)
        except InputError as error:  # for models of images, or for lack of memory
            if self.limit.speedup is not None:
                raise InputError(
                    f"The pruned model could not be timed, which --speedup needs: {error}"
                ) from error
            warnings.warn(f"The speed was not measured: {error}", stacklevel=2)
            return None
        return SpeedRecord.of(speed_record(found))

    def paid(
        self, smaller: Loaded, size: SizeRecord, speed: SpeedRecord | None
    ) -> dict[str, float]:
        """The costs of the pruned model, for every limit on costs."""
        found = dict[str, float]()
        if self.limit.latency is not None:
            found["latency"] = milliseconds(smaller, self.dev)
        if self.limit.speedup is not None:
            assert speed is not None
            found["speedup"] = 1 / speed.cases[0].speedup.value
        if self.limit.size is not None:
            found["size"] = size.share
        return found

    def _latency(self, selection: Selection) -> float:
        """Milliseconds of the compact model of a choice."""
        return milliseconds(compacted(selection.loaded, selection.plan, None), self.dev)

    def _size(self, selection: Selection) -> float:
        """Bytes of the compact model of a choice, as a share of the dense model's."""
        smaller = compacted(selection.loaded, selection.plan, None)
        return parameter_bytes(smaller.model) / parameter_bytes(self.context.loaded.model)
