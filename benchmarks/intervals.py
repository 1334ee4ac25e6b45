"""Coverage of the intervals of shares and means over documents, by simulation.

Documents have ten cases each, or from one to a few hundred (lognormal, sigma 1). Shares differ
between documents (beta, with an intraclass correlation); other numbers are a document's own, from a
normal, an exponential or a lognormal distribution (sigma 1). Cells are how many of the 95 %
intervals hold the truth, of those that are given.

    python benchmarks/intervals.py
    python benchmarks/intervals.py --rules --documents 8 25 100

The second command compares rules for means of numbers that are no shares: Student's interval, the
same where the sample's skewness is below 0.5, Johnson's modified t (1978), Hall's transformation
(1992), and the studentized bootstrap with two ends and with one (symmetric).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import tyro
from scipy.stats import t as student

from headcount.statistics import Bootstrap

SHARES = (0.02, 0.1, 0.25, 0.5, 0.9, 0.98)
ALIKE = (0.0, 0.1, 0.3)
"""Intraclass correlations of shares."""

_RANDOM = np.random.Generator
DISTRIBUTIONS: dict[str, tuple[Callable[[_RANDOM, tuple[int, int]], np.ndarray], float]] = {
    "normal": (lambda random, shape: random.normal(size=shape), 0.0),
    "exponential": (lambda random, shape: random.exponential(size=shape), 1.0),
    "lognormal": (lambda random, shape: random.lognormal(size=shape), float(np.exp(0.5))),
}
"""Distributions with their means."""


@dataclass(frozen=True)
class Arguments:
    """Simulate documents whose truth is known."""

    tests: int = 2000
    """Number of simulations for each cell."""
    samples: int = 400
    """Number of resamples."""
    documents: tuple[int, ...] = (4, 6, 8, 12, 25, 50, 100)
    """Numbers of documents."""
    rules: bool = False
    """Compare rules for numbers that are no shares."""


def sizes(random: _RANDOM, shape: tuple[int, int], is_even: bool) -> np.ndarray:
    """Numbers of cases by document and simulation."""
    if is_even:
        return np.full(shape, 10.0)
    return 1.0 + random.poisson(random.lognormal(2, 1, shape))


def share_sums(random: _RANDOM, cases_CT: np.ndarray, share: float, alike: float) -> np.ndarray:
    """Numbers of hits, whose probability differs between documents."""
    its_CT = np.full(cases_CT.shape, share)
    if alike:
        both = 1 / alike - 1
        its_CT = random.beta(both * share, both * (1 - share), cases_CT.shape)
    return random.binomial(cases_CT.astype(int), its_CT).astype(float)


def coverage(
    sums_CT: np.ndarray, cases_CT: np.ndarray, truth: float, arguments: Arguments, shares: bool
) -> str:
    """The share of intervals that hold the truth, or a dash if none is given."""
    drawn = Bootstrap(len(sums_CT), arguments.samples, seed=1)
    given = [each for each in drawn.ratios(sums_CT, cases_CT, shares) if each.low == each.low]
    if not given:
        return "–"
    return f"{np.mean([each.low <= truth <= each.high for each in given]):.3f}"


def rows(arguments: Arguments) -> Iterator[tuple[str, ...]]:
    """Number, sizes of documents, and a cell for each number of documents."""
    for is_even in (True, False):
        for alike in ALIKE:
            for share in SHARES:
                found = []
                for documents in arguments.documents:
                    random = np.random.default_rng((documents, is_even))
                    cases_CT = sizes(random, (documents, arguments.tests), is_even)
                    sums_CT = share_sums(random, cases_CT, share, alike)
                    found.append(coverage(sums_CT, cases_CT, share, arguments, shares=True))
                name = f"share {share:g}, documents alike by {alike:g}"
                yield (name, "even" if is_even else "uneven", *found)
        for name, (draw, truth) in DISTRIBUTIONS.items():
            found = []
            for documents in arguments.documents:
                random = np.random.default_rng((documents, is_even))
                cases_CT = sizes(random, (documents, arguments.tests), is_even)
                sums_CT = cases_CT * draw(random, cases_CT.shape)
                found.append(coverage(sums_CT, cases_CT, truth, arguments, shares=False))
            yield (name, "even" if is_even else "uneven", *found)


def moments(sums_CT: np.ndarray, cases_CT: np.ndarray) -> tuple[np.ndarray, ...]:
    """A ratio with its standard error and the skewness of documents, for each simulation."""
    value_T, num = sums_CT.sum(0) / cases_CT.sum(0), len(sums_CT)
    away_CT = (sums_CT - value_T * cases_CT) / cases_CT.mean(0)
    spread_T = np.sqrt((away_CT**2).mean(0))
    skew_T = (away_CT**3).mean(0) / np.maximum(spread_T, 1e-300) ** 3
    return value_T, spread_T / np.sqrt(num - 1), skew_T


def hall(quantile_T: np.ndarray, skew_T: np.ndarray, num: int) -> np.ndarray:
    """The quantile of the studentized mean whose transform is a given one."""
    third_T = np.where(abs(skew_T) < 1e-9, 1e-9, skew_T / 3)
    given_T = quantile_T / np.sqrt(num) - skew_T / (6 * num)
    return np.sqrt(num) * (np.cbrt(1 + 3 * third_T * given_T) - 1) / third_T


def ends(
    sums_CT: np.ndarray, cases_CT: np.ndarray, random: _RANDOM, samples: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Both ends of the interval of each simulation, by the rule."""
    value_T, error_T, skew_T = moments(sums_CT, cases_CT)
    num, total_T = len(sums_CT), cases_CT.sum(0)
    reach_T = student.ppf(0.975, total_T**2 / (cases_CT**2).sum(0) - 1)
    moved_T = value_T + skew_T * error_T * (1 + 2 * reach_T**2) / (6 * np.sqrt(num))
    low_T, high_T = value_T - reach_T * error_T, value_T + reach_T * error_T
    drawn_RT = np.empty((samples, len(value_T)))
    for drawn_T in drawn_RT:
        picked = random.integers(0, num, num)
        again_T, its_error_T, _ = moments(sums_CT[picked], cases_CT[picked])
        drawn_T[:] = (again_T - value_T) / np.maximum(its_error_T, 1e-12)
    upper_T, lower_T = np.quantile(drawn_RT, [0.975, 0.025], axis=0)
    far_T = np.quantile(abs(drawn_RT), 0.95, axis=0)
    known_T = np.where(abs(skew_T) < 0.5, 0.0, np.nan)
    return {
        "Student": (low_T, high_T),
        "Student, skewness < 0.5": (low_T + known_T, high_T + known_T),
        "Johnson": (moved_T - reach_T * error_T, moved_T + reach_T * error_T),
        "Hall": (
            value_T - error_T * hall(reach_T, skew_T, num),
            value_T - error_T * hall(-reach_T, skew_T, num),
        ),
        "studentized bootstrap": (value_T - upper_T * error_T, value_T - lower_T * error_T),
        "the same, symmetric": (value_T - far_T * error_T, value_T + far_T * error_T),
    }


