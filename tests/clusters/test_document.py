"""The document on clusters: what it says of given numbers."""

import pandas as pd
import pytest

from headcount.clusters import Clusters, ClustersRecord, HeadPlace, LayerTest
from headcount.core import Chart
from headcount.pages import document_of
from tests.pages.said import squeezed, told


def clusters(p: float, same: float = 0.2) -> Clusters:
    heads = ("enc.0.0", "enc.1.0", "enc.3.1", "enc.0.1")
    groups = (0, 0, 0, 1)
    places = [
        HeadPlace(head=head, group=group, order=0, x=0.0, y=0.0)
        for head, group in zip(heads, groups, strict=True)
    ]
    test = LayerTest(site="encoder.self", same_layer=same, other_layers=0.3, p=p, permutations=99)
    record = ClustersRecord(
        signature="sig",
        model="bert",
        corpora=(),
        sentences=1000,
        queries={},
        within=0.1,
        tests=(test,),
        warnings=("2 were cut",),
    )
    frame = pd.DataFrame(
        {
            "head_a": ["enc.0.0", "enc.0.0"],
            "head_b": ["enc.1.0", "enc.0.1"],
            "distance": [0.06, 0.0512],
        }
    )
    return Clusters(record, tuple(places), frame)


def test_clusters_in_words() -> None:
    text = squeezed(told(clusters(0.01)))
    assert "bert: 4 heads on 1,000 sentences." in text
    assert "Heads of one layer are nearer to each other (p = 0.01, 99 permutations)." in text
    assert "3 heads in 1 group of two or more; 1 head without a near one." in text
    assert "| 3 | 0, 1, 3 | enc.0.0 enc.1.0 enc.3.1 |" in text
    assert text.index("enc.0.1 | 0.051") < text.index("enc.1.0 | 0.060"), "the nearest first"
    assert "Warning: 2 were cut." in text and "`sig`" in text


@pytest.mark.parametrize(("p", "same"), [(0.2, 0.2), (0.01, 0.4)])
def test_layers_that_are_not_near_are_not_said_to_be(p: float, same: float) -> None:
    assert "Heads of one layer are not clearly nearer" in told(clusters(p, same))


def test_figures_of_clusters_are_details_of_the_page() -> None:
    charts = [each for each in document_of(clusters(0.01)).blocks if isinstance(each, Chart)]
    assert [(each.name, each.is_detail) for each in charts] == [
        ("clusters", True),
        ("distances", True),
    ]


def test_one_layer_has_no_test() -> None:
    assert "Encoder self-attention: there is one layer only" in told(clusters(float("nan")))
