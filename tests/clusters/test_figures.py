"""Figures of distances between heads: every head is drawn, coloured by role or by layer."""

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex

from headcount.clusters import Clusters, ClustersRecord, HeadPlace
from headcount.clusters.document import cluster_map
from headcount.core import styled
from headcount.vocabulary import roles_named

RECORD = ClustersRecord(
    signature="s", model="m", corpora=(), sentences=1, queries={}, within=0.1, tests=()
)


def clusters() -> Clusters:
    heads = ("enc.0.0", "enc.0.1", "enc.1.0", "cross.0.0", "cross.0.1")
    places = [
        HeadPlace(head=head, group=number, order=number, x=float(number), y=0.5)
        for number, head in enumerate(heads)
    ]
    return Clusters(RECORD, tuple(places), pd.DataFrame())


def test_a_point_for_every_head_in_its_role_s_colour() -> None:
    with styled():
        figure = cluster_map(clusters(), {"enc.0.0": ["positional", "rare"], "enc.1.0": ["rare"]})
    first, second = figure.axes
    assert [text.get_text() for text in first.texts] == ["0.0", "0.1", "1.0"]
    assert [text.get_text() for text in second.texts] == ["0.0", "0.1"]
    (dots,) = first.collections
    colours = [to_hex(each) for each in np.asarray(dots.get_facecolor())]
    assert dots.get_urls()[0] == "#enc.0.0", "a link to the card"
    names = roles_named(["positional", "rare"])
    expected = [names["positional"].colour, "#ffffff", names["rare"].colour]
    assert colours == [each.lower() for each in expected]


def test_layers_give_the_colours_without_roles() -> None:
    with styled():
        figure = cluster_map(clusters())
    (dots,) = figure.axes[0].collections
    colours = [to_hex(each) for each in np.asarray(dots.get_facecolor())]
    assert colours[0] == colours[1] != colours[2]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["layer  0", "layer  1"]
