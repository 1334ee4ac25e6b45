"""Bootstrap: ratios of sums over sentences, with intervals from resampled sentences."""

from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from headcount.statistics.intervals import Estimate, middle


@final
class Bootstrap:
    """Draws sentences with replacement; all numbers of a test set use the same draws.

    Args:
        num_sentences: number of test sentences.
        samples: number of draws.
        seed: seed of the draws.
    """

    def __init__(self, num_sentences: int, samples: int, seed: int) -> None:
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

    def ratios(
        self,
        sums_SN: Float[np.ndarray, "sentence number"],
        cases_SN: Float[np.ndarray, "sentence number"],
    ) -> list[Estimate]:
        """Many ratios, each of its own sums and cases; NaN without cases."""
        drawn_RN = self.drawn_ratios(sums_SN, cases_SN)
        total_N = cases_SN.sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            value_N = sums_SN.sum(0) / total_N
        return [
            self.interval(*each) for each in zip(value_N, drawn_RN.T, total_N.round(), strict=True)
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

    @staticmethod
    def interval(value: float, drawn_R: Float[np.ndarray, " draw"], cases: int | float) -> Estimate:
        """A number with the middle 95 % of its values on all draws that have one."""
        known_R = drawn_R[~np.isnan(drawn_R)]
        if not len(known_R):
            return Estimate(float(value), float("nan"), float("nan"), int(cases))
        return Estimate(float(value), *middle(known_R), int(cases))

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
        return Estimate(value, *middle(means_R), int(round(float(total_G.sum()))))
