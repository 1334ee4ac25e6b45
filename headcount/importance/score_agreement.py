"""Agreement: whether scores rank heads alike, and which score predicts measured ablation.

Scores agree as far as their rank correlation over heads says (`statistics/estimates.py`). Heads
without a number (NaN) are left out pair by pair, and the others are counted. The interval treats
heads as independent draws, which heads of one layer are not quite.

Reference: two data sets: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section
    3.4, https://arxiv.org/abs/1905.10650

Significance of scores: whether a task's score drops without a head by more than chance.

Scores that are functions of sums (BLEU, chrF, accuracy, F1, Matthews' correlation) are tested by
paired approximate randomization. Others (Spearman's correlation, perplexity) are resampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from headcount import numbers
from headcount.core import InputError, amount, check_choice
from headcount.importance.choices import ScoreTest
from headcount.importance.options import OWN_COLUMNS, SCORE_COLUMNS
from headcount.results import Across, Agreement, Correlation, ImportanceRecord
from headcount.statistics import (
    FEWEST_SWAPS,
    Deltas,
    OfSums,
    correlated,
    enough_samples,
    normal,
    of_few,
    randomized,
    resamples,
    sacrebleus,
)
from headcount.tasks import Evaluation, Task

MEASURES = ("confidence", "entropy", "positional_share")
"""Columns of the head table that describe what a head does, for comparison."""

ABLATION = "ablation_delta"
"""Column of the measured effects, which the other scores predict."""

_NAMES = {each.key: each.label for each in OWN_COLUMNS} | {ABLATION: "measured ablation"}
"""Columns as they are named in sentences."""

FEW = "Fewer than two scores were measured: there is nothing to compare."


def correlation(
    one: Float[np.ndarray, " head"], other: Float[np.ndarray, " head"], ranks: bool = True
) -> Correlation:
    """Spearman's or Pearson's correlation of two scores, with its interval."""
    return Correlation(*correlated(one, other, ranks))


@final
@dataclass(frozen=True)
class Effects:
    """Correlations of heads' effects between two data sets."""

    pearson: Correlation
    """Pearson's correlation, as in the paper."""
    spearman: Correlation


def effects(frame_a: pd.DataFrame, frame_b: pd.DataFrame, column: str = ABLATION) -> Effects:
    """Correlations of single-head effects between two data sets of one task.

    Args:
        frame_a: Head table of one data set.
        frame_b: Head table of the other data set, for the same model.
        column: Column of the effect.

    Raises:
        InputError: If the tables have different heads, or one lacks the column.
    """
    for frame in (frame_a, frame_b):
        if column not in frame:
            raise InputError(f"Expected two tables with the column {column}, but one has none.")
    a, b = (frame.set_index("head")[column].astype(float) for frame in (frame_a, frame_b))
    strangers = sorted(set(a.index) ^ set(b.index))
    if strangers:
        raise InputError(
            f"Expected two tables with the same heads, but {strangers[0]} is in only one "
            f"({amount(len(strangers), 'such head')})."
        )
    one, other = a.to_numpy(), b.loc[a.index].to_numpy()
    return Effects(correlation(one, other, ranks=False), correlation(one, other))


def across(frame: pd.DataFrame, other: pd.DataFrame, other_record: ImportanceRecord) -> Across:
    """Compare measured ablations on two data sets.

    Args:
        frame: Head table of one data set.
        other: Head table of the other data set.
        other_record: Record of the assessment on the other data set.

    Raises:
        InputError: If the tables have different heads, or one has no ablation.
    """
    found = effects(frame, other)
    return Across(
        task=other_record.task,
        num_examples=other_record.num_examples,
        pearson=found.pearson,
        spearman=found.spearman,
        sentence=_on_other_data(found, other_record),
    )


def _on_other_data(found: Effects, other: ImportanceRecord) -> str:
    """The meaning of the correlations in one sentence."""
    r, rho = found.pearson, found.spearman
    if r.rho != r.rho:
        return (
            "Agreement with the effects on the other data is unknown: on one data set all "
            "heads have the same effect, or fewer than 4 heads were measured on both."
        )
    says = "agree with" if r.low > 0 else "contradict" if r.high < 0 else "say nothing about"
    return (
        f"The effects of single heads {says} those on the other data ("
        f"{amount(other.num_examples, 'example')} of {other.task}): Pearson's r {r} over "
        f"{amount(r.num_heads, 'head')}, rank correlation {numbers.correlation(rho.rho)}."
    )


def agreement(
    frame: pd.DataFrame,
    names: Sequence[str] | None = None,
    scores: Sequence[str] = SCORE_COLUMNS,
) -> Agreement:
    """Rank correlations between the columns of a head table.

    Args:
        frame: Table with one row per head.
        names: Columns; None for all of `scores` and `MEASURES` that the table has.
        scores: Columns that score importance.

    Raises:
        InputError: If the table lacks a column.
    """
    names = [n for n in (*scores, *MEASURES) if n in frame] if names is None else list(names)
    missing = [name for name in names if name not in frame]
    if missing:
        raise InputError(
            f"Expected columns of the head table, but it has no {', '.join(missing)}. Run the "
            "method that writes it first."
        )
    columns = [frame[name].to_numpy(dtype=float, na_value=np.nan) for name in names]
    cells = [[correlation(one, other) for other in columns] for one in columns]
    found = Agreement(
        names=tuple(names),
        rho=tuple(tuple(cell.rho for cell in row) for row in cells),
        low=tuple(tuple(cell.low for cell in row) for row in cells),
        high=tuple(tuple(cell.high for cell in row) for row in cells),
        num_heads=tuple(tuple(cell.num_heads for cell in row) for row in cells),
    )
    best = next((name for name, _ in found.ranked()), None)
    return replace(found, best_predictor=best, sentence=_sentence(found))


