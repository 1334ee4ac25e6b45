"""Revealing the Dark Secrets of BERT: patterns, changes by fine-tuning, and disabled heads.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), https://arxiv.org/abs/1908.08593
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binomtest

from headcount.core import (
    SITES,
    Block,
    Chart,
    Document,
    Head,
    Heading,
    Progress,
    Stopwatch,
    Table,
    Text,
    amount,
    grid_of,
    name_of,
    plain_grid,
    silent,
)
from headcount.corpora import (
    Batches,
    Columns,
    Corpus,
    Data,
    Sentence,
    named_files,
    read_data,
    take_census,
)
from headcount.importance import Options, assess
from headcount.models import Loaded, revision, signature
from headcount.numbers import nats
from headcount.pages import SITE_TITLES
from headcount.papers.document import cell, in_unit, names, scale, sites_of, verdict
from headcount.papers.pattern_classifier import PATTERNS, train_pattern_classifier
from headcount.papers.records import TunedMaps, TunedRecord, TunedRow
from headcount.papers.tuned_maps import (
    WORD_CLASSES,
    attention_to_words,
    compare_maps,
    map_rows,
    word_rows,
)
from headcount.statistics import Bootstrap, few_clusters
from headcount.tasks import Task, columns_of

HEAD_FIGURES = {
    "disabled": "Drop of the score by head with uniform attention",
    "cosine": "Cosine of maps before and after fine-tuning by head",
}
"""What is shown of every head, and its title."""


@final
@dataclass(frozen=True)
class TunedCase:
    """A model before and after fine-tuning, with the data that both are compared on."""

    before: Loaded
    """The model before fine-tuning."""
    after: Loaded
    """The fine-tuned model."""
    task: Task
    """The task on the data, for the fine-tuned model."""
    files: Data
    """The task's files."""
    columns: Columns | None = None
    """Columns of the files."""
    limit: int | None = None
    """Largest number of examples."""
    treebank: tuple[Path, ...] = ()
    """CoNLL-U files with tagged words; none leaves out attention to classes of words."""
    treebank_limit: int | None = 500
    """Largest number of their sentences."""
    as_words: bool = False
    """Whether their words are read joined by spaces, in place of the text as it is written."""
    samples: int = 1000
    """Number of resamples of the examples."""

    def words(self) -> Corpus:
        """The treebank."""
        return Corpus(self.treebank, limit=self.treebank_limit, as_words=self.as_words)

    def corpus(self) -> Corpus:
        """The task's texts or pairs, as sentences."""
        rows = read_data(self.files, self.columns, columns_of(self.task.name)).first(self.limit)
        if "text" in rows:
            seconds = rows["second"] if "second" in rows else [None] * len(rows)
            pairs = [*zip(rows["text"], seconds, rows.origins, strict=True)]
        else:  # two texts that are read one by one
            sides = (rows["sentence1"], rows["sentence2"])
            pairs = [
                (text, None, at)
                for side in sides
                for text, at in zip(side, rows.origins, strict=True)
            ]
        sentences = [Sentence(text, second=other or None, origin=at) for text, other, at in pairs]
        return Corpus.from_sentences(sentences)


def measure_tuned_maps(
    case: TunedCase, max_tokens: int = 1024, progress: Progress = silent
) -> TunedMaps:
    """Compare a model before and after fine-tuning, and disable its heads.

    Args:
        case: the models and the data.
        max_tokens: number of padded tokens in a batch, whose maps are held.
        progress: called with the progress.
    """
    watch = Stopwatch()
    classifier = train_pattern_classifier()
    watch.lap("classifier")
    corpus, encoder = case.corpus(), case.before.encoder()
    census = take_census(corpus, encoder)
    total = census.counts.sentences
    work = Batches(corpus, encoder, census, max_tokens=max_tokens)
    maps = compare_maps(
        case.before, case.after, work, classifier, lambda number: progress("maps", number, total)
    )
    rows = [*map_rows(maps, Bootstrap(total, case.samples, 0))]
    watch.lap("maps")
    words, num_words = _word_rows(case, max_tokens)
    watch.lap("words")
    options = Options(methods=("ablation",), instead="uniform", quantity="score", one_left=False)
    assessment = assess(case.after, case.task, options, None, progress)
    watch.lap("disabling")
    rows += [*words, *_disabled(case, assessment.columns, assessment.record.layers)]
    record = TunedRecord(
        signature=signature(
            case.after,
            case.task.sha256,
            before=revision(case.before.model),
            task=case.task.name,
            n=total,
            metric=case.task.signature,
            **(case.words().signed if case.treebank else {}),
            samples=case.samples,
        ),
        model=name_of(case.before.name),
        tuned=name_of(case.after.name),
        data=tuple(map(name_of, named_files(case.files))),
        examples=case.task.num_examples,
        metric=case.task.metric,
        score=assessment.record.score,
        classifier_accuracy=classifier.accuracy,
        treebank=tuple(file.name for file in case.treebank),
        treebank_sentences=num_words,
        warnings=(
            *case.task.warnings(),
            *few_clusters(total, "example"),
            *(few_clusters(num_words, "sentence") if case.treebank else ()),
        ),
        timings=watch.seconds,
    )
    return TunedMaps(record, tuple(rows))


