"""Effects of heads in words: how many matter, by how much, and what a test of this size can see."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist, median
from typing import TYPE_CHECKING

from headcount import numbers
from headcount.core import Head
from headcount.results import Effect, ImportanceRecord
from headcount.statistics import power_of, smallest_seen

if TYPE_CHECKING:
    import pandas as pd

SURE = 0.05
"""Level of significance: heads with a smaller p matter."""
NAMED = 3
"""Largest number of harmful heads that are named."""
LARGE: Mapping[str, float] = {"loss": 0.05, "bleu": 0.5, "chrf": 0.5, "perplexity": 0.5}
"""Size beyond which an effect is counted, by quantity: nats, points of BLEU and chrF."""
LARGE_SHARE = 0.01
"""That size of all other scores, which are shares or correlations."""
SMALL: Mapping[str, float] = {"loss": 0.01}
"""Effect whose power is said: 0.01 nats."""


def effects_in(frame: "pd.DataFrame") -> list[Effect]:
    """The effects in a table of heads that was assessed by ablation."""
    columns = ("head", "ablation_delta", "ablation_low", "ablation_high", "ablation_p")
    found = []
    for name, delta, low, high, p in frame[list(columns)].to_numpy().tolist():
        head = Head.parse(name)
        place = {"site": head.site, "layer": head.layer, "head": name}
        found.append(Effect(delta=delta, low=low, high=high, p=p, **place))
    return found


def verdict(effects: Iterable[Effect], record: ImportanceRecord) -> list[str]:
    """Sentences on how many heads matter, and on what the test can see; none without a test.

    Args:
        effects: the effect of every head taken alone; p is NaN if it was not tested.
        record: what was measured.
    """
    tested = [each for each in effects if math.isfinite(each.p)]
    if not tested:
        return []
    sure = [each for each in tested if each.p < SURE]
    harmful = [each.head for each in sure if each.delta <= 0]
    helping = [each for each in sure if each.delta > 0]
    open_ = len(tested) - len(sure)
    parts = [
        f"Taken alone, {numbers.count(len(helping)) if helping else 'none'} of "
        f"{numbers.count(len(tested))} heads {'matters' if len(helping) < 2 else 'matter'} "
        f"(p < {SURE} after correction for {numbers.of(len(tested), 'test', 'tests')})"
    ]
    if helping:
        parts.append(large([each.delta for each in helping], record))
    if harmful:
        verb = "harms" if len(harmful) == 1 else "harm"
        names = f" ({', '.join(harmful)})" if len(harmful) <= NAMED else ""
        parts.append(f"{numbers.count(len(harmful))} {verb} the model{names}")
    if open_:
        parts.append(f"for {numbers.of(open_, 'head', 'heads')} the effect is within noise")
    return [f"{numbers.listed(parts)}.", *_seen(tested, record)]


def large(deltas: Iterable[float], record: ImportanceRecord) -> str:
    """How many effects are large, in words: `3 by more than 0.05 nats`."""
    least = LARGE.get(record.quantity, LARGE_SHARE)
    number = sum(delta > least for delta in deltas)
    return f"{numbers.count(number) if number else 'none'} by more than {least:g} {_unit(record)}"


def _seen(tested: Sequence[Effect], record: ImportanceRecord) -> list[str]:
    """What a test of this size can see, by the median standard error of the heads."""
    z = NormalDist().inv_cdf(0.975)
    errors = [each.high - each.low for each in tested if math.isfinite(each.high - each.low)]
    error = median(errors) / (2 * z) if errors else 0.0
    if not error:
        return []
    least, unit = numbers.effect(smallest_seen(error, len(tested))), _unit(record)
    said = f"Such a test sees an effect of {least} {unit} in 80\u202f% of cases"
    small = SMALL.get(record.quantity)
    if small is not None:
        share = numbers.percent(power_of(small, error, len(tested)))
        said += f", and one of {small:g} {unit} in {share}"
    return [f"{said} (median over heads)."]


def _unit(record: ImportanceRecord) -> str:
    return "nats" if record.quantity == "loss" else record.quantity_words
