"""Coverage of intervals of ratios by the number of clusters, by simulation.

Clusters (documents, sentences) have 5 to 40 cases. A cluster's numbers are its own, drawn from a
normal or a lognormal distribution (sigma 1, right-skewed) whose mean is known. A cluster's sum is
that number times its cases. Coverage is the share of 95 % intervals of the ratio of sums that hold
the mean; width is the median width, in standard deviations of the distribution.

    python benchmarks/few_clusters.py
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tyro

from headcount.statistics import Bootstrap, loss_deltas, middle

Interval = Callable[[np.ndarray, np.ndarray, int, int], tuple[np.ndarray, np.ndarray]]
"""Both ends of the interval of every experiment: of sums, cases, samples and a seed."""

TOGETHER = 100
"""Number of experiments that share their resamples."""


@dataclass(frozen=True)
class Arguments:
    """Simulate experiments whose truth is known."""

    tests: int = 4000
    """Number of experiments per row."""
    samples: int = 999
    """Number of resamples."""
    clusters: tuple[int, ...] = (4, 6, 8, 10, 15, 24, 25, 50)
    """Numbers of clusters."""


def ours(
    sums_CT: np.ndarray, cases_CT: np.ndarray, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of `Bootstrap`."""
    found = Bootstrap(len(sums_CT), samples, seed).ratios(sums_CT, cases_CT)
    return np.array([each.low for each in found]), np.array([each.high for each in found])


def percentile(
    sums_CT: np.ndarray, cases_CT: np.ndarray, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles of the resampled ratios."""
    drawn_RT = Bootstrap(len(sums_CT), samples, seed).drawn_ratios(sums_CT, cases_CT)
    low_T, high_T = zip(*map(middle, drawn_RT.T), strict=True)
    return np.array(low_T), np.array(high_T)


def studentized(
    sums_CT: np.ndarray, cases_CT: np.ndarray, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The studentized bootstrap with Hall's transformation, which all ratios share the cases of."""
    found = loss_deltas(
        sums_CT.T, np.zeros(len(sums_CT)), cases_CT[:, 0].astype(int), samples, seed
    )
    return found.low, found.high


WAYS: dict[str, Interval] = {
    "headcount": ours,
    "percentiles": percentile,
    "studentized": studentized,
}


def main() -> None:
    """Print the table as Markdown."""
    arguments = tyro.cli(Arguments)
    print("| numbers | clusters | way | coverage | width |\n|---|---|---|---|---|")
    for kind in ("normal", "lognormal"):
        for clusters in arguments.clusters:
            for name, way in WAYS.items():
                coverage, width = _measured(way, kind, clusters, arguments)
                print(
                    f"| {kind} | {clusters} | {name} | {coverage:.3f} | {width:.2f} |", flush=True
                )


def _measured(way: Interval, kind: str, clusters: int, arguments: Arguments) -> tuple[float, float]:
    """Coverage and median width."""
    random = np.random.default_rng(clusters)
    draw = random.normal if kind == "normal" else random.lognormal
    truth = 0.0 if kind == "normal" else np.exp(0.5)
    deviation = 1.0 if kind == "normal" else np.sqrt((np.e - 1) * np.e)
    hits, widths = 0, []
    for seed in range(arguments.tests // TOGETHER):
        cases_CT = np.repeat(random.integers(5, 41, (clusters, 1)), TOGETHER, 1).astype(float)
        sums_CT = cases_CT * draw(0, 1, (clusters, TOGETHER))
        low_T, high_T = way(sums_CT, cases_CT, arguments.samples, seed)
        hits += int(((low_T <= truth) & (truth <= high_T)).sum())
        widths.extend((high_T - low_T) / deviation)
    return hits / (arguments.tests // TOGETHER * TOGETHER), float(np.median(widths))


if __name__ == "__main__":
    main()
