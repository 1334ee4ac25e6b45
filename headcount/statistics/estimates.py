r"""Estimates: ratios, means, shares and correlations with intervals, and shrunken estimates.

Ratios of sums over sentences have intervals from resampled sentences (a bootstrap). The interval of
a number over at least `ENOUGH` clusters (sentences, documents) is the middle 95 % of its values on
all draws. With fewer clusters, C, these percentiles are too short (docs/benchmarks.md), and the
interval is Student's, with the spread s* of the draws:

$$x \pm t_{0.975,\, C - 1} \, s^* \sqrt{\frac{C}{C - 1}}$$

It can reach beyond what is possible, such as a share above 1, until `Estimate.within` cuts it off.
A single cluster has no interval. C counts the clusters that have cases of that number.

Intervals: a number with the range in which it lies in 95 % of cases.

Reference: What Teachers Should Know About the Bootstrap (Hesterberg, 2015), sections 3.1 and 5.3,
    https://arxiv.org/abs/1411.5279
"""

import math
from statistics import NormalDist
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, Shaped

from headcount.core import amount, levels
from headcount.statistics.significance import normal


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float
    cases: int
    """Number of cases that the number is over."""

    def within(self, least: float, most: float) -> "Estimate":
        """The same number with an interval that holds only what is possible.

        >>> Estimate(0.9, 0.7, 1.1, 8).within(0.0, 1.0).high
        1.0
        >>> Estimate(0.9, math.nan, math.nan, 8).within(0.0, 1.0)
        Estimate(value=0.9, low=0.0, high=1.0, cases=8)
        """
        if math.isnan(self.value):
            return self
        low = least if math.isnan(self.low) else max(self.low, least)
        high = most if math.isnan(self.high) else min(self.high, most)
        return self._replace(low=low, high=high)


def middle(drawn_D: Float[np.ndarray, " draw"]) -> tuple[float, float]:
    """Both ends of the middle 95 % of some draws.

    >>> middle(np.arange(41.0))
    (1.0, 39.0)
    """
    low, high = np.quantile(drawn_D, [0.025, 0.975]).tolist()
    return low, high


def mean_interval(
    values_N: Float[np.ndarray, "case ..."],
) -> Float[np.ndarray, "3 ..."]:
    """Student's 95 % interval of means over independent cases: low end, mean and high end."""
    from scipy.stats import t as student

    mean, num = values_N.mean(0), len(values_N)
    reach = student.ppf(0.975, num - 1) * values_N.std(0, ddof=1) / np.sqrt(num)
    return np.stack([mean - reach, mean, mean + reach])


def wilson_interval(share: float, cases: int) -> tuple[float, float]:
    r"""Wilson's 95 % interval of a share over independent cases, within 0 and 1.

    Reference: Wilson (1927), https://doi.org/10.1080/01621459.1927.10502953

    >>> [round(bound, 3) for bound in wilson_interval(0.0, 16)]
    [0.0, 0.194]
    """
    square = NormalDist().inv_cdf(0.975) ** 2 / cases
    middle, reach = share + square / 2, math.sqrt(square * (share * (1 - share) + square / 4))
    low, high = ((middle + each) / (1 + square) for each in (-reach, reach))
    return low if share > 0 else 0.0, high if share < 1 else 1.0


ENOUGH = 25
"""Least number of clusters for an interval by percentiles."""
FEW_CLUSTERS = 10
"""Number of clusters below which the user is warned."""


