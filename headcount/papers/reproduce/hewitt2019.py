"""A Structural Probe for Finding Syntax: scores by layer (table 1, figure 3) and rank (figure 5).

Reference: A Structural Probe for Finding Syntax in Word Representations (Hewitt and Manning, 2019),
https://aclanthology.org/N19-1419/
"""

from collections.abc import Iterator, Mapping

from headcount.core import Document, Heading, Table, Text
from headcount.papers.document import about, apart, cell, verdict
from headcount.probing import Probed, ProbeRow
from headcount.results import select

METRICS = {
    "uuas": ("UUAS", "79.8"),
    "spearman-distance": ("distances", "85"),
    "root": ("root", "88.0"),
    "spearman-depth": ("depths", "87"),
}
"""Table 1: BERT-base, hidden state 7, times 100."""

RANKS = {1: 27, 2: 39, 4: 51, 8: 66, 16: 74, 32: 78, 64: 80, 128: 80, 256: 80, 512: 80}
"""Figure 5: UUAS of BERT-base, hidden state 7, by rank, as far as it can be read."""


HEWITT_RANKS = (64, *(rank for rank in RANKS if rank != 64))
"""The paper's ranks; the first one is for every hidden state."""


def hewitt2019_document(found: Probed) -> Document:
    """The document, from structural probes (`structure`)."""
    by_layer, rank = _by_layer(found)
    headers = ["hidden state", *(title for title, _ in METRICS.values())]
    ranks = _rank_rows(found, rank, by_layer)
    by_rank = Table.of(["rank", "paper, UUAS", "here, UUAS"], ranks, "UUAS by rank")
    return Document(
        "A Structural Probe for Finding Syntax in Word Representations (Hewitt and Manning 2019)",
        (
            about(found),
            Text(
                "The paper's model is BERT-base, its data the Penn Treebank with Stanford "
                "dependencies. Distances and depths are rank correlations, times 100."
            ),
            Heading(f"By hidden state, rank {rank} (table 1)"),
            Table.of(headers, _layer_rows(found), "Scores by hidden state"),
            *((Heading("By rank (figure 5)"), by_rank) if ranks else ()),
            Heading("Claims"),
            *_claims(found, by_layer),
        ),
    )


def _by_layer(found: Probed) -> tuple[dict[int, ProbeRow], int]:
    """UUAS of every hidden state at the first rank, and that rank."""
    rows = select(found.rows, metric="uuas", variant="trained")
    rank = rows[0].rank or 0
    return {row.layer or 0: row for row in rows if row.rank == rank}, rank


def _layer_rows(found: Probed) -> list[list[str]]:
    published = ["BERT-base, 7 (paper)", *(value for _, value in METRICS.values())]
    by_layer, rank = _by_layer(found)
    rows = [published]
    for layer in by_layer:
        where = {"variant": "trained", "layer": layer, "rank": rank}
        rows.append([str(layer), *(cell(found.find(metric=each, **where)) for each in METRICS)])
    random = found.find(metric="uuas", variant="random-init")
    if random is not None:
        where = {"variant": "random-init", "layer": random.layer, "rank": rank}
        numbers = (cell(found.find(metric=each, **where)) for each in METRICS)
        rows.append([f"{random.layer}, random weights", *numbers])
    return rows


def _rank_rows(found: Probed, first: int, by_layer: Mapping[int, ProbeRow]) -> list[list[str]]:
    trained = select(found.rows, metric="uuas", variant="trained")
    others = {row.rank or 0: row for row in trained if row.rank != first}
    if not others:
        return []
    layer = next(iter(others.values())).layer or 0
    ranks = {**others, first: by_layer[layer]}
    return [
        [str(rank), str(RANKS.get(rank, "–")), cell(row)] for rank, row in sorted(ranks.items())
    ]


def _claims(found: Probed, by_layer: Mapping[int, ProbeRow]) -> Iterator[Text]:
    best = max(by_layer, key=lambda layer: by_layer[layer].value)
    random = found.find(metric="uuas", variant="random-init")
    last = max(by_layer)
    yield verdict(
        apart(by_layer[best], random),
        "Trees are in hidden states as squared distances, by training",
        f"hidden state {best}: {cell(by_layer[best])}, random weights {cell(random)}",
    )
    yield verdict(
        0 < best < last
        and apart(by_layer[best], by_layer.get(0))
        and apart(by_layer[best], by_layer[last]),
        "Middle layers hold most of the tree",
        f"UUAS of hidden states 0, {best} and {last}: {cell(by_layer.get(0))}, "
        f"{cell(by_layer[best])}, {cell(by_layer[last])}",
    )
