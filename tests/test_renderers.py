"""Every cell and every sentence of a document is in all of its renderings."""

import html
import re
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from headcount.commands.console import LONGEST_SIGNATURE, print_document
from headcount.core import (
    Bars,
    Chart,
    Code,
    Document,
    Facts,
    Listing,
    Table,
    new_figure,
    save,
    say,
    shortened,
    styled,
)
from headcount.pages import render, report_view
from headcount.pages.assets import inline_svg
from headcount.results import Analysis, Result, read_run
from tests.alignment.test_document import alignment
from tests.clusters.test_document import clusters
from tests.coreference.test_document import coreference
from tests.explanation.test_document import made_circuits, made_explained
from tests.pages.pruned_folder import prune_record, write_curve_beside
from tests.pages.run_folder import Wish, write_run
from tests.skills.test_page import made_skills

RESULTS: dict[str, Result[Any]] = {
    "skills": made_skills([f"enc.{layer}.{index}" for layer in range(4) for index in range(3)]),
    "explained": replace(
        made_explained([f"enc.{n // 3}.{n % 3}" for n in range(12)]), **made_circuits()
    ),
    "clusters": clusters(0.01),
    "coreference": coreference(0.65),
    "alignment": alignment(),
}
HEADS = {place.head for place in clusters(0.01).places}
"""Heads of the results."""
DRAWING = r'<svg role="img" aria-label="[^"]+" class="drawn".*?</svg>'
KEYS = ("worth", "curve", "pruned", "syntax", *RESULTS, "layers", "null", "numbers", "methods")
"""All sections."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """A run with everything that a page shows."""
    wish = Wish(layers=4, heads=3, profiles=True, importance=True, null=True)
    folder = write_run(tmp_path_factory.mktemp("run"), wish)
    write_curve_beside(folder)
    heads = [row.head for row in read_run(folder).rows]
    prune_record(heads, heads[:7]).write(folder / "pruned")
    return replace(read_run(folder, folder / "pruned"), beside=tuple(RESULTS.values()))


@pytest.fixture(scope="module")
def shown(run: Analysis) -> dict[str, tuple[Document, str]]:
    """The document and the HTML of each section."""
    view = report_view(run)
    page = render(view)
    html_of = {
        each.key: page[page.index(f'<section id="{each.key}"') :].split("</section>")[0]
        for each in view.sections
    }
    return {each.key: (each.view, html_of[each.key]) for each in view.sections}


def test_these_are_all(shown: dict[str, tuple[Document, str]]) -> None:
    assert {*shown} == {*KEYS}


def squeezed(text: str) -> str:
    return " ".join(text.split())


def words_of(shown: Document, most: int) -> list[str]:
    """Every cell, every sentence, and as many characters of a signature."""
    found = [shown.title]
    for block in shown.blocks:
        if isinstance(block, Table):
            found += [block.label] if block.is_detail else []
            found += [*block.headers, *(cell for row in block.rows for cell in row)]
        elif isinstance(block, Facts):
            found += [cell for row in block.rows for cell in row]
        elif isinstance(block, Bars):
            found += [block.label, *(cell for bar in block.rows for cell in (bar.name, bar.words))]
        elif isinstance(block, Listing):
            found += [block.label, *block.text.splitlines()]
        elif not isinstance(block, Chart):
            found.append(shortened(block.text, most) if isinstance(block, Code) else block.text)
    return list(map(squeezed, found))


@pytest.mark.parametrize("key", KEYS)
def test_all_renderings_say_the_same(key: str, shown: dict[str, tuple[Document, str]]) -> None:
    assert_all_say(*shown[key])


def assert_all_say(document: Document, section: str) -> None:
    """Check that the terminal, Markdown and HTML say all that a document does."""
    written = StringIO()
    print_document(document, Console(file=written, width=5000))
    renderings = {
        "terminal": document.title + written.getvalue(),
        "Markdown": html.unescape(document.markdown().replace("\\", "")),
        "page": html.unescape(re.sub('<span class="swatch.*?</span>|<[^>]*>', "", section)),
    }
    for name, rendering in renderings.items():
        text = squeezed(rendering)
        for words in words_of(document, LONGEST_SIGNATURE if name == "terminal" else 10**6):
            assert words in text, (name, words)


@pytest.mark.once
@pytest.mark.parametrize("key", KEYS)
def test_charts_are_files_beside_markdown_and_drawings_on_the_page(
    key: str, shown: dict[str, tuple[Document, str]], tmp_path: Path, one_format: None
) -> None:
    document, section = shown[key]
    document.write(tmp_path / "shown.md", ("svg",))
    charts = [each.name for each in document.blocks if isinstance(each, Chart)]
    drawn = [path.stem for path in tmp_path.glob("figures/*")]
    assert {*drawn} <= {*charts}
    written = (tmp_path / "shown.md").read_text()
    linked = re.findall(r"!\[([\w-]+)\]\(figures/[\w-]+\.svg\)", written)
    assert linked == [each for each in charts if each in drawn]
    drawings = re.findall(DRAWING, section, re.S)
    assert len(drawings) == len(drawn)


def test_drawings_share_no_ids_and_link_to_cards(
    run: Analysis, shown: dict[str, tuple[Document, str]]
) -> None:
    page = "".join(section for _, section in shown.values())
    ids, heads = re.findall(r'\bid="([^"]+)"', page), {row.head for row in run.rows}
    assert [each for each, number in Counter(ids).items() if number > 1] == []
    drawings = re.findall(DRAWING, page, re.S)
    for drawing in drawings:
        assert "<style" not in drawing and "_blank" not in drawing
        used = set(re.findall(r'(?:url\(|xlink:href=")#([^")]+)', drawing))
        others = [each for each in used if each not in ids]
        assert all(each in heads or each in HEADS for each in others), "cards of heads"


def test_marks_say_their_numbers_and_link_to_the_cards_of_their_heads() -> None:
    def draw() -> Figure:
        figure = new_figure(2.0, 2.0)
        axes = figure.subplots()
        say(axes.scatter([0, 1], [0, 1]), ["1 < 2", "second"], ["enc.0.1", "enc.0.2"])
        say(axes.scatter([0.12345], [2]), ["0.12345"])
        return figure

    drawn = inline_svg(Chart("x", "X", draw)) or ""
    links = re.findall(r'<a xlink:href="#(\S+)" tabindex="-1"><title>([^<]*)</title>', drawn)
    assert links == [("enc.0.1", "1 &lt; 2"), ("enc.0.2", "second")]
    assert "<g><title>0.12345</title>" in drawn and "target" not in drawn


def test_a_title_that_the_page_says_is_in_the_files_of_the_figure_only(tmp_path: Path) -> None:
    def draw() -> Figure:
        figure = new_figure(4.0, 2.0)
        for axes, title in zip(figure.subplots(1, 2), ("Loss", "a panel"), strict=True):
            axes.set_title(title)
        return figure

    chart = Chart("loss", "Loss", draw)
    drawn = inline_svg(chart) or ""
    assert ">Loss<" not in drawn and ">a panel<" in drawn
    with styled():
        assert chart.figure is not None
        file = save(chart.figure, tmp_path / "loss.svg").read_text(encoding="utf-8")
    assert ">Loss<" in file and ">a panel<" in file
