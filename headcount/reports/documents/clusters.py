"""What distances between heads show: groups that look at the same places, and what layers share."""

from collections.abc import Mapping, Sequence

from headcount.core import Chart, Document, Head, Heading, Table, Text, amount
from headcount.reports.figures.head_relations import cluster_map, distance_matrix
from headcount.reports.names import SITE_TITLES
from headcount.results import Clusters, LayerTest

SHOWN = 10
"""Number of pairs and of groups in a table."""


def clusters_document(
    found: Clusters, roles: Mapping[str, Sequence[str]] | None = None
) -> Document:
    """The document of clusters.

    Args:
        found: the clusters.
        roles: roles by head, the main one first, which colour the map; None colours by layer.
    """
    record, groups = found.record, [group for group in found.groups if len(group) > 1]
    groups.sort(key=len, reverse=True)
    return Document(
        "Which heads look at the same places",
        (
            Text(f"Within {record.within} nats: {_grouped(found, groups)}", "lede"),
            Text(
                f"{record.model}: {amount(len(found.places), 'head')} on "
                f"{amount(record.sentences, 'sentence')}. A distance is the mean Jensen-Shannon "
                "divergence of two heads' weights per query, from 0 to 0.69 nats."
            ),
            *(Text(_layers_sentence(test)) for test in record.tests),
            Chart(
                "clusters",
                "Heads near each other look at the same places",
                lambda: cluster_map(found, roles),
                is_detail=True,
            ),
            *((Heading("Largest groups"), _groups(groups)) if groups else ()),
            Heading("Nearest heads"),
            Table.of(
                ("head", "head", "nats"),
                (
                    (str(row["head_a"]), str(row["head_b"]), f"{row['distance']:.3f}")
                    for row in found.distances.nsmallest(SHOWN, "distance").to_dict("records")
                ),
                "Pairs of heads with the smallest distances",
            ),
            Chart(
                "distances",
                "Distances between all heads: dark is near",
                lambda: distance_matrix(found),
                is_detail=True,
            ),
        ),
    )


def _groups(groups: Sequence[Sequence[str]]) -> Table:
    rows = ((str(len(each)), _layers(each), " ".join(each)) for each in groups[:SHOWN])
    return Table.of(("heads", "layers", "names"), rows, "Groups with the most heads")


def _layers(heads: Sequence[str]) -> str:
    return ", ".join(map(str, sorted({Head.parse(head).layer for head in heads})))


def _grouped(found: Clusters, groups: Sequence[Sequence[str]]) -> str:
    """The number of groups, of heads in them, and of heads on their own."""
    heads = sum(map(len, groups))
    return (
        f"{amount(heads, 'head')} in {amount(len(groups), 'group')} of two or more; "
        f"{amount(len(found.places) - heads, 'head')} without a near one."
    )


def _layers_sentence(test: LayerTest) -> str:
    """What a test of the layers found."""
    site = SITE_TITLES.get(test.site, test.site)
    if test.p != test.p:
        return f"{site}: there is one layer only, or one head in each layer."
    is_near = test.p <= 0.05 and test.same_layer < test.other_layers
    return (
        f"{site}: heads of one layer are {test.same_layer:.3f} nats apart, heads of different "
        f"layers {test.other_layers:.3f}. Heads of one layer are "
        f"{'nearer to each other' if is_near else 'not clearly nearer'} (p = {test.p:.2g}, "
        f"{amount(test.permutations, 'permutation')})."
    )
