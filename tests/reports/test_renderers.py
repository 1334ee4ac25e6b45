"""Every cell and every sentence of a document is in all of its renderings."""

import html
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headcount.cli.console import print_document
from headcount.core import Chart, Document, Table
from headcount.reports import document_of, render, report_view
from headcount.results import Analysis, Result, read_run
from tests.reports.run_folder import Wish, write_run
from tests.reports.test_documents import clusters, coreference
from tests.reports.test_head_relation_views import alignment


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return read_run(write_run(tmp_path_factory.mktemp("run"), Wish(layers=4, heads=3)))


def squeezed(text: str) -> str:
    return " ".join(text.split())


def words_of(shown: Document) -> list[str]:
    """Every cell and every sentence."""
    found = [shown.title]
    for block in shown.blocks:
        if isinstance(block, Table):
            found += [*block.headers, *(cell for row in block.rows for cell in row)]
        elif not isinstance(block, Chart):
            found.append(block.text)
    return list(map(squeezed, found))


RESULTS: dict[str, Result[Any]] = {
    "clusters": clusters(0.01),
    "coreference": coreference(0.65),
    "alignment": alignment(),
}


@pytest.mark.parametrize("key", RESULTS)
def test_all_renderings_say_the_same(key: str, run: Analysis) -> None:
    shown, written = document_of(RESULTS[key]), StringIO()
    print_document(shown, Console(file=written, width=500))
    page = render(report_view(replace(run, **{key: RESULTS[key]})))
    section = page[page.index(f'<section id="{key}"') :].split("</section>")[0]
    renderings = {
        "terminal": shown.title + written.getvalue(),
        "Markdown": html.unescape(shown.markdown().replace("\\", "")),
        "page": html.unescape(re.sub("<[^>]*>", "", section)),
    }
    for name, rendering in renderings.items():
        text = squeezed(rendering)
        for words in words_of(shown):
            assert words in text, (name, words)


@pytest.mark.parametrize("key", RESULTS)
def test_charts_are_files_beside_markdown_and_drawings_on_the_page(
    key: str, run: Analysis, tmp_path: Path, one_format: None
) -> None:
    shown = document_of(RESULTS[key])
    shown.write(tmp_path / "shown.md", ("svg",))
    charts = [each.name for each in shown.blocks if isinstance(each, Chart)]
    assert charts and {path.stem for path in (tmp_path / "figures").iterdir()} == set(charts)
    linked = re.findall(r"!\[(\w+)\]\(figures/\w+\.svg\)", (tmp_path / "shown.md").read_text())
    assert linked == charts
    page = render(report_view(replace(run, **{key: RESULTS[key]})))
    drawings = re.findall(r'<svg role="img" aria-label="[^"]+" class="drawn".*?</svg>', page, re.S)
    assert len(drawings) == len(charts)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "figures share no ids"
    for drawing in drawings:
        assert "<style" not in drawing and "_blank" not in drawing
        used = set(re.findall(r'(?:url\(|xlink:href=")#([^")]+)', drawing))
        others = [each for each in used if each not in ids]
        assert all(re.fullmatch(r"enc\.\d\.\d", each) for each in others), "cards of heads"
