"""Documents on distances, links and antecedents: what they say of given numbers."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from headcount.alignment import Alignment, AlignmentRecord, AlignmentRow
from headcount.clusters import Clusters, ClustersRecord, HeadPlace, LayerTest
from headcount.core import Chart
from headcount.coreference import (
    ChosenHead,
    Coreference,
    CoreferenceRecord,
    CoreferenceRow,
    NameRow,
)
from headcount.pages import document_of, write_documents
from headcount.pages.assets import inline_svg
from headcount.pages.sentences import model_and_data
from headcount.results import ImportanceRecord, Result


@pytest.mark.slow
def test_a_page_names_the_model_and_the_data(tmp_path: Path) -> None:
    found = clusters(0.01)
    record = replace(found.record, model="/models/mini", corpora=("a.txt", "b.txt"))
    write_documents(replace(found, record=record), document_of(found), tmp_path, ("svg",))
    page = (tmp_path / "clusters.html").read_text(encoding="utf-8")
    head = re.search(r"<header>.*</header>", page, re.S)
    assert head is not None and "mini <span" in head[0] and "/models" not in head[0]
    assert "headcount cluster on a.txt and b.txt" in squeezed(re.sub(r"<[^>]+>", "", head[0]))


def test_a_record_without_names_takes_those_of_the_arguments() -> None:
    given = {"model": "tiny", "data": ["a.tsv"], "dev": ["b.tsv"], "test": [], "limit": 3}
    record = ImportanceRecord(task="translation", num_examples=3, arguments=given)
    assert model_and_data(record) == ("tiny", "a.tsv and b.tsv")
    assert model_and_data(replace(record, arguments={})) == ("", "")
    assert model_and_data(replace(record, arguments={"texts": []})) == ("", "our sample of texts")


def told(found: Result[Any]) -> str:
    """The document as Markdown."""
    return document_of(found).markdown()


def squeezed(text: str) -> str:
    """The text with single spaces, since columns of tables are padded."""
    return " ".join(text.split())


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


@pytest.mark.slow
def test_a_chart_is_drawn_once_for_files_and_page(tmp_path: Path) -> None:
    """With the layout that it has where it is drawn anew."""
    found, drawn = clusters(0.01), list[str]()

    def counted(chart: Chart) -> Chart:
        def draw() -> Figure | None:
            drawn.append(chart.name)
            return chart.draw()

        return replace(chart, draw=draw)

    shown = document_of(found)
    blocks = (counted(each) if isinstance(each, Chart) else each for each in shown.blocks)
    once = replace(shown, blocks=tuple(blocks))
    write_documents(found, once, tmp_path, ("svg",))
    assert sorted(drawn) == sorted(shown.charts)
    page = (tmp_path / "clusters.html").read_text()
    for chart in shown.blocks:
        assert not isinstance(chart, Chart) or str(inline_svg(chart)) in page


def test_one_layer_has_no_test() -> None:
    assert "Encoder self-attention: there is one layer only" in told(clusters(float("nan")))


def test_alignment_in_words() -> None:
    def row(head: str, aer: float, quantity: str = "weights", level: str = "head") -> AlignmentRow:
        return AlignmentRow(
            head=head,
            level=level,
            quantity=quantity,
            direction="input",
            aer=aer,
            aer_low=aer - 0.01,
            aer_high=aer + 0.01,
            precision=0.5,
            recall=0.6,
        )

    rows = (
        row("cross.0.1", 0.4),
        row("cross.0.0", 0.25),
        row("cross.0.2", 0.22, "norms"),
        row("cross.0", 0.3, level="layer"),
    )
    record = AlignmentRecord(
        signature="sig",
        model="marian",
        corpora=(),
        gold="gold.txt",
        pairs=20,
        sure=30,
        possible=40,
        cases=35,
    )
    text = squeezed(told(Alignment(record, rows)))
    assert "20 pairs with 30 sure and 40 possible links (gold.txt)" in text
    assert "By its weights cross.0.0 links words best (input): its error rate is 0.250 (0.240 to "
    assert "the next is cross.0.1 with 0.400." in text
    places = [text.index(f"| {head} ") for head in ("cross.0.2", "cross.0.0", "cross.0.1")]
    assert places == sorted(places), "the lowest error first, of weights and norms together"
    assert "| cross.0 | weights | input | 0.300 | 0.290 to 0.310 |" in text


def coreference(accuracy: float, single: int = 0) -> Coreference:
    numbers = {"accuracy": accuracy, "low": accuracy - 0.04, "high": accuracy + 0.04}
    rules = {"nearest": 0.3, "head_match": 0.6, "rules": 0.7}
    facts = {"documents": 5, "windows": 5, "window": 512, "mentions": 90, "cases": 50}
    best = ChosenHead(kind="all", head="enc.2.1", chosen_on=0.9, cases=25, **numbers, **rules)
    record = CoreferenceRecord(
        signature="sig",
        model="bert",
        corpora=(),
        out_of_reach=0,
        single=single,
        too_long=0,
        best=(best,),
        **facts,  # pyright: ignore
    )
    rows = tuple(
        CoreferenceRow(
            head=f"enc.2.{index}",
            kind="all",
            cases=50,
            **rules,
            **numbers | {"accuracy": accuracy - index / 10},
        )
        for index in range(3)
    )
    return Coreference(record, rows)


def test_coreference_in_words() -> None:
    text = squeezed(told(coreference(0.65)))
    assert "bert: 50 mentions of 5 documents with an antecedent in a window of at most 512" in text
    assert (
        "enc.2.1 points at an antecedent of 65.0 % of the mentions (61.0 to 69.0), above the "
        "nearest mention and head match and below rules."
    ) in text
    near = told(coreference(0.62))
    assert "above the nearest mention and below rules." in near, "head match is in the interval"
    assert "| enc.2.1 | all | 0.650 | 0.610 to 0.690 | 25 | 0.300 | 0.600 | 0.700 |" in text
    assert text.index("| enc.2.0 | all | 0.650") < text.index("| enc.2.2 | all | 0.450")
    assert "above the nearest mention, head match and rules." in told(coreference(0.9))
    assert "GAP" not in text
    names = NameRow(
        head="enc.4.1",
        gender="feminine",
        f1=0.6,
        low=0.5,
        high=0.7,
        accuracy=0.65,
        passages=1200,
        nearest=0.4,
    )
    found = coreference(0.65)
    asked = replace(found, record=replace(found.record, best_names=(names,)))
    assert ("| enc.4.1 | feminine | 0.600 | 0.500 to 0.700 | 0.650 | 1,200 | 0.400 |") in squeezed(
        told(asked)
    )
    assert "so every choice is right" in told(coreference(1.0, single=50))
