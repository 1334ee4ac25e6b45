"""Attention is Not Only a Weight: weights and norms by kind of token; mixing ratios of 2021.

References: Attention is Not Only a Weight (Kobayashi et al., 2020), https://arxiv.org/abs/2004.10102;
Incorporating Residual and Normalization Layers into Analysis of Masked Language Models (Kobayashi
et al., 2021), https://arxiv.org/abs/2109.07152
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import (
    ACCENT,
    INK,
    MUTED,
    SITES,
    Chart,
    Document,
    Heading,
    Table,
    Text,
    amount,
    grid_of,
)
from headcount.importance import KINDS
from headcount.numbers import percent
from headcount.pages import SITE_TITLES
from headcount.papers.contributions import MIXINGS
from headcount.papers.document import cell, names, sites_of, verdict
from headcount.papers.records import ContributionTable

PUBLISHED = dict(zip(MIXINGS, (96.41, 85.28, 48.21, 22.25, 18.75), strict=True))
"""Table of 2021: mean mixing ratio of BERT-base in per cent, by method."""

TITLES = {
    "attn-w": "weights",
    "attn-n": "norms",
    "attnres-w": "weights, with residual",
    "attnres-n": "norms, with residual",
    "attnresln-n": "norms, with residual and LayerNorm",
}

_COLOURS: Mapping[str, str] = dict(zip(KINDS, (ACCENT, "#0072B2", "#009E73", INK), strict=True))


def kobayashi2020_document(found: ContributionTable) -> Document:
    """The document, from measured contributions."""
    record, sites = found.record, sites_of(found.rows)
    masks = f"The model read {percent(record.share_masked)} of the tokens as its mask token. "
    return Document(
        "Attention is Not Only a Weight (Kobayashi et al. 2020 and 2021)",
        (
            Text(
                f"Here: {record.model} ({amount(record.heads, 'head')}), "
                f"{amount(record.sentences, 'sentence')} of {names(record.corpora)}. "
                f"{masks if record.share_masked else ''}Intervals are 95 %, by a bootstrap over "
                "sentences. The papers' model is BERT-base on Wikipedia."
            ),
            Heading("Weights and norms by kind of token (2020, section 4), means over layers"),
            _kinds_table(found, sites),
            Text(
                "The share of a kind is its part of the sum over all pairs of tokens: of weights "
                "A, of weighted norms A ||f(x)||, and of norms ||sum over heads of A f(x)||. The "
                "correlation is Spearman's between the weight that a token gets and its ||f(x)||, "
                "over tokens of the kind, averaged over heads."
            ),
            Heading(
                "Frequency: Spearman's correlation with the rank of a token (the most frequent "
                "first)"
            ),
            _rank_table(found, sites),
            Heading(
                "Mixing ratios (2021): share of the context in what the block computes, per cent"
            ),
            _mixing_table(found, sites),
            *_claims(found, sites),
            Chart(
                "weights_and_norms",
                "Shares of weights and of weighted norms by layer",
                partial(_shares_figure, found),
            ),
            Chart("mixing", "Mixing ratios by layer", partial(_mixing_figure, found)),
        ),
    ).ending(record.warnings, record.signature)


def _kinds_table(found: ContributionTable, sites: list[str]) -> Table:
    rows = []
    for site in sites:
        for kind in KINDS:
            share = found.find(site, "weight_share", kind)
            if share is None or not share.cases:
                continue
            rows.append(
                [
                    SITES[site],
                    kind,
                    cell(share),
                    cell(found.find(site, "weighted_norm_share", kind)),
                    cell(found.find(site, "joint_share", kind)),
                    cell(found.find(site, "norm", kind), 1.0, 2),
                    cell(found.find(site, "weight_by_norm", kind), 1.0, 2),
                ]
            )
    shares = ("weights, %", "weighted norms, %", "norms of sums, %")
    headers = ["site", "kind", *shares, "mean norm of f(x)", "correlation"]
    return Table.of(headers, rows, "Weights and norms by kind of token")


def _rank_table(found: ContributionTable, sites: list[str]) -> Table:
    metrics = ("norm", "weight", "weighted_norm")
    rows = [
        [SITES[site], *(cell(found.find(site, "by_rank", each), 1.0, 2) for each in metrics)]
        for site in sites
    ]
    headers = ["site", "norm of f(x)", "weight", "weighted norm"]
    return Table.of(headers, rows, "Correlations with the rank of a token")


def _mixing_table(found: ContributionTable, sites: list[str]) -> Table:
    own = [site for site in sites if found.find(site, "mixing", "attn-w") is not None]
    rows = [
        [
            TITLES[method],
            f"{PUBLISHED[method]:.2f}",
            *(cell(found.find(site, "mixing", method), 100.0, 2) for site in own),
        ]
        for method in MIXINGS
    ]
    headers = ["by", "BERT-base (paper)", *(f"here, {SITES[site]}" for site in own)]
    return Table.of(headers, rows, "Mixing ratios by method")


def _claims(found: ContributionTable, sites: list[str]) -> Iterator[Text]:
    for site in sites:
        yield from _claims_about_kinds(found, site)
        ranked = found.find(site, "by_rank", "norm")
        if ranked is not None and ranked.cases > 2:
            yield verdict(
                ranked.low > 0,
                f"{SITES[site]}: frequent tokens have small norms",
                f"correlation of rank and norm {cell(ranked, 1.0, 2)}",
            )
        weights, norms = (found.find(site, "mixing", each) for each in ("attn-n", "attnres-n"))
        if weights is None or norms is None or norms.value != norms.value:
            continue
        yield verdict(
            norms.high < 0.5 and norms.high < weights.low,
            f"{SITES[site]}: with the residual, a token itself contributes more than its context",
            f"context {cell(norms)} %, without the residual {cell(weights)} %",
        )


def _claims_about_kinds(found: ContributionTable, site: str) -> Iterator[Text]:
    for kind in KINDS[:-1]:
        weight, norm = (
            found.find(site, metric, kind) for metric in ("weight_share", "weighted_norm_share")
        )
        if weight is None or norm is None or not weight.cases:
            continue
        yield verdict(
            norm.high < weight.low,
            f"{SITES[site]}: {kind} tokens contribute less by norms than by weights",
            f"weights {cell(weight)} %, norms {cell(norm)} %",
        )


def _shares_figure(found: ContributionTable) -> Figure:
    sites = sites_of(found.rows)
    size = (3.1 * len(sites) + 0.9, 4.4)
    figure, grid = grid_of(2, len(sites), size, sharex="col", sharey=True)
    metrics = {"weight_share": "share of weights", "weighted_norm_share": "share of weighted norms"}
    for column, site in enumerate(sites):
        for axes, (metric, title) in zip(grid[:, column], metrics.items(), strict=True):
            for kind in KINDS:
                rows = [row for row in found.layers(site, metric, kind) if row.cases]
                layers = [row.layer for row in rows]
                low, high = ([getattr(row, end) for row in rows] for end in ("low", "high"))
                axes.fill_between(layers, low, high, color=_COLOURS[kind], alpha=0.2, linewidth=0)
                values = [row.value for row in rows]
                axes.plot(layers, values, "o-", ms=3, lw=1.2, color=_COLOURS[kind], label=kind)
            if column == 0:
                axes.set_ylabel(title)
    return _finished(figure, grid, sites, len(KINDS))


def _mixing_figure(found: ContributionTable) -> Figure:
    own = [site for site in sites_of(found.rows) if found.layers(site, "mixing", "attn-w")]
    number = max(1, len(own))
    figure, grid = grid_of(1, number, (3.1 * number + 1.3, 3.6), sharey=True)
    colours = (MUTED, INK, "#0072B2", "#009E73", ACCENT)
    for axes, site in zip(grid[0], own, strict=False):
        for method, colour in zip(MIXINGS, colours, strict=True):
            rows = [row for row in found.layers(site, "mixing", method) if row.value == row.value]
            layers, values = [row.layer for row in rows], [row.value for row in rows]
            if rows:
                axes.plot(layers, values, "o-", ms=3, lw=1.2, color=colour, label=TITLES[method])
    grid[0, 0].set_ylabel("mixing ratio")
    return _finished(figure, grid, own, 2)


def _finished(figure: Figure, grid: np.ndarray, sites: Sequence[str], columns: int) -> Figure:
    """The figure with a column of panels for each site, shares over layers, and its legend."""
    for panels, site in zip(grid.T, sites, strict=False):
        for axes in panels:
            axes.set_ylim(0, 1)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[0].set_title(SITE_TITLES.get(site, site))
        panels[-1].set_xlabel("layer")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    return figure
