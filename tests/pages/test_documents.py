"""What documents of all results share: the head of the page, and charts that are drawn once."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from headcount.core import Chart
from headcount.pages import document_of, write_documents
from headcount.pages.assets import inline_svg
from headcount.pages.sentences import model_and_data
from headcount.results import ImportanceRecord
from tests.pages.said import squeezed


@pytest.mark.slow
def test_a_page_names_the_model_and_the_data(tmp_path: Path) -> None:
    from tests.clusters.test_document import clusters

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


@pytest.mark.slow
def test_a_chart_is_drawn_once_for_files_and_page(tmp_path: Path) -> None:
    """With the layout that it has where it is drawn anew."""
    from tests.clusters.test_document import clusters

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