@final
class Bootstrap:
    """Draws sentences with replacement; all numbers of a test set use the same draws.

    Args:
        num_sentences: number of test sentences.
        samples: number of draws.
        seed: seed of the draws.
    """

    def __init__(self, num_sentences: int, samples: int, seed: int) -> None:
        self._num_sentences = num_sentences
        generator = np.random.default_rng(seed)
        even = np.full(num_sentences, 1 / num_sentences)
        self._weights_RS = generator.multinomial(num_sentences, even, samples).astype(np.float32)

    def ratio(
        self,
        sums_S: Float[np.ndarray, " sentence"],
        cases_S: Float[np.ndarray, " sentence"],
    ) -> Estimate:
        """The sum of some numbers over that of the cases; NaN without cases."""
        return self.mean_ratio(sums_S[:, None], cases_S[:, None])

    def rate(
        self,
        sentence_N: Int[np.ndarray, " case"],
        value_N: Shaped[np.ndarray, " case"],
        is_case_N: Shaped[np.ndarray, " case"] | None = None,
    ) -> Estimate:
        """The mean of some values, whose sentences are given by number, or of some of them."""
        cases_N = np.ones(len(value_N)) if is_case_N is None else 1.0 * is_case_N
        numbers = (value_N * cases_N, cases_N)
        return self.ratio(*(np.bincount(sentence_N, n, self._num_sentences) for n in numbers))

    def ratios(
        self,
        sums_SN: Float[np.ndarray, "sentence number"],
        cases_SN: Float[np.ndarray, "sentence number"],
    ) -> list[Estimate]:
        """Many ratios, each of its own sums and cases; NaN without cases."""
        drawn_RN = self.drawn_ratios(sums_SN, cases_SN)
        total_N, clusters_N = cases_SN.sum(0), np.count_nonzero(cases_SN, axis=0).tolist()
        with np.errstate(invalid="ignore", divide="ignore"):
            value_N = sums_SN.sum(0) / total_N
        return [
            self.interval(*each)
            for each in zip(value_N, drawn_RN.T, total_N.round(), clusters_N, strict=True)
        ]

    def drawn_ratios(
        self,
        sums_SN: Float[np.ndarray, "sentence number"],
        cases_SN: Float[np.ndarray, "sentence number"],
    ) -> Float[np.ndarray, "draw number"]:
        """Many ratios on every draw; NaN where a draw has no cases."""
        sums_RN, cases_RN = self.drawn_sums(sums_SN), self.drawn_sums(cases_SN)
        return np.divide(sums_RN, cases_RN, out=np.full_like(sums_RN, np.nan), where=cases_RN > 0)

    def drawn_sums(
        self, numbers_S: Shaped[np.ndarray, "sentence ..."]
    ) -> Float[np.ndarray, "draw ..."]:
        """The sums of some numbers on every draw."""
        return self._weights_RS.astype(np.float64) @ numbers_S

    def interval(
        self,
        value: float,
        drawn_R: Float[np.ndarray, " draw"],
        cases: int | float,
        clusters: int | None = None,
    ) -> Estimate:
        """A number with its interval, by its values on all draws that have one.

        Args:
            value: The number.
            drawn_R: The number on every draw; NaN where a draw has no cases.
            cases: Number of cases that the number is over.
            clusters: Number of sentences with cases of this number; None for all sentences.
        """
        clusters = self._num_sentences if clusters is None else clusters
        known_R = drawn_R[~np.isnan(drawn_R)]
        low = high = float("nan")
        if clusters >= ENOUGH and len(known_R):
            low, high = middle(known_R)
        elif clusters > 1 and len(known_R):
            found = normal(np.array([value]), known_R[:, None], clusters)[0]
            low, high = found.low, found.high
        return Estimate(float(value), low, high, int(cases))

    def mean_ratio(
        self,
        sums_SG: Float[np.ndarray, "sentence group"],
        cases_SG: Float[np.ndarray, "sentence group"],
    ) -> Estimate:
        """The mean over groups of each group's ratio; groups without cases do not count."""
        total_G = cases_SG.sum(0)
        groups = total_G > 0
        if not groups.any():
            return Estimate(float("nan"), float("nan"), float("nan"), 0)
        sums_SG, cases_SG = sums_SG[:, groups], cases_SG[:, groups]
        value = float((sums_SG.sum(0) / cases_SG.sum(0)).mean())
        sums_RG = self._weights_RS @ sums_SG.astype(np.float32)
        cases_RG = self._weights_RS @ cases_SG.astype(np.float32)
        drawn_RG = np.divide(
            sums_RG, cases_RG, out=np.full_like(sums_RG, np.nan), where=cases_RG > 0
        )
        means_R = np.nanmean(drawn_RG[(cases_RG > 0).any(1)], axis=1)
        cases, clusters = round(float(total_G.sum())), int(np.count_nonzero(cases_SG.any(1)))
        return self.interval(value, means_R, cases, clusters)


def few_clusters(number: int, what: str, which: str = "intervals") -> tuple[str, ...]:
    """A warning if there are too few clusters for good intervals; else nothing.

    >>> few_clusters(10, "document")
    ()
    >>> few_clusters(1, "document")[0].partition(":")[0]
    'intervals from 1 document are rough'
    """
    if number >= FEW_CLUSTERS:
        return ()
    return (
        f"{which} from {amount(number, what)} are rough: with fewer than {FEW_CLUSTERS}, 95 % "
        "intervals of skewed numbers hold the truth in about 82 % of cases. Use more of them",
    )


