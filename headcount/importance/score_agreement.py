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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from headcount import numbers
from headcount.core import InputError, amount
from headcount.importance.choices import ScoreTest
from headcount.importance.options import SCORE_COLUMNS, SCORES
from headcount.results import Across, Correlation, ImportanceRecord, Matrix
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

N = TypeVar("N", int, float)

MEASURES = ("confidence", "entropy", "positional_share")
"""Columns of the head table that describe what a head does, for comparison."""

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


def effects(
    frame_a: pd.DataFrame, frame_b: pd.DataFrame, column: str = "ablation_delta"
) -> Effects:
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


@final
@dataclass(frozen=True)
class Agreement:
    """Rank correlations between all scores."""

    names: tuple[str, ...]
    cells: Mapping[tuple[str, str], Correlation]
    """NaN where a score is the same for all heads, or fewer than 4 heads have both."""

    def of(self, one: str, other: str) -> Correlation:
        """The correlation of two scores."""
        return self.cells[one, other]

    def ranked(self, of: str = "ablation_delta") -> list[tuple[str, Correlation]]:
        """The other known scores, from the best predictor to the worst, whatever their sign.

        Scores whose correlation differs from chance come before the others, which may have
        numbers for fewer heads.
        """
        if of not in self.names:
            return []
        known = [(name, self.of(name, of)) for name in self.names if name != of]
        known = [(name, found) for name, found in known if not np.isnan(found.rho)]
        return sorted(known, key=lambda pair: (_by_chance(pair[1]), -abs(pair[1].rho)))

    def best_predictor(self, of: str = "ablation_delta") -> str | None:
        """The first score of `ranked`; None if there is none."""
        return next((name for name, _ in self.ranked(of)), None)

    def pruning_score(self, of: str = "ablation_delta") -> str | None:
        """The best predictor beyond chance by which low heads can be pruned; None if none is."""
        ranked = self.ranked(of)
        return next((name for name, found in ranked if found.low > 0), None)

    def sentence(self, of: str = "ablation_delta") -> str:
        """The meaning of the correlations in one sentence."""
        ranked = self.ranked(of)
        if not ranked:
            return _nothing_reported(self, of) if of in self.names else _closest_pair(self)
        (best, found), *others = ranked
        rest = "".join(f"; {part}" for part in _rest(others))
        if _by_chance(found):
            return (
                f"On this model no score predicts {_plain(of)} better than chance: the closest, "
                f"{_plain(best)}, has rho {found} over {amount(found.num_heads, 'head')}{rest}."
            )
        way = ", in reverse" if found.rho < 0 else ""
        chosen = f"; chosen from {len(ranked)} on the same heads" if others else ""
        return (
            f"On this model {_plain(best)} predicts {_plain(of)} best{way} (rho {found} over "
            f"{amount(found.num_heads, 'head')}{chosen}){rest}."
        )

    def as_matrix(self) -> Matrix:
        """The part of an `ImportanceRecord`, with correlations to four digits."""
        return Matrix(
            names=self.names,
            rho=self._rows(lambda cell: round(cell.rho, 4)),
            low=self._rows(lambda cell: round(cell.low, 4)),
            high=self._rows(lambda cell: round(cell.high, 4)),
            num_heads=self._rows(lambda cell: cell.num_heads),
            best_predictor=self.best_predictor(),
            sentence=self.sentence(),
        )

    def _rows(self, number: Callable[[Correlation], N]) -> tuple[tuple[N, ...], ...]:
        """A number of every two scores, row by row."""
        return tuple(tuple(number(self.of(a, b)) for b in self.names) for a in self.names)


def agreement(frame: pd.DataFrame, names: Sequence[str] | None = None) -> Agreement:
    """Rank correlations between the columns of a head table.

    Args:
        frame: Table with one row per head.
        names: Columns; None for all of `SCORE_COLUMNS` and `MEASURES` that the table has.

    Raises:
        InputError: If the table lacks a column.
    """
    names = [n for n in (*SCORE_COLUMNS, *MEASURES) if n in frame] if names is None else list(names)
    missing = [name for name in names if name not in frame]
    if missing:
        raise InputError(
            f"Expected columns of the head table, but it has no {', '.join(missing)}. Run the "
            "method that writes it first."
        )
    columns = {name: frame[name].to_numpy(dtype=float, na_value=np.nan) for name in names}
    cells = {(a, b): correlation(columns[a], columns[b]) for a in names for b in names}
    return Agreement(tuple(names), cells)


def _nothing_reported(found: Agreement, of: str) -> str:
    """The reason why no score has a correlation with a measured one."""
    if len(found.names) < 2:
        return FEW
    largest = max(found.of(of, name).num_heads for name in found.names if name != of)
    why = "fewer than 4 heads have both" if largest < 4 else "all heads have the same value of one"
    return f"No score can be tested by {_plain(of)}: {why}."


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
    sure = [(name, found) for name, found in others if not _by_chance(found)]
    said = [f"{_plain(name)} {_how_well(found)} ({found})" for name, found in sure]
    rest = [f"{_plain(name)} ({numbers.correlation(x.rho)})" for name, x in others if _by_chance(x)]
    return [*said, f"{numbers.listed(rest)} no better than chance"] if rest else said


def _how_well(found: Correlation) -> str:
    size = abs(found.rho)
    word = "well" if size >= 0.6 else "somewhat" if size >= 0.3 else "hardly"
    return word if found.rho > 0 else f"{word}, in reverse"


def _by_chance(found: Correlation) -> bool:
    return found.low <= 0 <= found.high


def _plain(name: str) -> str:
    names = {each.column.key: each.column.label for each in SCORES.values()}
    return {"ablation_delta": "measured ablation", **names}.get(name, name.replace("_", " "))


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
