"""Numbers about contributions by layer and kind of token, with intervals by a bootstrap.

Shares, means and mixing ratios resample sentences. Spearman's correlations resample them with the
ranks of the complete corpus. What is measured is defined in `contributions`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, final

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from headcount.core import (
    BELOW_1,
    Count,
    LayerId,
    Progress,
    Seed,
    Stopwatch,
    check_value,
    name_of,
    silent,
)
from headcount.corpora import Batch, Batches, Census, Corpus, take_census
from headcount.importance import KINDS
from headcount.models import Loaded, check_has_heads, signature
from headcount.papers.contributions import MIXINGS, Contributions, collect_contributions
from headcount.papers.records import ALL, ContributionRecord, ContributionRow, ContributionTable
from headcount.statistics import Bootstrap, few_clusters
from headcount.tasks import mask_id_of


@final
@dataclass(frozen=True)
class Number:
    """A number with its values on all draws."""

    value: float
    drawn_R: Float[np.ndarray, " draw"]
    cases: int


def measure_contributions(
    loaded: Loaded,
    corpus: Corpus,
    *,
    max_tokens: int = 2048,
    samples: int = 1000,
    share_masked: float = 0.0,
    seed: int = 0,
    progress: Progress = silent,
) -> ContributionTable:
    """Measure what every kind of token adds to every layer's output.

    Args:
        loaded: the model with its tokenizer.
        corpus: what to measure on; encoder-decoders need parallel text.
        max_tokens: number of padded tokens in a batch.
        samples: number of resamples of the sentences.
        share_masked: share of the tokens of every sentence that the model reads as the mask token,
            0.12 in the code of 2021.
        seed: seed of the resamples and of the masks.
        progress: called with the number of sentences done.

    Raises:
        InputError: if there are no samples, or the share is none.
        CorpusError: if the corpus can't be read.
        ModelError: if a layer has no output projection, a number is not finite, or the tokenizer
            has no mask token.
    """
    check_value("seed", seed, Seed)
    check_value("samples", samples, Count)
    check_value("share_masked", share_masked, Annotated[float, BELOW_1])
    check_has_heads(loaded)
    watch, encoder = Stopwatch(), loaded.encoder()
    census = take_census(corpus, encoder)
    total = census.counts.sentences
    work = Batches(corpus, encoder, census, max_tokens=max_tokens)
    if share_masked:
        work = masked(work, share_masked, mask_id_of(loaded), seed)
    found = collect_contributions(
        loaded.model, loaded.anatomy, work, lambda number: progress("contributions", number, total)
    )
    watch.lap("measure")
    bootstrap = Bootstrap(total, samples, seed)
    rows = tuple(_rows(found, bootstrap, total))
    signed = {"n": total, "max_length": encoder.max_length, "samples": samples, "seed": seed}
    signed |= {"masked": share_masked} if share_masked else {}
    record = ContributionRecord(
        signature=signature(loaded, census.sha256, **corpus.signed, **signed),
        model=name_of(loaded.name),
        corpora=corpus.names,
        sentences=total,
        heads=len(loaded.heads),
        truncated=census.counts.truncated,
        share_masked=share_masked,
        warnings=tuple(_warnings(census, encoder.max_length, rows)),
        timings=watch.lap("intervals"),
    )
    return ContributionTable(record, rows)


def _warnings(
    census: Census, max_length: int | None, rows: tuple[ContributionRow, ...]
) -> Iterator[str]:
    yield from census.warnings(max_length)
    yield from few_clusters(census.counts.sentences, "sentence")
    own = {row.site for row in rows if row.metric == "mixing"}
    for method, what in (
        ("attnres-n", "the residual"),
        ("attnresln-n", "a LayerNorm of the sum with the residual"),
    ):
        known = {row.site for row in rows if row.kind == method and row.value == row.value}
        for site in sorted(own - known):
            yield f"{what} was not found in {site}, so {method} is unknown there"


def _rows(
    found: Mapping[LayerId, Contributions], bootstrap: Bootstrap, num_sentences: int
) -> Iterator[ContributionRow]:
    """The rows of every layer, then the means over the layers of each site."""
    means: dict[tuple[str, str, str], list[Number]] = {}
    for place, each in found.items():
        for (metric, kind), number in _numbers(each, bootstrap, num_sentences).items():
            means.setdefault((place.site, metric, kind), []).append(number)
            yield _row(bootstrap, place.site, place.layer, metric, kind, number)
    for names, every in means.items():
        # A layer without the number, such as one where a kind's norms are all equal, is left out
        numbers = [each for each in every if each.value == each.value] or every[:1]
        value = float(np.mean([number.value for number in numbers]))
        drawn_R = np.mean([number.drawn_R for number in numbers], axis=0)
        cases = sum(number.cases for number in numbers)
        number = Number(value, drawn_R, cases)
        yield _row(bootstrap, names[0], ALL, names[1], names[2], number)


def _row(
    bootstrap: Bootstrap, site: str, layer: int, metric: str, kind: str, number: Number
) -> ContributionRow:
    one = bootstrap.interval(number.value, number.drawn_R, number.cases)
    return ContributionRow(site, layer, metric, kind, *one)


def _numbers(
    each: Contributions, bootstrap: Bootstrap, num_sentences: int
) -> dict[tuple[str, str], Number]:
    """Every number of one layer, by metric and kind."""
    num_heads = each.weight_TH.shape[1]
    weight_T, weighted_T = each.weight_TH.sum(1), (each.weight_TH * each.norm_TH).sum(1)
    pairs_T, ones_T = num_heads * each.queries_T, np.full(len(weight_T), num_heads)
    found: dict[tuple[str, str], Number] = {}
    means = {
        "weight": (weight_T, pairs_T),
        "norm": (each.norm_TH.sum(1), ones_T),
        "weighted_norm": (weighted_T, pairs_T),
        "joint_norm": (each.joint_T, each.queries_T),
    }
    shares = {
        "weight_share": weight_T,
        "weighted_norm_share": weighted_T,
        "joint_share": each.joint_T,
    }
    sums = TokenSums(each.sentence_T, num_sentences, bootstrap)
    for k, kind in enumerate(KINDS):
        is_kind_T = each.kind_T == k
        for metric, (top_T, bottom_T) in means.items():
            found[metric, kind] = sums.ratio(top_T * is_kind_T, bottom_T * is_kind_T, is_kind_T)
        for metric, top_T in shares.items():
            found[metric, kind] = sums.ratio(top_T * is_kind_T, top_T, is_kind_T)
        received_TH = each.weight_TH / np.maximum(each.queries_T, 1)[:, None]
        of_kind = (received_TH[is_kind_T], each.norm_TH[is_kind_T])
        found["weight_by_norm", kind] = sums.spearman(*of_kind, each.sentence_T[is_kind_T])
    for m, method in enumerate(MIXINGS):
        mixing_T = each.mixing_TM[:, m]
        if not np.isnan(each.mixing_TM[:, 0]).all():
            found["mixing", method] = sums.ratio(mixing_T, np.ones_like(mixing_T), mixing_T)
    found |= _by_rank(each, sums)
    return found


def _by_rank(each: Contributions, sums: "TokenSums") -> dict[tuple[str, str], Number]:
    """Correlations of a content token's frequency rank with what it gets and adds."""
    of_content = each.is_content_T.astype(bool) & (each.queries_T > 0)
    rank_T1 = -each.count_T[of_content, None].astype(np.float64)
    weight_TH = each.weight_TH / np.maximum(each.queries_T, 1)[:, None]
    numbers = {"weight": weight_TH, "norm": each.norm_TH, "weighted_norm": weight_TH * each.norm_TH}
    return {
        ("by_rank", name): sums.spearman(
            number_TH[of_content].mean(1, keepdims=True), rank_T1, each.sentence_T[of_content]
        )
        for name, number_TH in numbers.items()
    }


