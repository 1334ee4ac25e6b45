"""What probes show: what the heads know together, and what each adds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import final

from headcount import numbers
from headcount.core import Block, Chart, Document, Heading, Table, Text
from headcount.pages import CardPart, Note, PagePart, ProbeHead
from headcount.probing.figures import PROBE_FIGURES, VARIANTS
from headcount.probing.result import Probed, ProbeRow
from headcount.results import Analysis
from headcount.vocabulary import CLARK

_PROBE_TITLES = {
    "attention": "heads of words, from attention",
    "words": "heads of words, from attention and word vectors",
    "edges": "pairs of words, from attention",
    "structure": "trees, from hidden states",
    "layers": "tags and relations, from hidden states",
}
_METRIC_TITLES = {
    "uas": "right head (UAS)",
    "las": "right head and relation (LAS)",
    "uas-tree": "UAS, best tree",
    "las-tree": "LAS, best tree",
    "edge-accuracy": "arc or none",
    "edge-accuracy-selectivity": "arc or none, less random labels",
    "relation-accuracy": "which relation",
    "relation-accuracy-selectivity": "which relation, less random labels",
    "uuas": "edges of trees (UUAS)",
    "spearman-distance": "rank correlation of distances",
    "spearman-depth": "rank correlation of depths",
    "root": "root",
    "tag-accuracy": "part of speech",
}
_SHOWN_HEADS = 8


_NOTES = {
    "attention": Note(
        "Attention probe",
        "The head of a word is the candidate with the largest weighted sum of all heads' attention "
        "in both directions.",
        f"{CLARK}, section 5",
    ),
    "edges": Note(
        "Edge probe",
        "A linear classifier of word pairs by the attention of all heads between them, beside the "
        "same with random labels.",
        "Coenen et al., NeurIPS 2019, arXiv:1906.02715, section 3",
    ),
    "structure": Note(
        "Structural probe",
        "A linear map of hidden states under which squared distances are those of the tree.",
        "Hewitt and Manning, NAACL 2019, aclanthology.org/N19-1419",
    ),
    "layers": Note(
        "Layer probes",
        "Linear classifiers of tags and relations by each layer's hidden states.",
        "Tenney et al., ACL 2019, arXiv:1905.05950",
    ),
}
"""How each probe works; that of words is the attention probe with word vectors."""
_NOTES["words"] = _NOTES["attention"]


def probes_notes(found: Probed) -> tuple[Note, ...]:
    """How the probes that were trained work."""
    return tuple(dict.fromkeys(_NOTES[each] for each in found.record.probes))


def probes_document(found: Probed) -> Document:
    """The document of probes."""
    return Document(
        "What the heads know together",
        (
            Text(_lede(found), "lede"),
            *_heads(found),
            *(block for name in _PROBE_TITLES for block in _numbers(found, name)),
            *(
                Chart(name, says, lambda draw=draw: draw(found), is_detail=True)
                for name, (says, draw) in PROBE_FIGURES.items()
            ),
        ),
    )


def _heads(found: Probed) -> Iterator[Block]:
    """The heads that add most to the attention probe."""
    rows = [
        (row.head, row.from_dependent, row.from_head, row.contribution)
        for row in [*probe_heads(found).values()][:_SHOWN_HEADS]
    ]
    if rows:
        yield Heading("Heads that add most to the attention probe")
        yield Text(
            "Weights of the attention from a word to a candidate head and back, and by how much "
            "the head raises the right candidate above the mean of all."
        )
        yield Table.of(("head", "from the word", "from its head", "adds"), rows)


def _numbers(found: Probed, name: str) -> Iterator[Block]:
    """The numbers of one probe over all relations."""
    if rows := _shown(found, name):
        headers = ("what is probed", "what is right", "share", "95 % interval")
        yield Heading(f"Probe of {_PROBE_TITLES[name]}")
        yield Table.of(headers, map(_cells, rows))


def _lede(found: Probed) -> str:
    record = found.record
    sizes = (
        f"Probes were trained on {numbers.count(record.train_sentences)} sentences and measured on "
        f"{numbers.count(record.test_sentences)} others."
    )
    own = found.find(probe="attention", variant="trained", metric="uas")
    base = found.find(probe="attention", variant="offset", metric="uas")
    if own is None or base is None:
        return sizes
    return (
        f"One weight for each head gives {numbers.percent(own.value)} of the words their right "
        f"head; the best fixed offset gives {numbers.percent(base.value)}. {sizes}"
    )


def _shown(found: Probed, name: str) -> Sequence[ProbeRow]:
    """The rows over all relations; of structural probes, those of the first rank."""
    rows = [row for row in found.rows if row.probe == name and row.relation == "all"]
    rank = rows[0].rank if rows else None
    return [row for row in rows if row.metric in _METRIC_TITLES and row.rank == rank]


def _cells(row: ProbeRow) -> tuple[str, ...]:
    place = "" if row.layer is None else f", hidden state {row.layer}"
    return (
        VARIANTS.get(row.variant, row.variant) + place,
        _METRIC_TITLES[row.metric],
        numbers.minus(f"{100 * row.value:.1f} %"),
        numbers.minus(numbers.ends(100 * row.low, 100 * row.high, "{:.1f}".format)) + " %",
    )


def probe_heads(found: Probed | None) -> dict[str, ProbeHead]:
    """What each head adds to the attention probe, the most first."""
    weights = () if found is None else found.weights
    ordered = sorted(weights, key=lambda each: -each.contribution)
    return {
        each.head: ProbeHead(
            each.head,
            numbers.nats(each.from_dependent, "+"),
            numbers.nats(each.from_head, "+"),
            f"{numbers.nats(each.contribution, '+')} nats",
            numbers.rank(place, len(ordered)),
        )
        for place, each in enumerate(ordered)
    }


@final
class _ProbingPart(PagePart):
    """What heads add to the attention probe, on their cards."""

    def cards(self, run: Analysis) -> Mapping[str, CardPart]:
        """What each head adds."""
        found = probe_heads(run.of(Probed))
        return {head: CardPart(probe=each) for head, each in found.items()}


PART = _ProbingPart()
