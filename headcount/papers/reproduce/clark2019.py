"""What Does BERT Look At?: dependency heads, coreference, attention probes and clusters of heads.

These are tables 1, 2 and 3, and section 6 with figure 6.

Reference: What Does BERT Look At? An Analysis of BERT's Attention (Clark et al., 2019),
https://arxiv.org/abs/1906.04341
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from transformers import PreTrainedModel

from headcount.analysis import analyze
from headcount.clusters import ClusterOptions, Clusters, cluster
from headcount.core import (
    Block,
    Chart,
    Document,
    Heading,
    Progress,
    Table,
    Text,
    Warned,
    amount,
    silent,
)
from headcount.coreference import ChosenHead, Coreference, CoreferenceOptions, select_antecedents
from headcount.corpora import Corpus
from headcount.models import Loaded, as_loaded
from headcount.pages import document_of
from headcount.papers.document import about, apart, cell, names, number, verdict
from headcount.probing import Probed, ProbeOptions

HEAD_5_4 = {"all": "65", "pronoun": "64", "proper": "73", "nominal": "58"}
"""Table 2: accuracy of BERT-base's best head, 5-4, on OntoNotes, by kind of mention."""
BASELINES = {"all": ("27", "52", "69")}
"""Table 2: nearest mention, head match and rules."""
SIGNIFICANT = 0.05
"""Largest p of a claim that holds."""


def coreference_runs(
    loaded: Loaded,
    documents: Sequence[str | Path],
    out: Path,
    options: ProbeOptions,
    progress: Progress,
) -> list[Coreference]:
    """Select antecedents in every corpus, that is, in the files of each folder.

    The results of the first corpus are written into `out`, those of others into `out/other`.
    """
    how = CoreferenceOptions(samples=options.samples, seed=options.seed, as_words=options.as_words)
    folders = dict.fromkeys(Path(each).parent for each in documents)
    found = list[Coreference]()
    for folder in folders:
        files = [each for each in documents if Path(each).parent == folder]
        found.append(select_antecedents(loaded, files, how, progress))
        place = out if len(found) == 1 else out / "other" / f"coreference-{len(found)}"
        found[-1].write(place)
        document_of(found[-1]).write(place / "coreference.md")
    return found


def coreference_section(found: Sequence[Coreference]) -> Iterator[Block]:
    """The document's part on coreference."""
    yield Heading("Coreference (table 2): accuracy of the best head, and of baselines")
    for each in found:
        record = each.record
        yield Text(
            f"{amount(record.documents, 'document')} ({names(record.corpora[:1])}"
            f"{' and others' if len(record.corpora) > 1 else ''}) in windows of at most "
            f"{record.window} tokens: {amount(record.cases, 'mention')} with an antecedent in "
            f"their window, {record.out_of_reach:,} more have one before it only."
        )
        yield _coreference_table(record.best)
        yield from map(Warned, record.warnings)
        yield from _coreference_claims(record.best, 2 * record.single > record.cases)
    yield Text(
        "The head is the best one on a random half of the documents; all numbers are those of the "
        "other half. The paper reports the best head on the data that it was found on, OntoNotes "
        "in documents of at most 128 tokens."
    )


def _coreference_table(best: Sequence[ChosenHead]) -> Table:
    rows = [
        [
            each.kind,
            HEAD_5_4[each.kind],
            *BASELINES.get(each.kind, ("–", "–", "–")),
            each.head,
            _points(each),
            *(f"{100 * value:.1f}" for value in (each.nearest, each.head_match, each.rules)),
            f"{each.cases:,}",
        ]
        for each in best
    ]
    titles = ("head", "nearest", "head match", "rules")
    headers = ["mentions", "paper, head 5-4", *(f"paper, {title}" for title in titles[1:])]
    headers += ["head", "here, head", *(f"here, {title}" for title in titles[1:]), "cases"]
    return Table.of(headers, rows, "Accuracy by kind of mention")


def _points(each: ChosenHead) -> str:
    return number(each.accuracy, each.low, each.high)