@final
class TokenSums:
    """Sums of tokens by sentence, and numbers made of them on every draw."""

    def __init__(
        self, sentence_T: Int[np.ndarray, " token"], num_sentences: int, bootstrap: Bootstrap
    ) -> None:
        self._sentence_T, self._num_sentences = sentence_T, num_sentences
        self._bootstrap = bootstrap

    def ratio(self, top_T: np.ndarray, bottom_T: np.ndarray, is_case_T: np.ndarray) -> Number:
        """The sum of one number over that of another."""
        sums_S1, cases_S1 = (self._of(each[:, None]) for each in (top_T, bottom_T))
        total = float(cases_S1.sum())
        value = float(sums_S1.sum()) / total if total else float("nan")
        drawn_R = self._bootstrap.drawn_ratios(sums_S1, cases_S1)[:, 0]
        return Number(value, drawn_R, int(np.count_nonzero(is_case_T)))

    def spearman(
        self,
        a_TH: Float[np.ndarray, "token head"],
        b_TH: Float[np.ndarray, "token head"],
        sentence_T: Int[np.ndarray, " token"],
    ) -> Number:
        """The mean over heads of Spearman's correlation over tokens; constant heads are left out.

        Resamples keep the ranks that tokens have in the complete corpus.
        """
        if len(a_TH) < 3:
            return Number(float("nan"), np.full(0, np.nan), len(a_TH))
        a_TH, b_TH = (rankdata(each, axis=0) for each in (a_TH, b_TH))
        a_TH, b_TH = (each - each.mean(0) for each in (a_TH, b_TH))
        parts = (a_TH, b_TH, a_TH**2, b_TH**2, a_TH * b_TH)
        sums_PSH = np.stack([self._of(each, sentence_T) for each in parts])
        count_S1 = self._of(np.ones((len(a_TH), 1)), sentence_T)
        drawn_PRH = np.stack(
            [
                self._bootstrap.drawn_ratios(each, count_S1.repeat(each.shape[1], 1))
                for each in sums_PSH
            ]
        )
        value = _mean_correlation(sums_PSH.sum(1)[:, None] / len(a_TH))[0]
        return Number(float(value), _mean_correlation(drawn_PRH), len(a_TH))

    def _of(
        self, numbers_TN: np.ndarray, sentence_T: np.ndarray | None = None
    ) -> Float[np.ndarray, "sentence number"]:
        sums_SN = np.zeros((self._num_sentences, numbers_TN.shape[1]))
        sentence_T = self._sentence_T if sentence_T is None else sentence_T
        np.add.at(sums_SN, sentence_T, numbers_TN.astype(np.float64))
        return sums_SN