def rules(arguments: Arguments) -> Iterator[tuple[str, ...]]:
    """Number, sizes and number of documents, and a cell for each rule; first their names."""
    is_first = True
    for is_even in (True, False):
        for name, (draw, truth) in DISTRIBUTIONS.items():
            for documents in arguments.documents:
                random = np.random.default_rng((documents, is_even))
                cases_CT = sizes(random, (documents, arguments.tests), is_even)
                sums_CT = cases_CT * draw(random, cases_CT.shape)
                found = ends(sums_CT, cases_CT, random, arguments.samples)
                if is_first:
                    yield ("number", "sizes", "documents", *found)
                is_first = False
                cells = (_covered(*each, truth) for each in found.values())
                yield (name, "even" if is_even else "uneven", str(documents), *cells)


def _covered(low_T: np.ndarray, high_T: np.ndarray, truth: float) -> str:
    """The share of the intervals that are given which hold the truth."""
    is_given_T = ~np.isnan(low_T)
    if not is_given_T.any():
        return "–"
    return f"{((low_T <= truth) & (truth <= high_T))[is_given_T].mean():.3f}"


def main() -> None:
    """Print the table as Markdown."""
    arguments = tyro.cli(Arguments)
    heads = ("number", "documents", *map(str, arguments.documents))
    header, *cells = rules(arguments) if arguments.rules else (heads, *rows(arguments))
    for row in (header, ["---"] * len(header), *cells):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
