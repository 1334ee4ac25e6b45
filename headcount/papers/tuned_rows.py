"""Numbers about maps before and after fine-tuning, with intervals by a bootstrap over sentences."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from headcount.core import Head, LayerId
from headcount.papers.pattern_classifier import PATTERNS
from headcount.papers.tuned_maps import MapsOfLayer
from headcount.papers.tuned_record import TunedRow
from headcount.papers.word_classes import WORD_CLASSES, WordAttention
from headcount.statistics import Bootstrap, Estimate

ALL = -1


def map_rows(found: Mapping[LayerId, MapsOfLayer], bootstrap: Bootstrap) -> Iterator[TunedRow]:
    """Shares of patterns, agreement of rule and classifier, and cosines."""
    for site in dict.fromkeys(place.site for place in found):
        layers = {place.layer: each for place, each in found.items() if place.site == site}
        for layer, each in layers.items():
            yield from _patterns(site, layer, [each], bootstrap)
            yield TunedRow(site, layer, "all", "cosine", "", *_mean(each.cosine_SH, bootstrap))
            for index, cosine_S in enumerate(each.cosine_SH.T):
                name, one = str(Head(site, layer, index)), _mean(cosine_S[:, None], bootstrap)
                yield TunedRow(site, layer, name, "cosine", "", *one)
        every = list(layers.values())
        yield from _patterns(site, ALL, every, bootstrap)
        cosine_SH = np.concatenate([each.cosine_SH for each in every], 1)
        yield TunedRow(site, ALL, "all", "cosine", "", *_mean(cosine_SH, bootstrap))


def _patterns(
    site: str, layer: int, every: Sequence[MapsOfLayer], bootstrap: Bootstrap
) -> Iterator[TunedRow]:
    named = {
        "before": np.concatenate([each.before_SH for each in every], 1),
        "after": np.concatenate([each.after_SH for each in every], 1),
        "trained": np.concatenate([each.trained_SH for each in every], 1),
    }
    for metric, pattern_SH in named.items():
        for number, pattern in enumerate(PATTERNS):
            one = _mean(pattern_SH == number, bootstrap)
            yield TunedRow(site, layer, "all", metric, pattern, *one)
    same = _mean(named["after"] == named["trained"], bootstrap)
    yield TunedRow(site, layer, "all", "agreement", "", *same)
    one = kappa(named["after"], named["trained"], bootstrap)
    yield TunedRow(site, layer, "all", "kappa", "", *one)


def kappa(a_SH: np.ndarray, b_SH: np.ndarray, bootstrap: Bootstrap) -> Estimate:
    """Cohen's kappa: agreement of two labels beyond what their frequencies explain."""
    columns = [a_SH == b_SH]
    for number in range(len(PATTERNS)):
        columns += [a_SH == number, b_SH == number]
    sums_SN = np.stack([each.sum(1) for each in columns], 1).astype(np.float64)
    cases_SN = np.full_like(sums_SN, a_SH.shape[1])
    drawn_RN = np.concatenate(
        [(sums_SN.sum(0) / cases_SN.sum(0))[None], bootstrap.drawn_ratios(sums_SN, cases_SN)]
    )
    chance_R = (drawn_RN[:, 1::2] * drawn_RN[:, 2::2]).sum(1)
    found_R = np.divide(
        drawn_RN[:, 0] - chance_R,
        1 - chance_R,
        out=np.full(len(chance_R), np.nan),
        where=chance_R < 1,
    )
    return bootstrap.interval(float(found_R[0]), found_R[1:], a_SH.size).within(-1.0, 1.0)


def _mean(
    numbers_SH: Float[np.ndarray, "sentence head"] | np.ndarray, bootstrap: Bootstrap
) -> Estimate:
    """The mean of a number over maps."""
    sums_S1 = numbers_SH.sum(1, dtype=np.float64)[:, None]
    (one,) = bootstrap.ratios(sums_S1, np.full_like(sums_S1, numbers_SH.shape[1]))
    return one


def word_rows(
    metric: str, found: Mapping[LayerId, WordAttention], bootstrap: Bootstrap
) -> Iterator[TunedRow]:
    """Mean attention to every class of words, by layer and over all layers; `words`: its share."""
    for site in dict.fromkeys(place.site for place in found):
        layers = {place.layer: each for place, each in found.items() if place.site == site}
        for layer, each in [*layers.items(), (ALL, None)]:
            some = list(layers.values()) if each is None else [each]
            weight_SC = sum((one.weight_SHC.sum(1) for one in some), start=np.zeros(1))
            heads = sum(one.weight_SHC.shape[1] for one in some)
            queries_SC = np.repeat(some[0].queries_S[:, None] * heads, len(WORD_CLASSES), 1)
            estimates = bootstrap.ratios(weight_SC, queries_SC)
            for name, one in zip(WORD_CLASSES, estimates, strict=True):
                yield TunedRow(site, layer, "all", metric, name, *one)
        first = next(iter(layers.values()))
        queries_SC = np.repeat(first.queries_S[:, None], len(WORD_CLASSES), 1)
        if metric == "words-after":
            shares = bootstrap.ratios(first.tokens_SC, queries_SC)
            for name, one in zip(WORD_CLASSES, shares, strict=True):
                yield TunedRow(site, ALL, "all", "words", name, *one)
