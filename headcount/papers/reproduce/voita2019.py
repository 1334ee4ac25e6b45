"""Analyzing Multi-Head Self-Attention: its tables and figures on functions, with our numbers.

It covers which heads matter and what they do (sections 4 and 5, figures 1 and 2; functions are our
roles, tested on sentences that did not choose them), syntactic heads
(table 1), the positions of dependents (figure 3) and rare tokens (figure 5), but not pruning.

Reference: Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can
Be Pruned (Voita et al., 2019), https://arxiv.org/abs/1905.09418
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from headcount import numbers
from headcount.analysis import Options, analyze
from headcount.core import (
    Block,
    Chart,
    Document,
    Heading,
    InputError,
    Progress,
    Table,
    Text,
    amount,
    silent,
)
from headcount.corpora import Corpus
from headcount.importance import Options as ScoreOptions
from headcount.importance import assess, correlation, read_assessment
from headcount.models import Loaded, as_loaded
from headcount.pages import SITE_TITLES, write_report
from headcount.papers.document import per_cent
from headcount.papers.reproduce.voita2019_figures import (
    FUNCTIONS,
    RELATIONS,
    function_maps,
    positions,
    rare_maps,
)
from headcount.results import Analysis, HeadRow, RelationResult, read_run
from headcount.tasks import Task

SYNTACTIC = {
    ("nsubj", "head->dependent"): ("v→s", (45, 35), (77, 45)),
    ("nsubj", "dependent->head"): ("s→v", (52, 35), (70, 45)),
    ("obj", "head->dependent"): ("v→o", (78, 41), (61, 46)),
    ("obj", "dependent->head"): ("o→v", (73, 41), (84, 46)),
    ("amod", "head->dependent"): ("n→a", (74, 72), (81, 80)),
    ("amod", "dependent->head"): ("a→n", (82, 72), (81, 80)),
    ("advmod", "head->dependent"): ("v→a", (48, 46), (38, 33)),
    ("advmod", "dependent->head"): ("a→v", (52, 46), (42, 33)),
}
"""Table 1: best head and baseline in per cent, WMT and OpenSubtitles. UD's obj was dobj."""


def reproduce_voita2019(
    loaded: Loaded | PreTrainedModel,
    task: Task,
    treebank: Corpus,
    out: Path,
    *,
    options: Options | None = None,
    arguments: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    keep_scores: bool = False,
) -> Document:
    """Analyse a treebank, measure relevance on a task, write a report, and return the document.

    What an unfinished call with the same model, data and options left in the folder is resumed.

    Args:
        loaded: the model.
        task: the task that relevance is measured on.
        treebank: sentences with trees, in the source language.
        out: folder for the results.
        options: options of the analysis, e.g. what is rare.
        arguments: arguments of the command, for the records.
        progress: function that is called with the progress.
        keep_scores: whether scores of an earlier run in the folder are kept.
    """
    loaded = as_loaded(loaded)
    options = options or Options()
    analysis = analyze(loaded, treebank, options, out, progress)
    analysis.recorded(arguments or {}).write(out, keep_scores)
    relevance = ScoreOptions(("relevance",), average="per-step")
    assessment = assess(
        loaded, task, relevance, out=out, progress=progress, max_tokens=options.max_tokens
    )
    assessment.recorded(arguments or {}).write(out)
    write_report(out)
    return read_voita2019(out, treebank)


def treebank_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The CoNLL-U files at some paths: files as they are, and all files of folders by name.

    Raises:
        InputError: if a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.conllu")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"Expected a folder with .conllu files, but {path} has none.")
        files += found
    return tuple(files)


def check_only_relevance(folder: Path) -> None:
    """Check that measuring relevance alone would not replace other scores in a folder.

    Raises:
        InputError: if the folder holds an assessment by other methods.
    """
    if not (folder / "importance.json").exists():
        return
    methods = read_assessment(folder, "relevance").record.methods
    if methods != ("relevance",):
        raise InputError(
            f"{folder} holds an assessment by {', '.join(methods)}, which "
            "relevance alone would replace. Name another folder, or add --overwrite."
        )


