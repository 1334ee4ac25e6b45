r"""Comparison: two models take turns on the same inputs in one process.

Case: one mode at one batch size and length, timed with two models.

The time of a plan lies between two measured ones, of the dense model and without any prunable head:

$$\frac{t}{t_\mathrm{dense}} = 1 - \Big(1 - \frac{1}{s}\Big) \cdot
\frac{F_\mathrm{dense} - F}{F_\mathrm{dense} - F_\mathrm{fewest}}$$

s is the measured speedup without any prunable head, and F are FLOPs of one forward. FLOPs alone
would promise too much, since softmax, norms and moving numbers cost time as well; here they decide
only how the gain that was measured is shared among heads.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from transformers import PreTrainedModel

from headcount.core import InputError, Plan, Progress, amount, silent, size_in_words
from headcount.corpora import Corpus
from headcount.models import Loaded, as_loaded, attention_bytes, free_for, states_bytes
from headcount.numbers import minus, percent
from headcount.results import size_of_case
from headcount.speed.costs import Size, Work, flops, peak_bytes
from headcount.speed.flop_ceiling import ModelFlops, model_flops
from headcount.speed.inputs import MODES, TokenRows, check_fits, fitting
from headcount.speed.options import Options
from headcount.speed.timing import Machine, Ratio, in_turns
from headcount.tap import evaluating, input_device


@final
@dataclass(frozen=True)
class Case:
    """One mode, batch size and length to time."""

    mode: str
    batch: int
    """Number of examples in a batch."""
    length: int
    """Number of tokens in an example; for an encoder-decoder, on each side."""
    new_tokens: int = 0
    """Number of tokens to generate."""

    def __str__(self) -> str:
        return f"{self.mode}, batch {self.batch}, {self.size}"

    @property
    def size(self) -> str:
        """Length in words, with the tokens to generate."""
        return size_of_case(self.length, self.new_tokens)

    @property
    def counted_tokens(self) -> int:
        """Number of tokens for the rate: generated tokens if there are any, else input tokens."""
        return self.batch * (self.new_tokens or self.length)


@final
@dataclass(frozen=True)
class Cost:
    """The cost of a case for one model."""

    seconds: float
    """Median over rounds, in seconds."""
    peak_bytes: float
    """Peak memory beyond weights and inputs, in bytes; NaN where it can't be measured."""
    flops: int

    def record(self, case: Case) -> dict[str, float]:
        """All numbers, with rates."""
        return {
            "latency_s": self.seconds,
            "examples_per_s": case.batch / self.seconds,
            "tokens_per_s": case.counted_tokens / self.seconds,
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
        }


