"""What Does BERT Look At?: coreference (table 2) and distances between heads (section 6, figure 6).

Reference: What Does BERT Look At? An Analysis of BERT's Attention (Clark et al., 2019),
https://arxiv.org/abs/1906.04341
"""

from collections.abc import Sequence
from pathlib import Path

from headcount.core import Progress, amount, table
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.papers.document import names, number, verdict
from headcount.probes import (
    ClusterOptions,
    CoreferenceOptions,
    ProbeOptions,
    cluster,
    select_antecedents,
)
from headcount.reports import write_clusters_document, write_coreference_document
from headcount.results import (
    ChosenHead,
    Clusters,
    Coreference,
)

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
        write_coreference_document(found[-1], place)
    return found


def clusters_run(
    loaded: Loaded,
    files: Sequence[str | Path],
    out: Path,
    options: ProbeOptions,
    progress: Progress,
) -> Clusters:
    """Measure distances between all heads on a treebank; write tables, document and map."""
    corpus = Corpus(files, limit=options.test_limit, as_words=options.as_words)
    found = cluster(loaded, corpus, ClusterOptions(seed=options.seed), progress)
    found.write(out)
    write_clusters_document(found, out)
    return found


def coreference_section(found: Sequence[Coreference]) -> list[str]:
    """Paragraphs of the document on coreference."""
    parts = ["## Coreference (table 2): accuracy of the best head, and of baselines"]
    for each in found:
        record = each.record
        parts += [
            f"{amount(record.documents, 'document')} ({names(record.corpora[:1])}"
            f"{' and others' if len(record.corpora) > 1 else ''}) in windows of at most "
            f"{record.window} tokens: {amount(record.cases, 'mention')} with an antecedent in "
            "their "
            f"window, {record.out_of_reach:,} more have one before it only.",
            _coreference_table(record.best),
            *(f"Warning: {warning}." for warning in record.warnings),
            "\n".join(_coreference_claims(record.best, 2 * record.single > record.cases)),
        ]
    parts.append(
        "The head is the best one on a random half of the documents; all numbers are those of the "
        "other half. The paper reports the best head on the data that it was found on, OntoNotes "
        "in documents of at most 128 tokens."
    )
    return [part for part in parts if part]


def _coreference_table(best: Sequence[ChosenHead]) -> str:
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
    return table(headers, rows)


def _points(each: ChosenHead) -> str:
    return number(each.accuracy, each.low, each.high)


def _coreference_claims(best: Sequence[ChosenHead], is_trivial: bool) -> list[str]:
    """The paper's claims on one corpus; none if most mentions have one candidate only."""
    every = next((each for each in best if each.kind == "all"), None)
    if every is None or is_trivial:
        return []
    return [
        verdict(
            every.low > every.head_match,
            "A head resolves coreference better than matching head words does",
            f"{every.head} {_points(every)}, head match {100 * every.head_match:.1f}",
        ),
        verdict(
            every.high >= every.rules,
            "It comes close to rules",
            f"{every.head} {_points(every)}, rules {100 * every.rules:.1f}",
        ),
    ]


def clusters_section(found: Clusters) -> list[str]:
    """Paragraphs of the document on distances between heads."""
    record = found.record
    rows = [
        [
            test.site,
            f"{test.same_layer:.3f}",
            f"{test.other_layers:.3f}",
            f"{test.p:.2g}",
        ]
        for test in record.tests
    ]
    lines = [
        verdict(
            test.p <= SIGNIFICANT,
            f"Heads of one layer are nearer to each other than to others ({test.site})",
            f"{test.same_layer:.3f} nats within layers, {test.other_layers:.3f} between layers, "
            f"p = {test.p:.2g} in {amount(test.permutations, 'permutation')}",
        )
        for test in record.tests
    ]
    nearest = [
        f"{row['head_a']} and {row['head_b']} ({row['distance']:.3f})"
        for row in found.distances.nsmallest(3, "distance").to_dict("records")
    ]
    return [
        "## Clusters of heads (section 6): Jensen-Shannon distances in nats per query",
        f"{amount(record.sentences, 'sentence')} of {names(record.corpora)}. The paper gives a "
        "map of BERT-base's heads (figure 6), but no numbers.",
        table(["site", "heads of one layer", "heads of different layers", "p"], rows),
        f"Nearest heads: {', '.join(nearest)}.",
        "\n".join(lines),
        *(f"Warning: {warning}." for warning in record.warnings),
        "![clusters](figures/clusters.svg)",
    ]
