"""Forecast: about how long each phase of a pruning will take, and how much memory, beforehand.

One batch is run twice, first to warm up. A phase takes the time of the second pass, by the phase's
number of tokens; a pass with gradients counts as three passes. Not counted are loading, what is
searched for a score (translations, passages), and the search of a budget.

Memory counts the models that are held at once, and the logits of a batch. The certificate holds the
given and the pruned model, and one that is being loaded, whose weights it then shares; a training
holds the given, the folded, the cut and the trained model, gradients, and two moments of AdamW. Not
counted is what Python and its libraries take.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import final

import numpy as np
import torch

from headcount.core import InputError, size_in_words
from headcount.models import ROOM, Loaded, free_for
from headcount.pruning.budget_spec import BudgetSpec
from headcount.pruning.compensation import Compensation, race_passes
from headcount.pruning.context import PruneSettings
from headcount.pruning.methods.by_score import GRADIENTS
from headcount.pruning.methods.method import Method
from headcount.speed import parameter_bytes
from headcount.tap import evaluating, input_device
from headcount.tasks import Task, TaskSplits, check_examples_fit, drawn
from headcount.training import FinetuneConfig

PROBED = 1024
"""Padded tokens of the batch that is timed."""
FORMS = 3
"""Models that the certificate runs, gated, compact and reloaded, and that it holds at once."""
TRAINED = 11
"""Numbers as many as weights that memory holds while a model is trained: seven copies, and about
four for what a step needs and what the allocator keeps, as measured."""
STATED = 1 << 30
"""Least number of bytes that is stated."""


@final
@dataclass(frozen=True)
class Phase:
    """A phase of a pruning, and how long it will take."""

    name: str
    seconds: float
    saved_by: str = ""
    """The options that leave it out."""


@final
@dataclass(frozen=True)
class Forecast:
    """The phases that take time, in order, and what is not known."""

    phases: tuple[Phase, ...]
    unknown: tuple[str, ...] = ()
    """What takes time beside them."""
    memory: int = 0
    """Bytes of the models that are held at once, and of a batch."""
    free: int | None = None
    """Bytes that are free; None if that is not known."""

    @property
    def seconds(self) -> float:
        """Time of all phases."""
        return sum(each.seconds for each in self.phases)

    @property
    def sentence(self) -> str:
        """The whole, each phase, and what can be left out.

        >>> print(Forecast((Phase("scores", 70.0), Phase("folding", 120.0, "--no-fold"))).sentence)
        About 3:10 (minutes:seconds): scores 1:10, folding 2:00. --no-fold saves 2:00.
        """
        named = ", ".join(f"{each.name} {clock(each.seconds)}" for each in self.phases)
        saved = [
            f" {each.saved_by} saves {clock(each.seconds)}."
            for each in self.phases
            if each.saved_by and each.seconds >= 1
        ]
        more = f" Not counted: {', '.join(self.unknown)}." if self.unknown else ""
        times = f"About {clock(self.seconds)} (minutes:seconds): {named}.{''.join(saved)}{more}"
        return f"{times}{self._needed()}"

    def _needed(self) -> str:
        """How much memory is needed, if it is much, and whether it is there."""
        if self.memory < STATED:
            return ""
        is_short = self.free is not None and self.free < self.memory
        free = f", of which {size_in_words(self.free or 0)} are free" * is_short
        return f" Models and batches need about {size_in_words(self.memory)} of memory{free}."


def clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock(130.0)
    '2:10'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,}:{rest:02}"


def forecast(
    loaded: Loaded,
    splits: TaskSplits,
    method: Method,
    limit: BudgetSpec,
    stages: Compensation,
    settings: PruneSettings,
) -> Forecast | None:
    """The forecast of `prune` with these arguments; None for a task that makes its own batches.

    Args:
        loaded: the model.
        splits: the data.
        method: the method that chooses heads.
        limit: the budget.
        stages: the stages after the choice.
        settings: whether neurons are pruned too, and the number of training examples for steps
            without training.

    Raises:
        InputError: for texts that do not fit into memory.
    """
    sample = drawn(splits.train, settings.calibration)
    check_examples_fit(loaded, splits.dev, PROBED)
    try:
        seconds = _seconds_per_token(loaded, splits.dev)
        of_sample, of_dev = (float(each.length_N.sum()) for each in (sample, splits.dev))
        of_test = float(splits.test.length_N.sum()) if splits.test else 0.0
    except InputError:
        return None
    heads = len(loaded.heads)
    passes: float | None = GRADIENTS  # of heads and neurons, once
    if not settings.neurons:
        passes = method.passes(heads, heads - (limit.keep if isinstance(limit.keep, int) else 0))
    choice = _trained(method.tuning) + (passes or 0) * of_sample
    is_mended = stages.fold or stages.rescale
    races = race_passes(stages, splits.dev)
    trained = _trained(stages.recovery)
    tokens: list[tuple[str, float, str]] = [
        ("dense model", of_dev + of_test, ""),
        ("choosing heads and neurons" if settings.neurons else "choosing heads", choice, ""),
        ("folding and rescaling", is_mended * (of_sample + races * of_dev), _SAVED),
        ("recovery", trained + bool(trained) * 2 * of_dev, ""),
        ("pruned model", of_dev + of_test, ""),
        ("control", stages.control * (trained + _trained(method.tuning)), "--no-control"),
        ("certificate", FORMS * of_dev, ""),
    ]
    trains = bool(trained or _trained(method.tuning))
    phases = (Phase(name, seconds * count, saved) for name, count, saved in tokens if count)
    unknown = [*_unknown(splits.dev, method, limit, passes)]
    if settings.neurons and limit.speedup is not None:
        unknown.append("the timing of smaller models")
    return Forecast((*phases,), (*unknown,), _memory(loaded, trains), free_for(loaded))


def _memory(loaded: Loaded, trains: bool) -> int:
    """Bytes of the models that are held at once, and of a batch's logits."""
    weights = parameter_bytes(loaded.model)
    return weights * (TRAINED if trains else FORMS) + max(ROOM, weights // 2)


_SAVED = "--no-fold --no-rescale"


def _unknown(dev: Task, method: Method, limit: BudgetSpec, passes: float | None) -> Iterator[str]:
    """What takes time that no batch tells."""
    if passes is None and method.tuning is None:
        yield f"choosing heads by {method.name}"
    if limit.keep is None and limit.share is None and limit.cache is None:
        yield "the search for the number of heads"
    if dev.writes:
        yield "the searches that the score needs"


def _trained(tuning: FinetuneConfig | None) -> float:
    """Tokens of a training, as of passes without gradients; a teacher adds one pass."""
    if tuning is None:
        return 0.0
    each = GRADIENTS + tuning.is_taught
    return each * tuning.updates * tuning.batch_tokens * tuning.accumulate


def _seconds_per_token(loaded: Loaded, task: Task) -> float:
    """Time of a pass over examples of usual length, by token, after one that warms up."""
    length_N = task.length_N
    usual = max(1, int(median(length_N.tolist())))
    near_N = np.argsort(np.abs(length_N - usual), kind="stable")[: max(1, PROBED // usual)]
    batch = task.batch(near_N).to(input_device(loaded.model))
    times = []
    with evaluating(loaded.model), torch.inference_mode():
        for _ in range(2):
            start = perf_counter()
            task.losses(loaded.model, batch).loss_E.sum().item()
            times.append(perf_counter() - start)
    return times[-1] / float(length_N[near_N].sum())