def correlated(
    one: Float[np.ndarray, " case"], other: Float[np.ndarray, " case"], ranks: bool = True
) -> Estimate:
    r"""Spearman's or Pearson's correlation with its 95 % interval.

    $$\rho = r(\mathrm{rank}\,x, \mathrm{rank}\,y), \qquad
    \tanh\!\Big(\mathrm{artanh}\,\rho \pm 1.96 \sqrt{\tfrac{1 + \rho^2 / 2}{n - 3}}\Big)$$

    Spearman's rank correlation is Pearson's of the ranks, in [-1, 1]; equal numbers share their
    mean rank, also those that differ by rounding. The interval treats the n things as independent
    draws.

    Reference: The Proof and Measurement of Association between Two Things (Spearman, 1904),
        https://doi.org/10.2307/1412159; Sample Size Requirements for Estimating Pearson, Kendall
        and Spearman Correlations (Bonett and Wright, 2000), https://doi.org/10.1007/BF02294183

    Cases without one of the numbers (NaN) are left out. The correlation is NaN over fewer than 4
    cases, or where one number is the same for all of them. Pearson's interval uses Fisher's
    variance, 1 / (n - 3), instead of Bonett and Wright's.
    """
    from scipy.stats import norm, rankdata

    known = ~(np.isnan(one) | np.isnan(other))
    x, y = (rankdata(levels(each[known])) if ranks else each[known] for each in (one, other))
    num = int(known.sum())
    if num < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Estimate(np.nan, np.nan, np.nan, num)
    rho = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    spread = np.sqrt((1 + rho**2 / 2 if ranks else 1) / (num - 3))
    # A perfect correlation lies at infinity, which rounding may just miss
    middle = np.copysign(np.inf, rho) if 1 - abs(rho) < 1e-12 else np.arctanh(rho)
    wide = float(norm.ppf(0.975))
    low, high = (float(np.tanh(middle + side * wide * spread)) for side in (-1, 1))
    return Estimate(rho, low, high, num)


def rank_correlations(
    a_RC: Float[np.ndarray, "row case"], b_RC: Float[np.ndarray, "row case"]
) -> Float[np.ndarray, " row"]:
    """Spearman's correlation of every row; NaN where one side is constant."""
    from scipy.stats import rankdata

    a_RC, b_RC = (rankdata(each, axis=1) for each in (a_RC, b_RC))
    a_RC, b_RC = (each - each.mean(1, keepdims=True) for each in (a_RC, b_RC))
    spread_R = np.sqrt((a_RC**2).sum(1) * (b_RC**2).sum(1))
    unknown_R = np.full(len(a_RC), np.nan)
    return np.divide((a_RC * b_RC).sum(1), spread_R, out=unknown_R, where=spread_R > 0)


FEWEST = 4
"""Least number of estimates that are shrunken; the spread of fewer is not known."""
_STEPS = 60
_LEAST = 1e-12


def shrunken(
    estimate_N: Float[np.ndarray, " estimate"], error_N: Float[np.ndarray, " estimate"]
) -> Float[np.ndarray, " estimate"]:
    r"""Estimates, drawn to their mean as far as chance spreads them; as they are below `FEWEST`.

    Of many estimates $y_i$ with standard errors $s_i$, those that pass a threshold are too large on
    average. If the true values are spread normally with mean $\mu$ and variance $\tau^2$, then

    $$\hat\theta_i = \hat\mu + \frac{\hat\tau^2}{\hat\tau^2 + s_i^2} (y_i - \hat\mu)$$

    is right on average, whatever was picked. The mean is weighted by $1 / (\tau^2 + s_i^2)$, and
    the variance solves $\sum (y_i - \hat\mu)^2 / (\tau^2 + s_i^2) = n - 1$; it is 0 if nothing
    does.

    Reference: Efron & Morris (1975), https://doi.org/10.1080/01621459.1975.10479864; the variance:
        Paule & Mandel (1982), https://doi.org/10.6028/jres.087.022; selection: Efron (2011),
        section 1, https://doi.org/10.1198/jasa.2011.tm11181

    Args:
        estimate_N: the estimates, picked or not.
        error_N: their standard errors.
    """
    if len(estimate_N) < FEWEST:
        return estimate_N
    variance_N = np.maximum(error_N**2, _LEAST)
    low, high = 0.0, float(np.ptp(estimate_N) ** 2)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _excess(estimate_N, variance_N + middle) > 0:
            low = middle
        else:
            high = middle
    mean = _mean(estimate_N, variance_N + low)
    return mean + low / (low + variance_N) * (estimate_N - mean)


def _mean(estimate_N: np.ndarray, variance_N: np.ndarray) -> float:
    return float((estimate_N / variance_N).sum() / (1 / variance_N).sum())


def _excess(estimate_N: np.ndarray, variance_N: np.ndarray) -> float:
    """Sum of squares beyond what is expected; falls as variances rise."""
    mean = _mean(estimate_N, variance_N)
    return float(((estimate_N - mean) ** 2 / variance_N).sum()) - (len(estimate_N) - 1)
