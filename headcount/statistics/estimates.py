r"""Estimates: ratios, means, shares and correlations with intervals, and shrunken estimates.

Ratios of sums over clusters (sentences, documents) have intervals by the spread s of the ratio on
resampled clusters (a bootstrap). With C clusters that have cases, and n_c cases in cluster c, the
95 % interval is Student's

$$x \pm t_{0.975,\, \nu} \, s \sqrt{\frac{C}{C - 1}}, \qquad
\nu = \frac{(\sum_c n_c)^2}{\sum_c n_c^2} - 1$$

so a cluster with most of the cases leaves few degrees of freedom. Below `FEWEST_CLUSTERS` there is
none: what a few clusters say of a skewed number holds the truth too rarely (docs/benchmarks.md).

A share p has Wilson's interval over its effective number of cases, from two clusters on:

$$n^* = \min\Big(n, \frac{p (1 - p)}{s^2 C / (C - 1)}\Big)$$

where clusters are alike (s = 0), n* is the effective number of clusters, $\nu + 1$. If one outcome
is in few clusters, $\nu$ is at most twice their number. Percentiles of the bootstrap are too short:
with 25 clusters of normal numbers they hold the truth in 91 % of cases.

Intervals: a number with the range in which it lies in 95 % of cases.

References: What Teachers Should Know About the Bootstrap (Hesterberg, 2015), sections 3.1 and 5.3,
    https://arxiv.org/abs/1411.5279; effective numbers: Kish (1965), Survey Sampling, section 11.7;
    Wilson's interval of clustered shares: Franco, Little, Louis and Slud (2019),
    https://doi.org/10.1093/jssam/smy019
"""

import math
from statistics import NormalDist
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, Shaped