@final
@dataclass(frozen=True, eq=False)
class Timing:
    """A case timed with two models; the dense model runs twice, to separate noise from speedup."""

    case: Case
    dense: Cost
    pruned: Cost
    seconds_RW: Float[np.ndarray, "round work"]
    """Seconds of dense, pruned and dense again in every round."""

    @property
    def speedup(self) -> Ratio:
        """Speedup of the pruned model: per round, the mean dense time over the pruned time."""
        first_R, pruned_R, second_R = self.seconds_RW.T
        return Ratio.of(np.sqrt(first_R * second_R) / pruned_R)

    @property
    def noise(self) -> Ratio:
        """Ratio of the dense model's two times."""
        first_R, _, second_R = self.seconds_RW.T
        return Ratio.of(first_R / second_R)

    @property
    def ceiling(self) -> float:
        """Largest speedup if time is proportional to FLOPs."""
        return self.dense.flops / self.pruned.flops

    @property
    def reached(self) -> float:
        """Measured share of the ceiling's gain; NaN where the ceiling allows no gain."""
        possible = self.ceiling - 1
        return (self.speedup.value - 1) / possible if possible > 0 else math.nan

    def warning(self) -> str | None:
        """A sentence if the speedup is not reliable; else None."""
        speedup, noise = self.speedup, self.noise.distance
        if self.ceiling < 1:
            return (
                f"{self.case}: the second model takes {1 / self.ceiling:.2f} times the FLOPs of "
                "the first, which should be the dense one: were the two swapped?"
            )
        if speedup.value > self.ceiling:
            cause = "a measurement error, or time spent on work that FLOPs don't count"
            if speedup.low <= self.ceiling:
                cause = "a measurement error: its interval includes the ceiling"
            return (
                f"{self.case}: {speedup.value:.3f} is above its ceiling of {self.ceiling:.3f}, "
                f"{cause}"
            )
        if noise >= abs(speedup.value - 1) or speedup.low <= 1 <= speedup.high:
            return (
                f"{self.case}: a change of {minus(f'{100 * (speedup.value - 1):+.1f}')}\u202f% is "
                "within the noise, since the dense model differs from itself by up to "
                f"{percent(noise, 1)}: use more --rounds or a quieter machine"
            )
        return None

    def record(self) -> dict[str, Any]:
        """All numbers, and the times they are computed from."""
        return {
            **asdict(self.case),
            "dense": self.dense.record(self.case),
            "pruned": self.pruned.record(self.case),
            "speedup": asdict(self.speedup),
            "noise": asdict(self.noise),
            "ceiling": self.ceiling,
            "share_of_ceiling": self.reached,
            "rounds_s": dict(
                zip(("dense", "pruned", "dense_again"), self.seconds_RW.T.tolist(), strict=True)
            ),
        }


@final
@dataclass(frozen=True, eq=False)
class Speed:
    """Sizes and timings of a pruned model beside the dense one."""

    dense: Size
    pruned: Size
    timings: Sequence[Timing]
    machine: Machine
    """What the times depend on besides the models."""
    left_out: Sequence[str] = ()
    """A sentence for each length that the models can't take and each case that lacked memory."""

    def warnings(self) -> list[str]:
        """A sentence for everything that was left out or is not reliable."""
        reported = (each.warning() for each in self.timings)
        return [*self.left_out, *(each for each in reported if each is not None)]


def compare_speed(
    dense: Loaded | PreTrainedModel,
    pruned: Loaded | PreTrainedModel,
    options: Options | None = None,
    corpus: Corpus | None = None,
    progress: Progress = silent,
) -> Speed:
    """Time two models on the same tokens.

    Args:
        dense: The dense model.
        pruned: The pruned model.
        options: Batch sizes, lengths, modes and rounds.
        corpus: Text to run on; random tokens if None.
        progress: Callback that is called before every case.

    Raises:
        InputError: If the models can't replace each other, or there is nothing to run.
    """
    dense, pruned = as_loaded(dense), as_loaded(pruned)
    options = options or Options()
    options.check_sizes()
    check_fits(dense, pruned)
    cases, left_out = cases_of(dense, pruned, options)
    num_tokens = max(case.batch * case.length for case in cases)
    rows = (
        TokenRows.random(dense, num_tokens, options.seed)
        if corpus is None
        else TokenRows.of_text(dense, corpus, num_tokens)
    )
    found = Machine.of(dense.model)
    timings = list[Timing]()
    with ExitStack() as stack:
        for loaded in (dense, pruned):
            stack.enter_context(evaluating(loaded.model))
        for done, case in enumerate(cases):
            progress(str(case), done, len(cases))
            try:
                timings.append(_timing(dense, pruned, case, rows, options.rounds))
            except torch.OutOfMemoryError:
                left_out.append(f"{case} was left out for lack of memory")
    if not timings:
        raise InputError(
            f"Expected a batch and length that fit into memory, got none: {left_out[-1]}."
        )
    return Speed(Size.of(dense), Size.of(pruned), timings, found, left_out)