def _word_rows(case: TunedCase, max_tokens: int) -> tuple[list[TunedRow], int]:
    """Attention to classes of words before and after, and the number of sentences."""
    if not case.treebank:
        return [], 0
    corpus, encoder = case.words(), case.before.encoder()
    census = take_census(corpus, encoder)
    bootstrap = Bootstrap(census.counts.sentences, case.samples, 0)
    rows = []
    for metric, loaded in (("words-before", case.before), ("words-after", case.after)):
        work = Batches(corpus, encoder, census, max_tokens=max_tokens)
        rows += word_rows(metric, attention_to_words(loaded, work), bootstrap)
    return rows, census.counts.sentences


def _disabled(
    case: TunedCase, columns: Mapping[str, np.ndarray], layers: Any
) -> Iterator[TunedRow]:
    """The drop of the score when a head's, or a layer's, attention is uniform."""
    total = case.task.num_examples
    numbers = [columns[f"ablation_{name}"] for name in ("delta", "low", "high")]
    for head, delta, low, high in zip(case.after.heads, *numbers, strict=True):
        ends = (float(delta), float(low), float(high))
        yield TunedRow(head.site, head.layer, str(head), "disabled", "", *ends, total)
    for effect in layers:
        ends = (effect.delta, effect.low, effect.high)
        yield TunedRow(effect.site, effect.layer, "all", "disabled", "", *ends, total)


def kovaleva2019_document(found: TunedMaps) -> Document:
    """The document, from measured maps."""
    record = found.record
    sites = sites_of(found.rows)
    blocks: list[Block] = [
        Text(
            f"Here: {record.model}, fine-tuned as {record.tuned}, on "
            f"{amount(record.examples, 'example')} of {names(record.data)}: "
            f"{in_unit(record.metric, True)} {scale(record.metric) * record.score:.1f}. Intervals "
            "are 95 %, by a bootstrap over examples; those of disabled heads are headcount "
            "importance's. The paper's model is BERT-base, its tasks seven of GLUE."
        ),
        Heading("Patterns (section 4.1): share of maps, per cent"),
        _pattern_table(found, sites),
        Text(
            "The rule is that of headcount analyze. The classifier is a small convolutional "
            f"network trained on generated maps, of which it gets "
            f"{100 * record.classifier_accuracy:.1f} % of held-out ones right. The paper's was "
            "trained on 400 maps labelled by hand."
        ),
        *_agreement(found, sites),
        Heading("Cosine of maps before and after fine-tuning (4.2)"),
        _layer_table(found, sites, "cosine", 1.0),
    ]
    if record.treebank:
        sentences = amount(record.treebank_sentences, "sentence")
        blocks += [
            Heading(
                f"Attention to classes of words (4.3), {sentences} of {names(record.treebank)}"
            ),
            _word_table(found, sites),
        ]
    blocks += [
        Heading("Disabled heads (4.4): drop of the score when a layer's attention is uniform"),
        _layer_table(found, sites, "disabled", scale(record.metric)),
        *_claims(found, sites),
        *(
            Chart(metric, title, partial(_heads_figure, found, metric))
            for metric, title in HEAD_FIGURES.items()
        ),
    ]
    return Document(
        "Revealing the Dark Secrets of BERT (Kovaleva et al. 2019)", tuple(blocks)
    ).ending(record.warnings, record.signature)


def _pattern_table(found: TunedMaps, sites: list[str]) -> Table:
    rows = []
    for site in sites:
        for pattern in PATTERNS:
            numbers = [
                found.find(site, metric, pattern) for metric in ("before", "after", "trained")
            ]
            published = "32 to 61" if pattern == "heterogeneous" else "–"
            rows.append([SITES[site], pattern.replace("_", " + "), published, *map(cell, numbers)])
    headers = ["site", "pattern", "paper", "rule, before", "rule, after", "classifier, after"]
    return Table.of(headers, rows, "Share of maps by pattern")