def _coreference_claims(best: Sequence[ChosenHead], is_trivial: bool) -> Iterator[Text]:
    """The paper's claims on one corpus; none if most mentions have one candidate only."""
    every = next((each for each in best if each.kind == "all"), None)
    if every is None or is_trivial:
        return
    yield verdict(
        every.low > every.head_match,
        "A head resolves coreference better than matching head words does",
        f"{every.head} {_points(every)}, head match {100 * every.head_match:.1f}",
    )
    yield verdict(
        every.high >= every.rules,
        "It comes close to rules",
        f"{every.head} {_points(every)}, rules {100 * every.rules:.1f}",
    )


def clusters_section(found: Clusters, map_of_heads: Iterable[Chart] = ()) -> Iterator[Block]:
    """The document's part on distances between heads.

    Args:
        found: the distances.
        map_of_heads: charts of them.
    """
    record = found.record
    rows = [
        [test.site, f"{test.same_layer:.3f}", f"{test.other_layers:.3f}", f"{test.p:.2g}"]
        for test in record.tests
    ]
    headers = ["site", "heads of one layer", "heads of different layers", "p"]
    nearest = [
        f"{row['head_a']} and {row['head_b']} ({row['distance']:.3f})"
        for row in found.distances.nsmallest(3, "distance").to_dict("records")
    ]
    yield Heading("Clusters of heads (section 6): Jensen-Shannon distances in nats per query")
    yield Text(
        f"{amount(record.sentences, 'sentence')} of {names(record.corpora)}. The paper gives a "
        "map of BERT-base's heads (figure 6), but no numbers."
    )
    yield Table.of(headers, rows, "Mean distances between heads by site")
    yield Text(f"Nearest heads: {', '.join(nearest)}.")
    for test in record.tests:
        yield verdict(
            test.p <= SIGNIFICANT,
            f"Heads of one layer are nearer to each other than to others ({test.site})",
            f"{test.same_layer:.3f} nats within layers, {test.other_layers:.3f} between layers, "
            f"p = {test.p:.2g} in {amount(test.permutations, 'permutation')}",
        )
    yield from map(Warned, record.warnings)
    yield from map_of_heads


PROBES = {
    ("attention", "next-word"): ("next word (the paper: right-branching)", "26"),
    ("attention", "offset"): ("best fixed offset", "–"),
    ("words", "random-init"): ("random weights: attention + word vectors", "30"),
    ("words", "distances"): ("distances + word vectors", "58"),
    ("attention", "trained"): ("attention", "61"),
    ("words", "trained"): ("attention + word vectors", "77"),
}
"""Table 3: UAS by probe and variant, BERT-base on the Penn Treebank."""

RELATIONS = {
    "all": ("all", 34.5, 26.3),
    "case": ("prep", 66.7, 61.8),
    "det": ("det", 94.3, 51.7),
    "compound": ("nn", 70.4, 70.2),
    "nsubj": ("nsubj", 58.5, 45.5),
    "amod": ("amod", 75.6, 68.3),
    "obj": ("dobj", 86.8, 40.0),
    "advmod": ("advmod", 48.8, 40.2),
    "aux": ("aux", 81.1, 71.5),
    "nmod:poss": ("poss", 80.5, 47.7),
    "ccomp": ("ccomp", 48.8, 12.4),
    "mark": ("mark", 50.7, 14.5),
    "compound:prt": ("prt", 99.1, 91.4),
}
"""Table 1: the paper's relation, accuracy of its best head and of the best offset, by UD's name."""


def reproduce_clark2019(
    loaded: Loaded | PreTrainedModel,
    found: Probed,
    test: Sequence[str | Path],
    out: Path,
    options: ProbeOptions | None = None,
    progress: Progress = silent,
    *,
    documents: Sequence[str | Path] = (),
) -> Document:
    """Measure relations, coreference and clusters, and return the document.

    Of an encoder-decoder relations and clusters are left out, since a treebank has no targets.

    Args:
        loaded: the model.
        found: its probes of attention, with and without word vectors (`attention`, `words`).
        test: the files that they were measured on.
        out: folder for the results on coreference and clusters.
        options: options of the probes.
        progress: called with the progress.
        documents: files with coreference (see `corpora/coreference.py`); none leaves it out.
    """
    loaded = as_loaded(loaded)
    options = options or ProbeOptions()
    relations, parts = None, list[Block]()
    if documents:
        parts += coreference_section(coreference_runs(loaded, documents, out, options, progress))
    if not loaded.model.config.is_encoder_decoder:
        corpus = Corpus(test, as_words=options.as_words)
        relations = analyze(loaded, corpus, progress=progress).relations
        corpus = Corpus(test, limit=options.test_limit, as_words=options.as_words)
        clusters = cluster(loaded, corpus, ClusterOptions(seed=options.seed), progress)
        clusters.write(out)
        shown = document_of(clusters)
        shown.write(out / "clusters.md")
        parts += clusters_section(
            clusters,
            (each for each in shown.blocks if isinstance(each, Chart) and each.name == "clusters"),
        )
    document = clark2019_document(found, relations)
    return replace(document, blocks=(*document.blocks, *parts))