def read_voita2019(folder: Path, treebank: Corpus) -> Document:
    """The document, from the folder of an analysis of a treebank with relevance.

    Raises:
        InputError: if the folder holds no analysis, or relevance was not measured.
    """
    run = read_run(folder)
    if "relevance" not in run.measures:
        raise InputError(
            f"Expected an analysis with relevance in {folder}, but it has none. Run `headcount "
            f"importance ... --methods relevance --out {folder}` first"
        )
    return voita2019_document(run, dependent_positions(treebank))


def dependent_positions(treebank: Corpus) -> dict[str, dict[int, int]]:
    """Number of dependents at each position from their head, in words, by relation."""
    counts: dict[str, Counter[int]] = {}
    for sentence in treebank:
        tree = sentence.tree
        if tree is None:
            continue
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if head >= 0:
                counts.setdefault(relation, Counter())[word - head] += 1
    return {relation: dict(each) for relation, each in counts.items()}


def voita2019_document(run: Analysis, offsets: dict[str, dict[int, int]]) -> Document:
    """The document.

    Args:
        run: an analysis of a treebank, with relevance.
        offsets: number of dependents at each position from their head, by relation.
    """
    record, found = run.record, run.importance
    relevance = (
        f" Relevance on the task {found.task}, {amount(found.num_examples, 'example')}. "
        f"{found.average_words}"
        if found
        else ""
    )
    return Document(
        "Analyzing Multi-Head Self-Attention (Voita et al., 2019), with our numbers",
        (
            Text(
                f"{amount(record.counts.sentences, 'sentence')} of {', '.join(record.corpora)}."
                f"{relevance} Published numbers are for other models on other data: "
                "Transformer-base (6 layers x 8 heads at three sites), EN-RU, on WMT and on "
                "OpenSubtitles."
            ),
            *_functions(run),
            *_syntactic(run),
            *_positions(offsets),
            *_rare(run),
        ),
    ).ending((), str(record.signature))


def functions_of(row: HeadRow) -> list[str]:
    """The paper's functions that a head has."""
    return [name for name in FUNCTIONS if name in row.roles]


def _functions(run: Analysis) -> Iterator[Block]:
    rows = [line for site, heads in run.by_site() for line in _site_lines(site, heads)]
    header = ["site", "function", "heads", "confidence", "relevance", "share of relevance, %"]
    yield Heading("Which heads matter, and what they do (sections 4 and 5, figures 1 and 2)")
    yield Table.of(header, rows, "Heads by function")
    yield Text(
        "A function passes the paper's threshold and a test, both on the half of the treebank that "
        "did not choose it."
    )
    yield Text(_most_relevant(run))
    yield from map(Text, _with_confidence(run))
    yield Chart(
        "voita2019_figure1",
        "Relevance, confidence and functions of all heads",
        partial(function_maps, run),
    )


def _site_lines(site: str, heads: list[HeadRow]) -> Iterator[list[str]]:
    """Means over the heads with each function, and over those with none."""
    groups = {name: [row for row in heads if name in functions_of(row)] for name in FUNCTIONS}
    groups["none of these"] = [row for row in heads if not functions_of(row)]
    total = sum(abs(_relevance(row)) for row in heads)
    for name, rows in groups.items():
        means = [_mean(row.values["confidence"] for row in rows), _mean(map(_relevance, rows))]
        part = sum(abs(_relevance(row)) for row in rows) / total if total else math.nan
        shown = map(numbers.correlation, means)
        yield [SITE_TITLES.get(site, site), name, str(len(rows)), *shown, per_cent(part)]


def _most_relevant(run: Analysis) -> str:
    """A sentence on the most relevant head of every layer and how many of them have a function."""
    best = [
        max((row for row in heads if row.layer == layer), key=_relevance)
        for _, heads in run.by_site()
        for layer in sorted({row.layer for row in heads})
    ]
    with_function = [row for row in best if functions_of(row)]
    heads = [row for row in run.rows if functions_of(row)]
    expected = len(best) * len(heads) / len(run.rows)
    return (
        f"Of the {amount(len(best), 'head')} that are the most relevant in their layer, "
        f"{len(with_function)} have one of the functions ({expected:.1f} expected by chance): "
        f"{', '.join(row.head for row in with_function) or 'none'}."
    )


def _with_confidence(run: Analysis) -> Iterator[str]:
    """The correlation of relevance and confidence, by site; the paper finds that they agree."""
    for site, heads in run.by_site():
        relevance = np.array([_relevance(row) for row in heads])
        found = correlation(relevance, np.array([row.values["confidence"] for row in heads]))
        yield (
            f"{SITE_TITLES.get(site, site)}: relevance and confidence have Spearman's rho {found} "
            f"over {amount(found.num_heads, 'head')}."
        )