from headcount.core import amount, levels
from headcount.statistics.p_values import check_draws


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
        """
        if math.isnan(self.low):
            return self
        return self._replace(low=max(self.low, least), high=min(self.high, most))

    def over_draws(self, drawn_D: Float[np.ndarray, " draw"]) -> "Estimate":
        r"""The same number with an interval for other draws, too; none for one draw.

        The number is a mean over draws, independent of what its interval is over, so both
        distances add up as squares: $\sqrt{(x - l)^2 + t_{0.975, D - 1}^2 s_D^2 / D}$.

        Reference: Construction of confidence limits about effect measures (Zou and Donner, 2008),
            https://doi.org/10.1002/sim.3095

        Args:
            drawn_D: The number on every draw.
        """
        if len(drawn_D) < 2:
            return self._replace(low=math.nan, high=math.nan)
        low, mean, _ = mean_interval(drawn_D).tolist()
        below, above = (
            math.hypot(each, mean - low) for each in (self.value - self.low, self.high - self.value)
        )
        return self._replace(low=self.value - below, high=self.value + above)


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


def wilson_interval(
    share: float, cases: int | float, reach: float = NormalDist().inv_cdf(0.975)
) -> tuple[float, float]:
    r"""Wilson's 95 % interval of a share over independent cases, within 0 and 1.

    Reference: Wilson (1927), https://doi.org/10.1080/01621459.1927.10502953

    Args:
        share: The share.
        cases: Number of independent cases that it is worth.
        reach: Half the width of the interval in standard errors.

    >>> [round(bound, 3) for bound in wilson_interval(0.0, 16)]
    [0.0, 0.194]
    """
    square = reach**2 / cases
    middle, half = share + square / 2, math.sqrt(square * (share * (1 - share) + square / 4))
    low, high = ((middle + each) / (1 + square) for each in (-half, half))
    return low if share > 0 else 0.0, high if share < 1 else 1.0


_LEAST = 1e-12
FEWEST_CLUSTERS = 8
"""Least number of clusters for an interval of a number that is no share."""


class Clusters(NamedTuple):
    """The clusters that a number is over."""

    number: int
    """Number of clusters with cases of this number."""
    degrees: float
    """Degrees of freedom of its interval."""

    @classmethod
    def alike(cls, number: int) -> "Clusters":
        """Clusters with as many cases each."""
        return cls(number, max(number - 1, 1))

    @classmethod
    def of(
        cls,
        sums_S: Shaped[np.ndarray, " sentence"],
        cases_S: Shaped[np.ndarray, " sentence"],
        shares: bool,
    ) -> "Clusters":
        """The clusters of a ratio of sums over cases."""
        num, total = int(np.count_nonzero(cases_S)), float(cases_S.sum())
        degrees = total**2 / max(float((cases_S**2).sum()), _LEAST) - 1
        rarer = min(np.count_nonzero(sums_S > 0), np.count_nonzero(sums_S < cases_S))
        if shares and rarer:
            degrees = min(degrees, 2 * int(rarer))
        return cls(num, max(degrees, 1.0))


@final
class Bootstrap:
    """Draws sentences with replacement; all numbers of a test set use the same draws.

    Args:
        num_sentences: number of test sentences.
        samples: number of draws.
        seed: seed of the draws.
    """

    def __init__(self, num_sentences: int, samples: int, seed: int) -> None:
        self.num_sentences = num_sentences
        check_draws(samples, 2 * num_sentences)
        generator = np.random.default_rng(seed)
        even = np.full(num_sentences, 1 / num_sentences)
        self._weights_RS = generator.multinomial(num_sentences, even, samples).astype(np.float32)

    def ratio(
        self,
        sums_S: Float[np.ndarray, " sentence"],
        cases_S: Float[np.ndarray, " sentence"],
        shares: bool = False,
    ) -> Estimate:
        """The sum of some numbers over that of the cases; NaN without cases."""
        return self.mean_ratio(sums_S[:, None], cases_S[:, None], shares)

    def rate(
        self,
        sentence_N: Int[np.ndarray, " case"],
        value_N: Shaped[np.ndarray, " case"],
        is_case_N: Shaped[np.ndarray, " case"] | None = None,
    ) -> Estimate:
        """The share of some cases that are true; the sentence of each is given by its number."""
        cases_N = np.ones(len(value_N)) if is_case_N is None else 1.0 * is_case_N
        numbers = (value_N * cases_N, cases_N)
        sums_S, cases_S = (np.bincount(sentence_N, n, self.num_sentences) for n in numbers)
        return self.ratio(sums_S, cases_S, shares=True)

    def ratios(
        self,
        sums_SN: Float[np.ndarray, "sentence number"],
        cases_SN: Float[np.ndarray, "sentence number"],
        shares: bool = False,
    ) -> list[Estimate]:
        """Many ratios, each of its own sums and cases; NaN without cases.

        Args:
            sums_SN: Sums of the numbers by sentence.
            cases_SN: Their numbers of cases.
            shares: Whether the ratios are shares, from 0 to 1.
        """
        drawn_RN = self.drawn_ratios(sums_SN, cases_SN)
        total_N = cases_SN.sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            value_N = sums_SN.sum(0) / total_N
        return [
            self.interval(value, drawn_R, cases, Clusters.of(sums_S, cases_S, shares), shares)
            for value, drawn_R, cases, sums_S, cases_S in zip(
                value_N, drawn_RN.T, total_N.round(), sums_SN.T, cases_SN.T, strict=True
            )
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
        clusters: Clusters | None = None,
        shares: bool = False,
    ) -> Estimate:
        """A number with its interval, by its values on all draws that have one.

        Args:
            value: The number.
            drawn_R: The number on every draw; NaN where a draw has no cases.
            cases: Number of cases that the number is over.
            clusters: Sentences with cases of this number; None for all sentences alike.
            shares: Whether the number is a share, from 0 to 1.
        """
        from scipy.special import stdtrit

        clusters = clusters or Clusters.alike(self.num_sentences)
        known_R, value = drawn_R[~np.isnan(drawn_R)], float(value)
        if clusters.number < (2 if shares else FEWEST_CLUSTERS) or len(known_R) < 2:
            return Estimate(value, math.nan, math.nan, int(cases))
        reach = float(stdtrit(clusters.degrees, 0.975))
        variance = float(known_R.var(ddof=1)) * clusters.number / (clusters.number - 1)
        if shares:
            alone = clusters.degrees + 1
            known = value * (1 - value) / variance if variance > _LEAST**2 else alone
            ends = wilson_interval(min(max(value, 0.0), 1.0), min(max(known, 1), cases), reach)
        else:
            half = reach * math.sqrt(variance)
            ends = value - half, value + half
        return Estimate(value, *ends, int(cases))

    def mean_ratio(
        self,
        sums_SG: Float[np.ndarray, "sentence group"],
        cases_SG: Float[np.ndarray, "sentence group"],
        shares: bool = False,
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
        clusters = Clusters.of(sums_SG.sum(1), cases_SG.sum(1), shares)
        return self.interval(value, means_R, round(float(total_G.sum())), clusters, shares)


def few_clusters(number: int, what: str, which: str = "intervals") -> tuple[str, ...]:
    """Why some numbers have no interval if there are too few clusters for one; else nothing.

    >>> few_clusters(8, "document")
    ()
    >>> few_clusters(1, "document")[0].partition(":")[0]
    'intervals from 1 document are wide or missing'
    """
    if number >= FEWEST_CLUSTERS:
        return ()
    return (
        f"{which} from {amount(number, what)} are wide or missing: shares need 2, and for other "
        f"numbers no interval from fewer than {FEWEST_CLUSTERS} is right often enough. Use more of "
        "them",
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
