"""Estimates of winners, and the power of tests of heads, by simulation.

Winners: heads find a relation in 35 % of its cases more or less often than the best fixed offset.
One head in seven gains 3 points and more (exponential, mean 10 points more), the others lose 8 on
average. Each of two directions has a gain, and the first half of the texts chooses one. A role has
a gain of 10 points in the second half. The error of its score is averaged over all roles, in
points, with its root mean square.

Power: one head in six raises the loss by the effect that the formula gives a power of 80 %, and the
other heads do nothing. Losses vary by example (normal, or lognormal and right-skewed). The power
that importance
would report from its intervals is compared with the share of these heads with p < 0.05 after Holm's
correction.

    python benchmarks/winners.py
"""

from dataclasses import dataclass
from statistics import median

import numpy as np
import tyro
from scipy.stats import norm
from scipy.stats import t as student

from headcount.results import TraitStrength, expected_scores
from headcount.statistics import holm, loss_deltas, power_of, smallest_seen
from headcount.vocabulary import Thresholds

OFFSET = 0.35
"""Share of cases that the best fixed offset finds."""
UNITS = 200
"""Number of texts in each half."""


@dataclass(frozen=True)
class Arguments:
    """Simulate runs whose truth is known."""

    runs: int = 300
    """Number of runs per row."""
    heads: int = 72
    """Number of heads of a run."""
    cases: tuple[int, ...] = (100, 300, 1000)
    """Numbers of cases in each half."""
    examples: tuple[int, ...] = (100, 300, 1000)
    """Numbers of examples of an ablation."""
    samples: int = 9999
    """Number of resamples of a test."""


def main() -> None:
    """Print both tables as Markdown."""
    arguments = tyro.cli(Arguments)
    print("| cases | roles | below the threshold | second half | first half | expected |")
    print("|---|---|---|---|---|---|")
    for cases in arguments.cases:
        print(_winners(cases, arguments), flush=True)
    print("\n| losses | examples | effect with 80 % power | power by the formula | heads found |")
    print("|---|---|---|---|---|")
    for kind in ("normal", "lognormal"):
        for examples in arguments.examples:
            print(_power(kind, examples, arguments), flush=True)


def _winners(cases: int, arguments: Arguments) -> str:
    """A row of the first table."""
    random = np.random.default_rng(cases)
    limits, errors, truths = Thresholds(), list[tuple[float, ...]](), list[float]()
    for _ in range(arguments.runs):
        truth_DH = _truth(random, arguments.heads)
        gain_2DH = random.binomial(cases, OFFSET + truth_DH, (2, *truth_DH.shape)) / cases - OFFSET
        chosen_H = gain_2DH[0].argmax(0)
        heads = np.arange(arguments.heads)
        first_H, second_H = gain_2DH[:, chosen_H, heads]
        rows = {
            f"enc.0.{head}": [_row(head, float(first), float(second), cases)]
            for head, first, second in zip(range(len(heads)), first_H, second_H, strict=True)
        }
        expected = expected_scores(rows, limits)
        for name, (row,) in rows.items():
            truth = float(truth_DH[chosen_H, heads][int(name.split(".")[-1])])
            if row.verdict == "role":
                found = (row.score, row.first_gain, expected[row.key])
                errors.append(tuple(each - truth for each in found))
                truths.append(truth)
    cells = [
        f"{100 * np.mean(each):+.2f} ({100 * np.sqrt(np.mean(np.square(each))):.2f})"
        for each in np.array(errors).T
    ]
    below = np.mean(np.array(truths) < limits.syntactic_gain)
    return f"| {cases} | {len(truths)} | {100 * below:.0f} % | {' | '.join(cells)} |"


def _truth(random: np.random.Generator, heads: int) -> np.ndarray:
    """True gains in both directions: [direction, head]."""
    strong_H = random.random(heads) < 1 / 7
    weak_H = random.normal(-0.08, 0.08, heads)
    one_H = np.where(strong_H, 0.03 + random.exponential(0.1, heads), weak_H)
    near_H = one_H - random.exponential(0.03, heads)
    other_H = np.where(random.random(heads) < 0.3, near_H, random.normal(-0.1, 0.08, heads))
    return np.clip([one_H, other_H], -0.3, 0.6)


def _row(head: int, first: float, second: float, cases: int) -> TraitStrength:
    """The row of a relation, tested against the fixed offset without a correction."""
    share, room = OFFSET + second, 1 - OFFSET
    error = np.sqrt(max(share * (1 - share), 0.01) / cases)
    margin = error * float(student.isf(0.05, UNITS - 1)) / room
    p = float(norm.sf(second / error))
    is_role = second >= Thresholds().syntactic_gain and first > 0 and p < 0.001
    return TraitStrength(
        head=f"enc.0.{head}",
        trait="nsubj",
        role="syntactic",
        relation="nsubj",
        share=share,
        null=OFFSET,
        attainable=1.0,
        strength=second / room,
        low=second / room - margin,
        high=second / room + margin,
        cases=cases,
        units=UNITS,
        score=second,
        chance=OFFSET,
        position_null=0.0,
        first_gain=first,
        paper_share=share,
        p=p,
        p_holm=p,
        verdict="role" if is_role else "none",
    )


def _power(kind: str, examples: int, arguments: Arguments) -> str:
    """A row of the second table: the effect that the formula gives is planted and looked for."""
    random = np.random.default_rng(examples)
    shape, count_N = (arguments.heads, examples), np.ones(examples, dtype=int)
    num_strong, deviation = arguments.heads // 6, float(np.sqrt((np.exp(0.25) - 1) * np.exp(0.25)))
    least = smallest_seen(deviation / np.sqrt(examples), arguments.heads)
    found, said = [], []
    for seed in range(arguments.runs // 10):
        if kind == "normal":
            loss_HN = random.normal(0, deviation, shape)
        else:
            loss_HN = random.lognormal(0, 0.5, shape) - np.exp(0.125)
        loss_HN[:num_strong] += least
        deltas = loss_deltas(loss_HN, np.zeros(examples), count_N, arguments.samples, seed)
        found += (holm(np.array(deltas.p))[:num_strong] < 0.05).tolist()
        error = median(deltas.high - deltas.low) / (2 * norm.isf(0.025))
        said.append(power_of(least, error, arguments.heads))
    cells = f"{least:.3f} | {np.mean(said):.2f} | {np.mean(found):.2f}"
    return f"| {kind} | {examples} | {cells} |"


if __name__ == "__main__":
    main()