def cases_of(dense: Loaded, pruned: Loaded, options: Options) -> tuple[list[Case], list[str]]:
    """The cases that can run, and a sentence for each that can't.

    Raises:
        InputError: If none can, or the models lack a mode.
    """
    modes = fitting(dense.model)
    if unfit := set(options.modes) - set(modes):
        raise InputError(
            f"Expected {dense.name} to have the modes {', '.join(sorted(unfit))}, but it has only "
            f"{', '.join(modes)}: an encoder can't generate."
        )
    limits = [each.max_length for each in (dense, pruned)]
    limit = min((each for each in limits if each is not None), default=None)
    cases, left_out, free = [], [], free_for(dense)
    for mode, length in product(options.modes or modes, options.length):
        added = options.new_tokens if mode == "generate" else 0
        beside = 1 if dense.model.config.is_encoder_decoder else length
        needed = max(length, added and beside + added)
        if limit is not None and needed > limit:
            left_out.append(
                f"{mode} at {amount(length, 'token')} was left out: it needs "
                f"{amount(needed, 'position')}, the model has {limit}"
            )
            continue
        for case in (Case(mode, batch, length, added) for batch in options.batch):
            # Masks are those of the models' own kernels, which may need none.
            needed_bytes = attention_bytes(dense, case.batch, length, measured=True)
            needed_bytes += states_bytes(dense, case.batch, length)
            if free is None or needed_bytes <= free:
                cases.append(case)
            else:
                left_out.append(
                    f"{case} was left out: it needs {size_in_words(needed_bytes)} of memory, "
                    f"{size_in_words(free)} are free"
                )
    if not cases:
        raise InputError(
            f"Expected a length that {dense.name} can take, got none: {'; '.join(left_out)}."
        )
    return cases, left_out


def _timing(dense: Loaded, pruned: Loaded, case: Case, rows: TokenRows, rounds: int) -> Timing:
    device = input_device(dense.model)
    make = MODES[case.mode]
    ids_BN = rows.rows(case.batch, case.length).to(device)
    works = [make(each.model, ids_BN, case.new_tokens) for each in (dense, pruned)]
    seconds_RW = in_turns([*works, works[0]], rounds, device)

    def cost(loaded: Loaded, work: Work, columns: list[int]) -> Cost:
        with torch.inference_mode():  # all rows cost the same, so one is counted
            counted = flops(make(loaded.model, ids_BN[:1], case.new_tokens)) * case.batch
        seconds = float(np.median(seconds_RW[:, columns]))
        return Cost(seconds, peak_bytes(work, device), counted)

    return Timing(case, cost(dense, works[0], [0, 2]), cost(pruned, works[1], [1]), seconds_RW)


@final
@dataclass(frozen=True, eq=False)
class TimeModel:
    """The time of any plan as a share of the dense model's time."""

    flops: ModelFlops
    fewest: Plan
    """The plan that keeps no head that can be pruned."""
    timing: Timing
    """The dense model and this plan's, timed in turns."""

    @classmethod
    def measured(
        cls,
        dense: Loaded,
        smallest: Loaded,
        fewest: Plan,
        options: Options,
        progress: Progress = silent,
    ) -> "TimeModel":
        """Time the dense model beside the smallest one that pruning can make.

        Args:
            dense: The dense model.
            smallest: The compact model of `fewest`.
            fewest: The plan that keeps no head that can be pruned.
            options: The case to time, its first one counts; and how often.
            progress: Called before every case.

        Raises:
            InputError: If the case does not fit the model.
            ModelError: If the model reads no text.
        """
        timing = compare_speed(dense, smallest, options, progress=progress).timings[0]
        flops = model_flops(dense.model, dense.anatomy, timing.case.length)
        return cls(flops, fewest, timing)

    def share(self, plan: Plan) -> float:
        """The predicted time of a plan's compact model, as a share of the dense model's."""
        total = self.flops.total
        gone = (total - self.flops.of(plan)) / (total - self.flops.of(self.fewest))
        return 1 - gone * (1 - 1 / self.timing.speedup.value)