def clark2019_document(found: Probed, relations: pd.DataFrame | None) -> Document:
    """The document's part on probes and on the accuracies of heads by relation."""
    blocks: list[Block] = [
        about(found),
        Text(
            "The paper's model is BERT-base, its data the Penn Treebank with Stanford dependencies."
        ),
        Heading("Attention probes (table 3): UAS without punctuation"),
        _probe_table(found),
        Text(
            f"Word vectors: {found.record.vectors}, known for "
            f"{100 * (found.record.vectors_found or 0):.1f} % of the test words (the paper: GloVe)."
        ),
        *_claims(found),
    ]
    if relations is not None:
        blocks += [
            Heading("Heads and relations (table 1): accuracy of the best head and the best offset"),
            _relation_table(relations, found.record.min_cases),
            Text(
                "Relations of Universal Dependencies stand for Stanford's. UD's “case” links a "
                "preposition to its noun, where Stanford's “prep” links it to the governor of the "
                "phrase."
            ),
        ]
    return Document("What Does BERT Look At? (Clark et al. 2019)", tuple(blocks))


def _probe_table(found: Probed) -> Table:
    rows = []
    for (probe, variant), (title, published) in PROBES.items():
        numbers = [
            cell(found.find(probe=probe, variant=variant, metric=metric, relation="all"))
            for metric in ("uas", "las", "uas-tree")
        ]
        rows.append([title, published, *numbers])
    headers = ["probe", "paper, UAS", "here, UAS", "here, LAS", "here, UAS of best trees"]
    return Table.of(headers, rows, "Accuracy of arcs by probe")


def _claims(found: Probed) -> Iterator[Text]:
    def uas(probe: str, variant: str = "trained"):
        return found.find(probe=probe, variant=variant, metric="uas", relation="all")

    attention, words, offset = uas("attention"), uas("words"), uas("attention", "offset")
    random, distances = uas("words", "random-init"), uas("words", "distances")
    yield verdict(
        apart(attention, offset),
        "Attention maps hold much of the syntax",
        f"attention {cell(attention)}, best fixed offset {cell(offset)}",
    )
    yield verdict(
        apart(words, attention),
        "Word vectors add to it",
        f"with vectors {cell(words)}, without {cell(attention)}",
    )
    yield verdict(
        apart(words, distances),
        "Attention says more than distances do",
        f"attention {cell(words)}, distances {cell(distances)}, both with word vectors",
    )
    yield verdict(
        apart(words, random),
        "It is training that puts syntax there",
        f"trained {cell(words)}, random weights {cell(random)}",
    )


def _relation_table(relations: pd.DataFrame, min_cases: int) -> Table:
    rows = []
    found = [row for row in relations.to_dict("records") if row["direction"] != "head->dependent"]
    for name, (theirs, published, offset) in RELATIONS.items():
        of_relation = [row for row in found if row["relation"] == name]
        if not of_relation:
            continue
        best = max(of_relation, key=lambda row: row["accuracy"])
        few = ", too few" if best["cases"] < min_cases else ""
        rows.append(
            [
                name,
                theirs,
                f"{published:.1f}",
                f"{offset:.1f}",
                f"{100 * best['accuracy']:.1f}",
                f"{100 * best['baseline']:.1f}",
                str(best["head"]),
                f"{int(best['cases']):,}{few}",
            ]
        )
    headers = ["relation", "paper's", "paper, head", "paper, offset"]
    headers += ["here, head", "here, offset", "head", "cases"]
    return Table.of(headers, rows, "Accuracy of the best head by relation")
