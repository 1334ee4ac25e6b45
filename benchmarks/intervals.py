"""Coverage of the intervals of shares and means over documents, by simulation.

Documents have ten cases each, or from one to a few hundred (lognormal, sigma 1). Shares differ
between documents (beta, with an intraclass correlation); other numbers are a document's own, from a
normal, an exponential or a lognormal distribution (sigma 1). Cells are how many of the 95 %
intervals hold the truth, of those that are given.

    python benchmarks/intervals.py
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import tyro

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


def main() -> None:
    """Print the table as Markdown."""
    arguments = tyro.cli(Arguments)
    print(f"| number | documents | {' | '.join(map(str, arguments.documents))} |")
    print("|---" * (2 + len(arguments.documents)) + "|")
    for row in rows(arguments):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
