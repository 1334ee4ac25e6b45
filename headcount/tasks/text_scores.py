r"""BLEU and chrF of many sums of counts at once, for tests that need thousands of scores.

$$\mathrm{BLEU} = 100 \min(1, e^{1 - r / c}) \Big(\prod_{n=1}^4 \frac{m_n}{t_n}\Big)^{1/4}, \qquad
  \mathrm{chrF} = 100 \frac{5 P R}{4 P + R}$$

m of the t n-grams of a translation are in its reference; c and r are the lengths of both in tokens.
P and R are the mean precision and recall of n-grams of 1 to 6 characters, over the orders that both
texts have. The k-th of BLEU's orders without a match counts as 2^-k matches. Both scores are between
0 and 100, and equal sacreBLEU's with its default options.

Reference: BLEU (Papineni et al., 2002), https://aclanthology.org/P02-1040; smoothing: Chen and
    Cherry (2014), method 3, https://aclanthology.org/W14-3346; chrF (Popović, 2015),
    https://aclanthology.org/W15-3049
"""  # noqa: E501

import numpy as np
from jaxtyping import Float

BETA = 2.0
"""Weight of recall against precision in chrF."""


def bleu(sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
    """BLEU from both lengths, the matches of every order, and the n-grams of every order."""
    length_D, reference_D = sums_DK[:, 0], sums_DK[:, 1]
    match_DO, total_DO = np.split(sums_DK[:, 2:], 2, axis=1)
    is_missed_DO = match_DO == 0
    smoothed_DO = np.where(is_missed_DO, 0.5 ** is_missed_DO.cumsum(1), match_DO)
    is_known_D = (total_DO > 0).all(1) & (match_DO > 0).any(1)
    log_D = np.log(smoothed_DO / np.where(total_DO > 0, total_DO, 1)).mean(1)
    log_D += np.minimum(0, 1 - reference_D / np.where(length_D > 0, length_D, 1))
    return np.where(is_known_D, 100 * np.exp(log_D), 0.0)


def chrf(sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
    """The chrF of counts of n-grams in translation, reference and both, for every order."""
    ours_DO, theirs_DO, match_DO = (sums_DK[:, start::3] for start in range(3))
    counts_DO = (ours_DO > 0) & (theirs_DO > 0)
    number_D = np.maximum(counts_DO.sum(1), 1)

    def mean(total_DO: np.ndarray) -> np.ndarray:
        return (counts_DO * match_DO / np.maximum(total_DO, 1)).sum(1) / number_D

    precision_D, recall_D = mean(ours_DO), mean(theirs_DO)
    below_D = BETA**2 * precision_D + recall_D
    above_D = (1 + BETA**2) * precision_D * recall_D
    return 100 * np.divide(above_D, below_D, out=np.zeros_like(above_D), where=below_D > 0)