def _mean_correlation(
    means_PRH: Float[np.ndarray, "5 draw head"],
) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation from means of a, b, a², b² and ab, averaged over heads."""
    a_RH, b_RH, aa_RH, bb_RH, ab_RH = means_PRH
    spread_RH = (aa_RH - a_RH**2).clip(0) * (bb_RH - b_RH**2).clip(0)
    found_RH = np.divide(
        ab_RH - a_RH * b_RH,
        np.sqrt(spread_RH),
        out=np.full_like(ab_RH, np.nan),
        where=spread_RH > 1e-12,
    )
    known_RH = ~np.isnan(found_RH)
    count_R = known_RH.sum(1)
    total_R = np.where(known_RH, found_RH, 0).sum(1)
    return np.divide(total_R, count_R, out=np.full(len(total_R), np.nan), where=count_R > 0)


def masked(batches: Iterable[Batch], share: float, mask_id: int, seed: int) -> Iterator[Batch]:
    """Replace a share of the tokens of every text, rounded down, but at least one.

    Special tokens are never replaced. What is known of a token, such as its kind, is still that of
    the text as it was.

    Args:
        batches: the texts.
        share: the share of the tokens.
        mask_id: what replaces them.
        seed: seed of the draws.
    """
    random = np.random.default_rng(seed)
    for batch in batches:
        ids_BN = batch.inputs["input_ids"].clone()
        for row, is_content_N in enumerate(batch.source.is_content_BN):
            places = is_content_N.nonzero()[:, 0].numpy()
            count = min(len(places), max(1, int(share * len(places))))
            ids_BN[row, random.choice(places, count, replace=False)] = mask_id
        yield replace(batch, inputs=batch.inputs | {"input_ids": ids_BN})