def _syntactic(run: Analysis) -> Iterator[Block]:
    yield Heading(
        "Syntactic heads (table 1): accuracy of the best head / of the best fixed offset, %"
    )
    if run.relation_rows is None:
        yield Text("Not measured: the corpus has no trees.")
        return
    rows = []
    for (relation, direction), (arrow, wmt, subtitles) in SYNTACTIC.items():
        best = _best(run.relation_rows, relation, direction)
        here, cases, head, tested = "–", "0", "–", "–"
        if best is not None:
            here = f"{per_cent(best.accuracy)} / {per_cent(best.baseline)}"
            cases, head = f"{best.cases:,}", best.head
            tested = _tested(run, best)
        published = [f"{accuracy} / {baseline}" for accuracy, baseline in (wmt, subtitles)]
        rows.append([relation, arrow, *published, here, head, cases, tested])
    header = ["relation", "direction", "WMT", "OpenSubtitles", "here", "head", "cases", "tested"]
    yield Table.of(header, rows, "Accuracy of the best head by relation")
    yield Text(
        "As in the paper, “here” is the best of all heads on the whole treebank, which is too high "
        "by chance. “tested”: the head with the largest gain in one half of the treebank for this "
        "relation, in the direction chosen with it, and its accuracy / the best fixed offset in "
        "the other half."
    )


def _tested(run: Analysis, best: RelationResult) -> str:
    """The head that one half of the treebank chooses for a relation, on the other half."""
    rows = [
        trait
        for traits in (run.traits or {}).values()
        for trait in traits
        if (trait.relation, trait.direction) == (best.relation, best.direction)
    ]
    chosen = max(rows, key=lambda each: _or_least(each.first_gain), default=None)
    if chosen is None:
        return "–"
    return f"{per_cent(chosen.share)} / {per_cent(chosen.chance)} ({chosen.head}, {chosen.verdict})"


def _or_least(number: float) -> float:
    return -math.inf if math.isnan(number) else number


def _best(
    relations: Sequence[RelationResult], relation: str, direction: str
) -> RelationResult | None:
    rows = [one for one in relations if (one.relation, one.direction) == (relation, direction)]
    return max(rows, key=lambda one: one.accuracy, default=None)


def _positions(offsets: dict[str, dict[int, int]]) -> Iterator[Block]:
    rows = []
    for relation in RELATIONS:
        counts = offsets.get(relation, {})
        total = sum(counts.values())
        places = [
            per_cent(counts.get(place, 0) / total) if total else "–" for place in (-2, -1, 1, 2)
        ]
        rows.append([relation, f"{total:,}", *places])
    header = ["relation", "cases", "−2", "−1", "+1", "+2"]
    yield Heading("Positions of dependents relative to their head (figure 3): share of cases, %")
    yield Table.of(header, rows, "Share of dependents by position")
    yield Chart("voita2019_figure3", "Positions of dependents", partial(positions, offsets))


def _rare(run: Analysis) -> Iterator[Block]:
    known = [row for row in run.rows if not math.isnan(row.values["rare_share"])]
    yield Heading("Rare tokens (figure 5): where the largest weight goes, % of queries")
    rows = [
        ["paper, OpenSubtitles", "first layer", "66", "83"],
        ["paper, WMT", "first layer", "–", "> 50"],
    ]
    for site, heads in run.by_site():
        rows += [
            [
                f"here, {SITE_TITLES.get(site, site)}",
                row.head,
                per_cent(row.values["rare_share"]),
                per_cent(row.values["rare2_share"]),
            ]
            for row in sorted(
                (row for row in heads if row in known), key=lambda row: -row.values["rare2_share"]
            )[:1]
        ]
    header = ["", "head", "to the rarest token", "to one of the two rarest"]
    yield Table.of(header, rows, "Share of queries that look at rare tokens")
    yield Chart(
        "voita2019_figure5",
        "Share of queries that look most at one of the two rarest tokens",
        partial(rare_maps, run),
    )


def _relevance(row: HeadRow) -> float:
    return row.values.get("relevance", math.nan)


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else math.nan
