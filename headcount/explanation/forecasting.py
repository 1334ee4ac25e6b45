"""Forecast: how long a circuit takes, from a trial on one prompt, said before it begins.

Rows of forward passes are counted: those of curves by ranking and size, of single effects and of
the stable circuit. A trial times some of them, the runs of the prompt and a step of learning.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np

from headcount.core import amount, in_words, silent
from headcount.explanation.circuit_rows import ORDERS, sizes_of
from headcount.explanation.circuits import Ends, others_of
from headcount.explanation.matryoshka import AT_ONCE, learn
from headcount.explanation.options import ExplainOptions
from headcount.explanation.plan import Plan
from headcount.explanation.prompts import Prompt
from headcount.explanation.reader import Reader
from headcount.models import Loaded

_SOON = 60
"""Number of seconds that nobody has to be told of."""
_ROWS = 16
"""Number of rows that are timed."""
_RUNS = 6
"""Number of times that a prompt is run as it is: for each thing that is measured of it."""
_STEPS = 2
"""Number of steps of learning that are timed."""
_STABLE = 60
"""Number of rows of a stable circuit: about its heads, each left out."""


T = TypeVar("T")


def forecast(loaded: Loaded, prompts: Sequence[Prompt], options: ExplainOptions) -> str:
    """About how long a circuit takes, in a sentence; empty if that is less than a minute.

    Args:
        loaded: the model.
        prompts: the prompts.
        options: what is measured.
    """
    reader = Reader(loaded, options)
    cases = sorted(map(reader.case, prompts), key=lambda case: case.rows[0].length)
    middle = cases[max(0, len(cases) // 2 - AT_ONCE) :][:AT_ONCE]
    plan = Plan.of(loaded, middle, replace(options, steps=_STEPS * bool(options.learning)), ())
    heads, others = plan.units, others_of(plan)
    random = np.random.default_rng(options.seed)
    sets = [[head for head in heads if random.random() < 0.5] for _ in range(_ROWS)]
    runs, run_s = _timed(lambda: plan.runs(len(middle) - 1))
    row_s = [_timed(partial(each.left, len(middle) - 1, runs, sets))[1] / _ROWS for each in others]
    ranked = len(plan.effects) + bool(options.refining)
    orders = len(ORDERS) * ranked + bool(options.learning) + options.draws
    all_sizes, few = (len(sizes_of(len(heads), each)) - 2 for each in (False, True))
    curves = [(orders - options.draws) * all_sizes + options.draws * few]
    curves += [curves[0] if options.others else orders * few] * (len(others) - 1)
    best = min(len(heads), 2 * options.refining) + min(len(heads), _STABLE)
    singles = len(plan.replacements) * len(heads) + best
    rows = [curves[0] + singles, *curves[1:]]
    seconds = len(cases) * (_RUNS * run_s + float(np.dot(rows, row_s)))
    if options.learning:
        end = Ends(others[0], np.ones(len(middle)), np.zeros(len(middle)))
        learning_s = _timed(lambda: learn(end, range(len(middle)), 0, silent))[1]
        seconds += 2 * options.learning / _STEPS * learning_s
    if seconds < _SOON:
        return ""
    return (
        f"Circuits of {amount(len(heads), 'head')} on {amount(len(cases), 'prompt')} take about "
        f"{in_words(seconds)} here."
    )


def _timed(do: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and its seconds."""
    begun = perf_counter()
    return do(), perf_counter() - begun