def _sentence(found: Agreement) -> str:
    """The meaning of the correlations in one sentence."""
    ranked = found.ranked()
    if not ranked:
        return _nothing_reported(found) if ABLATION in found.names else _closest_pair(found)
    (best, first), *others = ranked
    rest = "".join(f"; {part}" for part in _rest(others))
    if first.may_be_chance:
        return (
            f"On this model no score predicts {_plain(ABLATION)} better than chance: the closest, "
            f"{_plain(best)}, has rho {first} over {amount(first.num_heads, 'head')}{rest}."
        )
    way = ", in reverse" if first.rho < 0 else ""
    chosen = f"; chosen from {len(ranked)} on the same heads" if others else ""
    return (
        f"On this model {_plain(best)} predicts {_plain(ABLATION)} best{way} (rho {first} over "
        f"{amount(first.num_heads, 'head')}{chosen}){rest}."
    )


def _nothing_reported(found: Agreement) -> str:
    """The reason why no score has a correlation with measured ablation."""
    if len(found.names) < 2:
        return FEW
    largest = max(found.of(ABLATION, name).num_heads for name in found.names if name != ABLATION)
    why = "fewer than 4 heads have both" if largest < 4 else "all heads have the same value of one"
    return f"No score can be tested by {_plain(ABLATION)}: {why}."


def _closest_pair(found: Agreement) -> str:
    """The sentence for tables without measured ablation."""
    pairs = [
        (found.of(one, other), one, other)
        for place, one in enumerate(found.names)
        for other in found.names[:place]
    ]
    pairs = [pair for pair in pairs if not np.isnan(pair[0].rho)]
    if not pairs:
        return FEW
    best, one, other = max(pairs, key=lambda pair: abs(pair[0].rho))
    return (
        f"Ablation was not measured, so no score can be tested; {_plain(other)} and {_plain(one)} "
        f"agree most (rho {best} over {amount(best.num_heads, 'head')})."
    )


def _rest(others: list[tuple[str, Correlation]]) -> list[str]:
    """The scores behind the best: significant ones one by one, the others together."""
    sure = [(name, found) for name, found in others if not found.may_be_chance]
    said = [f"{_plain(name)} {_how_well(found)} ({found})" for name, found in sure]
    rest = [
        f"{_plain(name)} ({numbers.correlation(x.rho)})" for name, x in others if x.may_be_chance
    ]
    return [*said, f"{numbers.listed(rest)} no better than chance"] if rest else said


def _how_well(found: Correlation) -> str:
    size = abs(found.rho)
    word = "well" if size >= 0.6 else "somewhat" if size >= 0.3 else "hardly"
    return word if found.rho > 0 else f"{word}, in reverse"


def _plain(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " "))


def score_deltas(
    task: Task,
    without: Sequence[Evaluation],
    base: Evaluation,
    num_samples: int | None = None,
    seed: int = 0,
    test: ScoreTest = "randomization",
    index_N: Int[np.ndarray, " example"] | None = None,
) -> Deltas:
    """The drop in score without each head; positive = the head helps.

    Args:
        task: Task that defines the score and its direction.
        without: Evaluations without each head.
        base: Evaluation of the dense model.
        num_samples: Number of swaps or resamples; None for at least 10,000 swaps, or for 1000
            resamples of a score that is not a function of sums.
        seed: Seed of the draws.
        test: `randomization`, or sacreBLEU's bootstrap, which gives no intervals.
        index_N: Numbers of the examples that count; None for all.
    """
    check_choice("a test", test, ScoreTest)
    if index_N is None:
        index_N = np.arange(len(base.loss_N))
    counts = None if test == "sacrebleu" else task.statistics(base)
    if counts is not None:
        base_NK = counts[index_N]
        each = [np.asarray(task.statistics(one))[index_N] for one in without]
        num_samples = num_samples or max(FEWEST_SWAPS, enough_samples(len(without)))
        weight_N = base.count_N[index_N].astype(float)
        found = randomized(
            base_NK, each, weight_N, score=_higher(task), num_samples=num_samples, seed=seed
        )
        return of_few(Deltas(*found), len(index_N))
    if num_samples is None:
        num_samples = enough_samples(len(without)) if test == "sacrebleu" else 1000
    delta_H, delta_SH = _resampled(
        task, without, base, num_samples=num_samples, seed=seed, index_N=index_N
    )
    if test == "sacrebleu":
        return of_few(sacrebleus(delta_H, delta_SH), len(index_N))
    return of_few(normal(delta_H, delta_SH, len(index_N)), len(index_N))


def _higher(task: Task) -> OfSums:
    """The task's score of sums, with its sign flipped where lower is better."""
    return task.of_sums if task.higher_is_better else lambda sums_DK: -task.of_sums(sums_DK)


def _resampled(
    task: Task,
    without: Sequence[Evaluation],
    base: Evaluation,
    num_samples: int,
    seed: int,
    index_N: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The drops in score, of all examples and of every resample."""
    sign = -1.0 if task.higher_is_better else 1.0
    score_of_base, scores = task.resampled(base), [task.resampled(each) for each in without]

    def worse(index_SN: np.ndarray) -> np.ndarray:
        dense_S = score_of_base(index_SN)
        # A difference of 0 has no sign
        return sign * np.stack([score(index_SN) - dense_S for score in scores], axis=1) + 0.0

    draws = resamples(len(index_N), num_samples, seed)
    delta_SH = np.concatenate([worse(index_N[drawn_SN]) for drawn_SN in draws])
    return worse(index_N[None])[0], delta_SH