def _agreement(found: TunedMaps, sites: list[str]) -> Iterator[Text]:
    for site in sites:
        same, kappa = found.find(site, "agreement"), found.find(site, "kappa")
        yield Text(
            f"Rule and classifier agree on {cell(same)} % of the maps of {SITES[site]} "
            f"(Cohen's kappa {cell(kappa, 1.0, 2)})."
        )


def _layer_table(found: TunedMaps, sites: list[str], metric: str, factor: float) -> Table:
    rows = []
    for site in sites:
        for row in found.layers(site, metric):
            heads = sorted(found.heads(site, metric, row.layer), key=lambda each: each.value)
            ends = (f"{each.head} {factor * each.value:.2f}" for each in (heads[0], heads[-1]))
            rows.append([f"{SITES[site]}.{row.layer}", cell(row, factor, 2), *ends])
    headers = ["layer", "all heads", "lowest head", "highest head"]
    return Table.of(headers, rows, HEAD_FIGURES[metric])


def _word_table(found: TunedMaps, sites: list[str]) -> Table:
    rows = []
    for site in sites:
        for kind in WORD_CLASSES:
            numbers = [
                cell(found.find(site, metric, kind))
                for metric in ("words", "words-before", "words-after")
            ]
            if numbers[1] != "–":
                rows.append([SITES[site], kind, *numbers])
    headers = ["site", "class", "share of tokens, %", "attention before, %", "after, %"]
    return Table.of(headers, rows, "Attention by class of words")


def _claims(found: TunedMaps, sites: list[str]) -> Iterator[Text]:
    for site in sites:
        mixed = found.find(site, "after", "heterogeneous")
        if mixed is not None:
            yield verdict(
                0.32 <= mixed.value <= 0.61,
                f"{SITES[site]}: 32 to 61 % of the maps are heterogeneous",
                f"{cell(mixed)} %",
            )
        known = found.layers(site, "cosine")
        if len(known) > 1:
            yield verdict(
                min(known, key=lambda row: row.value) in known[-2:],
                f"{SITES[site]}: the last two layers change most",
                ", ".join(f"{row.layer}: {row.value:.2f}" for row in known),
            )
        heads = found.heads(site, "disabled")
        gains = [row for row in heads if row.value < 0]
        better = sum(row.high < 0 for row in heads)
        # One in 40 intervals lies below 0 if no head has an effect
        p = float(binomtest(better, len(heads), 0.025, "greater").pvalue)
        best = min(heads, key=lambda row: row.value)
        factor = scale(found.record.metric)
        yield verdict(
            p < 0.05,
            f"{SITES[site]}: disabling some heads raises the score",
            f"{len(gains)} of {amount(len(heads), 'head')}, most {best.head}: "
            f"{nats(-factor * best.value, '+')}, uncorrected 95 % interval "
            f"{nats(-factor * best.high, '+')} to {nats(-factor * best.low, '+')}; "
            f"intervals above 0: {better}, where chance expects {0.025 * len(heads):.1f} "
            f"(binomial p = {p:.2g})",
        )


def _heads_figure(found: TunedMaps, metric: str) -> Figure:
    """Layers x heads, shaded by a number of each head."""
    rows = [row for row in found.rows if row.metric == metric and row.head != "all"]
    sites = sites_of(rows)
    figure, grid = grid_of(1, len(sites), (3.6 * len(sites) + 0.8, 2.8))
    factor = scale(found.record.metric) if metric == "disabled" else 1.0
    largest = max((abs(factor * row.value) for row in rows), default=1.0) or 1.0
    image = None
    for axes, site in zip(grid[0], sites, strict=True):
        places = {Head.parse(row.head): factor * row.value for row in rows if row.site == site}
        shape = (1 + max(each.layer for each in places), 1 + max(each.index for each in places))
        numbers = np.full(shape, np.nan)
        for head, value in places.items():
            numbers[head.layer, head.index] = value
        plain_grid(axes, *shape)
        how: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": 1}
        if metric == "disabled":
            how = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
        image = axes.imshow(numbers, aspect="auto", **how)
        axes.set_title(SITE_TITLES.get(site, site))
    if image is not None:
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.85)
        drop = f"drop of {in_unit(found.record.metric, True)}, uniform attention"
        bar.set_label(drop if metric == "disabled" else "cosine before and after fine-tuning")
    return figure
