"""Coverage, size and power of intervals and p-values, by simulation.

Losses: N differences are drawn from a normal or a lognormal distribution (sigma 1), whose mean is
known. Coverage is the share of 95 % intervals that hold it. Size is the share of tests that find
p < 0.05 if the mean is 0, and power the same if it is 2.8 standard errors, where a t-test of normal
differences has 0.8.

BLEU: two systems' translations are drawn from the same ones, so that they do not differ, or one has
more wrong words. The family-wise error is the share of families of 36 heads in which Holm's
correction leaves any p below 0.05.

    python benchmarks/significance.py
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tyro
from sacrebleu.metrics.bleu import BLEU
from scipy import stats

from headcount.statistics import holm, loss_deltas, randomized, resamples, sacrebleus
from headcount.statistics.p_values import times
from headcount.tasks.metrics import bleu

Test = Callable[[np.ndarray, int, int], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Both ends of the interval, and p, of every row's mean: of differences, samples and a seed."""

TOGETHER = 100
"""Number of experiments that share their resamples."""


@dataclass(frozen=True)
class Arguments:
    """Simulate experiments whose truth is known."""

    tests: int = 4000
    """Number of experiments per row of the table of losses."""
    samples: int = 999
    """Number of resamples."""
    examples: tuple[int, ...] = (20, 50, 200, 800)
    """Numbers of examples."""
    sentences: tuple[int, ...] = (50, 200)
    """Numbers of sentences for BLEU."""
    families: int = 400
    """Number of families of 36 heads."""


def ours(x_TN: np.ndarray, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The studentized bootstrap of `loss_deltas`."""
    examples = x_TN.shape[1]
    found = loss_deltas(x_TN, np.zeros(examples), np.ones(examples, int), samples, seed)
    return found.low, found.high, found.p


def percentile(
    x_TN: np.ndarray, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Percentiles of resampled means."""
    examples = x_TN.shape[1]
    drawn = [times(part_SN) @ x_TN.T for part_SN in resamples(examples, samples, seed)]
    mean_ST = np.concatenate(drawn) / examples
    low_T, high_T = np.percentile(mean_ST, [2.5, 97.5], axis=0)
    below_T = np.minimum((mean_ST <= 0).sum(0), (mean_ST >= 0).sum(0))
    return low_T, high_T, np.minimum(1, 2 * (1 + below_T) / (samples + 1))


def bca(x_TN: np.ndarray, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """SciPy's bias-corrected and accelerated bootstrap, which has no p-value."""
    random = np.random.default_rng(seed)
    found = stats.bootstrap(
        (x_TN,), np.mean, axis=-1, n_resamples=samples, method="BCa", vectorized=True, rng=random
    ).confidence_interval
    outside_T = (found.low > 0) | (found.high < 0)
    return found.low, found.high, np.where(outside_T, 0.0, 1.0)


def student(x_TN: np.ndarray, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Student's t-test."""
    found = stats.ttest_1samp(x_TN, 0, axis=1)
    low_T, high_T = found.confidence_interval()
    return low_T, high_T, np.asarray(found[1])


TESTS: dict[str, Test] = {
    "headcount (studentized)": ours,
    "percentile bootstrap": percentile,
    "BCa bootstrap (SciPy)": bca,
    "t-test": student,
}


def of_losses(arguments: Arguments) -> None:
    """Print coverage, size and power of every way."""
    print("| differences | N | method | coverage | size | power |\n|---|---|---|---|---|---|")
    for kind in ("normal", "lognormal"):
        for examples in arguments.examples:
            random = np.random.default_rng(examples)
            draw = random.normal if kind == "normal" else random.lognormal
            truth = 0.0 if kind == "normal" else np.exp(0.5)
            deviation = 1.0 if kind == "normal" else np.sqrt((np.e - 1) * np.e)
            x_TN = draw(0, 1, (arguments.tests, examples)) - truth
            effect = 2.8 * deviation / np.sqrt(examples)
            for name, test in TESTS.items():
                shares = _shares(test, x_TN, effect, arguments.samples)
                row = " | ".join(f"{share:.3f}" for share in shares)
                print(f"| {kind} | {examples} | {name} | {row} |", flush=True)


def _shares(test: Test, x_TN: np.ndarray, effect: float, samples: int) -> np.ndarray:
    """Coverage, size and power."""
    hits = np.zeros(3)
    for seed, part_TN in enumerate(np.split(x_TN, range(TOGETHER, len(x_TN), TOGETHER))):
        low_T, high_T, p_T = test(part_TN, samples, seed)
        hits += ((low_T <= 0) & (high_T >= 0)).sum(), (p_T < 0.05).sum(), 0
        hits[2] += (test(part_TN + effect, samples, seed)[2] < 0.05).sum()
    return hits / len(x_TN)


HEADS = 36


def of_bleu(arguments: Arguments) -> None:
    """Print size, family-wise error and power of both tests of BLEU."""
    print("\n| sentences | test | size | family-wise error over 36 heads | power |")
    print("|---|---|---|---|---|")
    pools = [_translations(share) for share in (0.30, 0.38)]
    for sentences in arguments.sentences:
        for name in ("headcount (randomization)", "sacreBLEU (bootstrap)"):
            random = np.random.default_rng(sentences)
            sure = np.zeros(3)
            for family in range(arguments.families):
                draw = [
                    pool[random.integers(len(pool), size=(number, sentences))]
                    for pool, number in zip(pools, (HEADS + 1, 1), strict=True)
                ]
                base_NK, *without = (*draw[0], *draw[1])
                p_H = _bleu_p(name, base_NK, without, family)
                # The heads of a family share the dense model, so size is that of the first head
                sure += p_H[0] < 0.05, holm(p_H[:-1]).min() < 0.05, p_H[-1] < 0.05
            row = " | ".join(f"{share:.3f}" for share in sure / arguments.families)
            print(f"| {sentences} | {name} | {row} |", flush=True)


def _bleu_p(name: str, base_NK: np.ndarray, without: list[np.ndarray], seed: int) -> np.ndarray:
    if name.startswith("headcount"):
        weight_N = np.ones(len(base_NK))
        return randomized(base_NK, without, weight_N, bleu, 1999, seed)[3]
    drawn = [times(part_SN) for part_SN in resamples(len(base_NK), 1999, seed)]
    times_SN = np.concatenate([np.ones((1, len(base_NK))), *drawn])
    score_AS = np.stack([bleu(times_SN @ each_NK) for each_NK in (base_NK, *without)])
    delta_SH = (score_AS[0] - score_AS[1:]).T
    return sacrebleus(delta_SH[0], delta_SH[1:]).p


def _translations(share: float) -> np.ndarray:
    """Counts of n-grams of 3,000 translations with a share of wrong words."""
    random = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(40)])
    texts = [random.choice(words, random.integers(5, 26)) for _ in range(3000)]
    wrong = [np.where(random.random(len(text)) < share, "x", text) for text in texts]
    made, references = (list(map(" ".join, each)) for each in (wrong, texts))
    return np.array(BLEU()._extract_corpus_statistics(made, [references]), float)


def main() -> None:
    """Print both tables as Markdown."""
    arguments = tyro.cli(Arguments)
    of_losses(arguments)
    of_bleu(arguments)


if __name__ == "__main__":
    main()
