r"""Power: how large an effect must be for a test of this size to see it.

An effect $\delta$ with standard error $s$, one of $m$ that are corrected by Bonferroni's bound
(Holm's first step), has p < $\alpha$ with probability

$$\Phi\left(\frac{|\delta|}{s} - z_{1 - \alpha / 2m}\right), \qquad
\delta_{80} = (z_{1 - \alpha / 2m} + z_{0.8})\, s,$$

so that the effect $\delta_{80}$ is seen in 80 % of cases. The chance of the wrong sign is left out.

Reference: Bloom (1995), Minimum detectable effects, Evaluation Review 19(5),
    https://doi.org/10.1177/0193841X9501900504
"""

from scipy.stats import norm

from headcount.statistics.p_values import ALPHA

USUAL = 0.8
"""Power that is usually asked for."""


def power_of(effect: float, error: float, tests: int, alpha: float = ALPHA) -> float:
    """Probability that an effect has p < `alpha` after correction.

    Args:
        effect: the true effect.
        error: its standard error.
        tests: number of tests that are corrected together.
        alpha: level of the test.
    """
    return float(norm.cdf(abs(effect) / error - norm.isf(alpha / (2 * tests))))


def smallest_seen(error: float, tests: int, alpha: float = ALPHA, wanted: float = USUAL) -> float:
    """The smallest effect that has p < `alpha` after correction with the wanted probability."""
    return float((norm.isf(alpha / (2 * tests)) + norm.ppf(wanted)) * error)
